// SPDX-License-Identifier: Apache-2.0
// The negative log likelihood of class indices, composed; sums are float32.
#include <ATen/TensorOperators.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "torch/ops/kernels.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;

enum Reduction : int64_t { kNone, kMean, kSum };

/// The targets, and what each counts: 0 where it is to be ignored.
struct Targets {
  at::Tensor index;   ///< [rows], in range where ignored
  at::Tensor weight;  ///< [rows], float32
};

bool can_compute(const at::Tensor& self, const at::Tensor& target,
                 const std::optional<at::Tensor>& weight) {
  const bool has_rows = self.dim() == 2 && target.dim() == 1 && target.size(0) == self.size(0);
  const bool has_none = self.dim() == 1 && target.dim() == 0;
  return is_float_on_device(self) && is_spyre(target) && self.numel() != 0 &&
         (has_rows || has_none) && target.scalar_type() == ScalarType::Long &&
         (!weight ||
          (is_float_on_device(*weight) && weight->dim() == 1 && weight->size(0) == self.size(-1)));
}

Targets read(const at::Tensor& target, const std::optional<at::Tensor>& weight, int64_t ignored) {
  const at::Tensor flat = target.reshape({-1});
  const at::Tensor counts = flat != ignored;
  Targets result{at::where(counts, flat, 0), counts.to(ScalarType::Float)};
  if (weight) {
    result.weight = result.weight * weight->index_select(0, result.index).to(ScalarType::Float);
  }
  return result;
}

/// nll_loss_forward(self, target, weight, reduction, ignore_index)
bool forward(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& target = call.tensor(1);
  const std::optional<at::Tensor> weight = call.maybe_tensor(2);
  const ScalarType dtype = self.scalar_type();
  if (!can_compute(self, target, weight) || !call.outputs_are(self.device(), {dtype, dtype}))
    return false;
  const Targets targets = read(target, weight, call[4].toInt());
  const at::Tensor rows = self.reshape({-1, self.size(-1)});
  const at::Tensor chosen =
      at::gather(rows, 1, targets.index.unsqueeze(1)).squeeze(1).to(ScalarType::Float);
  // Not a product: what is ignored may be infinite.
  at::Tensor loss = at::where(targets.weight != 0, chosen * targets.weight, 0).neg();
  at::Tensor total = at::sum(targets.weight);
  const int64_t reduction = call[3].toInt();
  if (reduction == kNone) {
    loss = loss.reshape(target.sizes());
    total = at::zeros_like(total);
  } else {
    loss = at::sum(loss);
    if (reduction == kMean) loss = loss / total;
  }
  call.deliver({loss.to(dtype), total.to(dtype)});
  return true;
}

/// nll_loss_backward(grad, self, target, weight, reduction, ignore_index, total_weight). The total
/// is counted anew: in a half dtype it is rounded.
bool backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& self = call.tensor(1);
  const at::Tensor& target = call.tensor(2);
  const std::optional<at::Tensor> weight = call.maybe_tensor(3);
  const ScalarType dtype = self.scalar_type();
  if (!can_compute(self, target, weight) || !is_spyre(grad) || grad.scalar_type() != dtype ||
      !call.outputs_are(self.device(), {dtype}))
    return false;
  const Targets targets = read(target, weight, call[5].toInt());
  at::Tensor each = targets.weight.neg() * grad.reshape({-1}).to(ScalarType::Float);
  if (call[4].toInt() == kMean) each = each / at::sum(targets.weight);
  at::Tensor result = at::zeros_like(self, {}, c10::MemoryFormat::Contiguous);
  result.view({-1, self.size(-1)})
      .scatter_(1, targets.index.unsqueeze(1), each.to(dtype).unsqueeze(1));
  call.deliver({std::move(result)});
  return true;
}

}  // namespace

const std::vector<Kernel>& nll_loss_kernels() {
  static const std::vector<Kernel> kernels = {{"nll_loss_forward", forward, "f"},
                                              {"nll_loss_backward", backward, "f"}};
  return kernels;
}

}  // namespace spyre::aten
