// SPDX-License-Identifier: Apache-2.0
#include "torch/operator_traits.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace spyre::aten {
namespace {

/// convolution_backward also wants the bias sizes, after (grad_output, input, weight).
void insert_bias_sizes(torch::jit::Stack& stack, size_t begin) {
  const bool is_transposed = stack[begin + 6].toBool();
  const at::Tensor& weight = stack[begin + 2].toTensor();
  const int64_t groups = stack[begin + 8].toInt();
  const int64_t channels = is_transposed ? weight.size(1) * groups : weight.size(0);
  stack.insert(stack.begin() + static_cast<std::ptrdiff_t>(begin) + 3,
               c10::IValue(std::vector<int64_t>{channels}));
}

constexpr OperatorTraits kNoTraits = {};

// The half kernels of the CPU's convolutions give wrong values for some strides, paddings and
// dilations (seen in 2.13); its histc places elements by positions that are too coarse in half, and
// has none for integers, which models count experts with on every other device.
constexpr OperatorTraits kTraits[] = {
    {.name = "aten::convolution_overrideable",
     .in_float32 = InFloat32::kHalves,
     .host_name = "aten::convolution"},
    {.name = "aten::convolution_backward_overrideable",
     .in_float32 = InFloat32::kHalves,
     .host_name = "aten::convolution_backward",
     .adapt = insert_bias_sizes},
    {.name = "aten::convolution*", .in_float32 = InFloat32::kHalves},
    {.name = "aten::histc", .in_float32 = InFloat32::kHalvesAndIntegers},

    // running_mean and running_var, if training
    {.name = "aten::native_batch_norm", .unmarked_writes = {3, 4, 5}},

    {.name = "aten::uniform_", .is_drawn_on_host = true, .lower_bound = 1},
    {.name = "aten::normal_", .is_drawn_on_host = true},
    {.name = "aten::random_", .is_drawn_on_host = true},
    {.name = "aten::bernoulli_", .is_drawn_on_host = true},
    {.name = "aten::cauchy_", .is_drawn_on_host = true},
    {.name = "aten::exponential_", .is_drawn_on_host = true},
    {.name = "aten::geometric_", .is_drawn_on_host = true},
    {.name = "aten::log_normal_", .is_drawn_on_host = true},
    {.name = "aten::randperm", .is_drawn_on_host = true},

    // A row's helpers: tolerances in float64; half spectra in complex; statistics of an empty batch
    // in float64.
    {.name = "aten::linalg_*", .whole = Whole::kWithDerivative},
    {.name = "aten::_linalg_*", .whole = Whole::kWithDerivative},
    {.name = "aten::pinverse", .whole = Whole::kWhenRefused},
    {.name = "aten::fft_*", .whole = Whole::kWhenRefused},
    {.name = "aten::stft", .whole = Whole::kWhenRefused},
    {.name = "aten::batch_norm", .whole = Whole::kWhenRefused},
    // Derivatives with norms and grids in float64.
    {.name = "aten::renorm", .whole = Whole::kWithDerivative},
    {.name = "aten::grid_sampler_2d",
     .whole = Whole::kWithDerivative,
     .in_float32 = InFloat32::kHalves},
    // Positions in a grid are too coarse in half.
    {.name = "aten::grid_sampler_*", .in_float32 = InFloat32::kHalves},
};

bool matches(const OperatorTraits& traits, std::string_view name) {
  if (!traits.name.ends_with('*')) return traits.name == name;
  return name.starts_with(traits.name.substr(0, traits.name.size() - 1));
}

struct Records {
  std::shared_mutex mutex;
  std::unordered_map<c10::OperatorName, std::unique_ptr<OperatorRecord>> by_name;
};

// Leaked: operators may run while static destructors do.
Records& records() {
  static auto& instance = *new Records;
  return instance;
}

}  // namespace

const OperatorTraits& traits_of(std::string_view name) {
  for (const OperatorTraits& traits : kTraits) {
    if (matches(traits, name)) return traits;
  }
  return kNoTraits;
}

const OperatorRecord& record_of(const c10::OperatorHandle& op) {
  Records& all = records();
  const c10::OperatorName& full = op.operator_name();
  {
    const std::shared_lock lock(all.mutex);
    if (const auto found = all.by_name.find(full); found != all.by_name.end()) {
      return *found->second;
    }
  }
  auto record = std::make_unique<OperatorRecord>();
  record->name = full.overload_name.empty() ? full.name : full.name + "." + full.overload_name;
  record->label = "spyre::fallback::" + record->name;
  record->traits = traits_of(full.name);
  const std::unique_lock lock(all.mutex);
  return *all.by_name.try_emplace(full, std::move(record)).first->second;
}

bool wants_float32(const OperatorTraits& traits, c10::ScalarType dtype) {
  if (traits.in_float32 == InFloat32::kNever) return false;
  if (dtype == c10::ScalarType::Half || dtype == c10::ScalarType::BFloat16) return true;
  return traits.in_float32 == InFloat32::kHalvesAndIntegers &&
         c10::isIntegralType(dtype, /*includeBool=*/false);
}

}  // namespace spyre::aten
