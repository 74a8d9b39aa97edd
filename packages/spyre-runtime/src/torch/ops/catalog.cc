// SPDX-License-Identifier: Apache-2.0
// Registers the native kernels: each row for the functional, in-place and out variant of its
// operator.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <functional>
#include <map>
#include <memory>

#include "torch/fallback.h"
#include "torch/ops/checked.h"
#include "torch/ops/kernels.h"
#include "torch/ops/pointwise.h"
#include "torch/ops/reduce.h"
#include "torch/ops/transformer.h"
#include "torch/whole_on_host.h"

namespace spyre::aten {
namespace {

using Run = std::function<bool(Call&)>;

/// A native kernel as the dispatcher holds it.
class NativeKernel final : public c10::OperatorKernel {
 public:
  NativeKernel(const c10::FunctionSchema& schema, Run run)
      : signature_(schema), run_(std::move(run)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    Call call(signature_, *stack);
    if (!run_(call)) cpu_fallback(op, stack);
  }

 private:
  Signature signature_;
  Run run_;
};

using Overloads = std::map<std::string, std::vector<c10::OperatorHandle>>;

/// All overloads of aten, by name without overload.
Overloads all_overloads() {
  Overloads result;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    if (auto op = dispatcher.findSchema(name)) result[name.name].push_back(*op);
  }
  return result;
}

/// Whether `variant` takes the arguments of `base`, followed by out arguments if any.
bool is_variant(const c10::FunctionSchema& base, const c10::FunctionSchema& variant) {
  const auto& a = base.arguments();
  const auto& b = variant.arguments();
  if (b.size() < a.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].name() != b[i].name() || *a[i].type() != *b[i].type()) return false;
  }
  for (size_t i = a.size(); i < b.size(); ++i) {
    if (!b[i].is_out()) return false;
  }
  return true;
}

/// The overload itself, its in-place and its out variant. Those that PyTorch composes of other ops
/// for autograd's sake are left to it.
std::vector<c10::OperatorHandle> variants(const Overloads& overloads, const std::string& name) {
  const size_t dot = name.find('.');
  const c10::OperatorName full("aten::" + name.substr(0, dot),
                               dot == std::string::npos ? "" : name.substr(dot + 1));
  const auto base = c10::Dispatcher::singleton().findSchema(full);
  TORCH_INTERNAL_ASSERT(base, "the table of native kernels names aten::", name,
                        ", which this PyTorch does not have");
  std::vector<c10::OperatorHandle> result{*base};
  for (const std::string& family : {full.name, full.name + "_"}) {
    const auto found = overloads.find(family);
    if (found == overloads.end()) continue;
    for (const c10::OperatorHandle& op : found->second) {
      if (op.operator_name() == full || !is_variant(base->schema(), op.schema())) continue;
      const bool is_mutable = op.schema().is_mutable();
      if (is_mutable && !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
        result.push_back(op);
      }
    }
  }
  return result;
}

void add(torch::Library& library, const Overloads& overloads, std::vector<CatalogEntry>& entries,
         const std::string& name, const std::string& types, const std::string& kind,
         const Run& run) {
  CatalogEntry entry{"aten::" + name, types, kind, {}};
  for (const c10::OperatorHandle& op : variants(overloads, name)) {
    const c10::OperatorName& full = op.operator_name();
    const std::string text =
        full.name + (full.overload_name.empty() ? "" : "." + full.overload_name);
    library.impl(text.c_str(),
                 torch::CppFunction::makeFromBoxedKernel(c10::BoxedKernel::makeFromFunctor(
                     std::make_unique<NativeKernel>(op.schema(), run))));
    entry.variants.push_back(text);
  }
  // A kernel without dtypes computes nothing itself.
  if (!types.empty()) entries.push_back(std::move(entry));
}

std::vector<CatalogEntry>& entries() {
  static std::vector<CatalogEntry> entries;
  return entries;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  const Overloads overloads = all_overloads();
  for (const PointwiseOp& op : pointwise_ops()) {
    add(library, overloads, entries(), op.name, op.types, "pointwise",
        [&op](Call& call) { return run_pointwise(op, call); });
  }
  for (const ReduceOp& op : reduce_ops()) {
    add(library, overloads, entries(), op.name, op.types, "reduction",
        [&op](Call& call) { return run_reduce(op, call); });
  }
  const std::pair<const char*, const std::vector<Kernel>&> lists[] = {
      {"normalization", normalize_kernels()},
      {"product", matmul_kernels()},
      {"indexing", index_kernels()},
      {"indexing", advanced_index_kernels()},
      {"creation", fill_kernels()},
      {"joining", join_kernels()},
      {"attention", attention_kernels()},
      {"convolution", convolution_kernels()},
      {"pooling", pool_kernels()},
      {"upsampling", upsample_kernels()},
      {"normalization", group_norm_kernels()},
      {"normalization", batch_norm_kernels()},
      {"loss", nll_loss_kernels()},
      {"scan", scan_kernels()},
      {"sorting", sort_kernels()},
      {"composition", compose_kernels()},
      {"transformer", transformer_kernels()},
      {"check", checked_kernels()},
  };
  for (const auto& [kind, kernels] : lists) {
    for (const Kernel& kernel : kernels) {
      add(library, overloads, entries(), kernel.name, kernel.types, kind, kernel.run);
    }
  }
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  register_whole_operators(library, c10::DispatchKey::AutogradPrivateUse1);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  register_whole_operators(library, c10::DispatchKey::PrivateUse1);
}

}  // namespace

const std::vector<CatalogEntry>& catalog() { return entries(); }

}  // namespace spyre::aten
