// SPDX-License-Identifier: Apache-2.0
#include "torch/host_copy.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/where.h>

#include <limits>

#include "torch/copy.h"
#include "torch/tensor.h"

namespace spyre::aten {
namespace {

/// One element of each dimension that repeats itself.
at::Tensor without_expanded(at::Tensor tensor) {
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.size(dim) > 1 && tensor.stride(dim) == 0) tensor = tensor.narrow(dim, 0, 1);
  }
  return tensor;
}

}  // namespace

at::Tensor faithful_host_copy(const at::Tensor& tensor) {
  if (tensor.numel() == 0 || tensor.is_non_overlapping_and_dense()) return to_cpu(tensor);
  if (at::Tensor base = without_expanded(tensor); !base.is_same(tensor)) {
    return faithful_host_copy(base).expand(tensor.sizes());
  }
  int64_t span = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) span += (tensor.size(d) - 1) * tensor.stride(d);
  constexpr int64_t kAffordableGap = 4;
  // Overlap that is hard to rule out does no harm here: both addresses get the same value.
  const bool is_affordable = at::has_internal_overlap(tensor) != at::MemOverlap::Yes &&
                             span <= kAffordableGap * tensor.numel();
  at::Tensor host =
      at::empty_strided(tensor.sizes(),
                        is_affordable ? tensor.strides().vec()
                                      : at::infer_dense_strides(tensor.sizes(), tensor.strides()),
                        tensor.options().device(c10::kCPU));
  copy_from(tensor, host, /*non_blocking=*/false);
  return host;
}

at::Tensor to_device_halves(const at::Tensor& host, c10::ScalarType dtype, c10::Device device) {
  constexpr double kLargest = 8573157376.0;  // of SEN169
  const at::Tensor fitting =
      at::where(host.abs().gt(kLargest), host * std::numeric_limits<float>::infinity(), host);
  at::Tensor on_device =
      empty_strided(fitting.sizes(), fitting.strides(), c10::ScalarType::Float, device);
  copy_from(fitting, on_device, /*non_blocking=*/false);
  return on_device.to(dtype);
}

}  // namespace spyre::aten
