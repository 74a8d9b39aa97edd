// SPDX-License-Identifier: Apache-2.0
// Group normalisation, composed, in float32 throughout.
#include <ATen/TensorOperators.h>
#include <ATen/ops/native_group_norm_native.h>
#include <ATen/ops/sum.h>

#include <optional>

#include "torch/ops/kernels.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

/// The numbers beside the input say how it is divided; the CPU's kernel reads by them alone.
void check_division(const Call& call, const at::Tensor& self, int first) {
  const int64_t batch = call[first].toInt(), channels = call[first + 1].toInt(),
                positions = call[first + 2].toInt(), groups = call[first + 3].toInt();
  TORCH_CHECK(batch >= 0 && channels >= 0 && groups > 0 && channels % groups == 0 &&
                  batch * channels * positions == self.numel(),
              call.signature().name, " got an input of shape ", self.sizes(), " for batch ", batch,
              ", ", channels, " channels of ", positions, " elements and ", groups,
              " groups; their product must be its size, and channels a multiple of groups");
}

/// native_group_norm(input, weight, bias, batch, channels, positions, groups, eps): in float32 by
/// PyTorch's composition, which is of batch norms; in the CPU's memory format.
bool group_norm(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const std::optional<at::Tensor> weight = call.maybe_tensor(1), bias = call.maybe_tensor(2);
  auto is_alike = [&](const std::optional<at::Tensor>& x) {
    return !x || (x->device() == self.device() && x->scalar_type() == self.scalar_type() &&
                  x->dim() == 1 && x->numel() == call[4].toInt());
  };
  if (!is_float_on_device(self) || self.numel() == 0 || !is_alike(weight) || !is_alike(bias) ||
      call.has_output())
    return false;
  check_division(call, self, 3);
  auto maybe_wide = [](const std::optional<at::Tensor>& x) {
    return x ? std::optional(wide(*x)) : std::nullopt;
  };
  auto [out, mean, inverse] = at::native::math_group_norm(
      wide(self).contiguous(), maybe_wide(weight), maybe_wide(bias), call[3].toInt(),
      call[4].toInt(), call[5].toInt(), call[6].toInt(), call[7].toDouble());
  const c10::ScalarType dtype = self.scalar_type();
  call.finish(
      {out.to(dtype).contiguous(self.suggest_memory_format()), mean.to(dtype), inverse.to(dtype)});
  return true;
}

/// native_group_norm_backward(grad, input, mean, inverse, weight, batch, channels, positions,
/// groups, wanted)
bool group_norm_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  const std::optional<at::Tensor> weight = call.maybe_tensor(4);
  for (int i = 0; i < 4; ++i) {
    if (!is_float_on_device(call.tensor(i)) || call.tensor(i).device() != self.device())
      return false;
  }
  if (self.numel() == 0 || call.has_output() || (weight && !is_float_on_device(*weight)))
    return false;
  check_division(call, self, 5);
  const int64_t batch = call[5].toInt(), groups = call[8].toInt(), inner = call[6].toInt() / groups;
  const int64_t positions = call[7].toInt();
  const c10::List<bool> wanted = call[9].toBoolList();
  const auto shaped = [&](const at::Tensor& x) {
    return wide(x).reshape({batch, groups, inner, positions});
  };
  const auto for_groups = [&](const at::Tensor& x) {
    return wide(x).reshape({batch, groups, 1, 1});
  };
  const at::Tensor grad = shaped(call.tensor(0)), inverse = for_groups(call.tensor(3));
  const at::Tensor normal = (shaped(self) - for_groups(call.tensor(2))) * inverse;
  std::vector<at::Tensor> results(3);
  if (wanted[0]) {
    const at::Tensor scaled = weight ? grad * wide(*weight).reshape({1, groups, inner, 1}) : grad;
    const auto total = [](const at::Tensor& x) { return at::sum(x, {2, 3}, /*keepdim=*/true); };
    const auto count = static_cast<double>(inner * positions);
    const at::Tensor centred = scaled - (total(scaled) + normal * total(scaled * normal)) / count;
    results[0] = (centred * inverse)
                     .to(self.scalar_type())
                     .view(self.sizes())
                     .contiguous(self.suggest_memory_format());
  }
  const c10::ScalarType dtype = weight ? weight->scalar_type() : self.scalar_type();
  if (wanted[1]) results[1] = at::sum(grad * normal, {0, 3}).flatten().to(dtype);
  if (wanted[2]) results[2] = at::sum(grad, {0, 3}).flatten().to(dtype);
  call.finish(std::move(results));
  return true;
}

}  // namespace

const std::vector<Kernel>& group_norm_kernels() {
  static const std::vector<Kernel> kernels = {
      {"native_group_norm", group_norm, "f"},
      {"native_group_norm_backward", group_norm_backward, "f"},
  };
  return kernels;
}

}  // namespace spyre::aten
