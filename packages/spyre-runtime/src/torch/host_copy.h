// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace spyre::aten {

/// A CPU tensor with the values of a Spyre one and its strides, which decide the memory format of
/// results, or the order of its dimensions where its gaps would cost much more memory than its
/// elements. Blocks.
at::Tensor faithful_host_copy(const at::Tensor& tensor);

/// What was computed in float32 for halves, as halves on the device: infinite where it does not fit
/// there, which is beyond what fits into the host's.
at::Tensor to_device_halves(const at::Tensor& host, c10::ScalarType dtype, c10::Device device);

}  // namespace spyre::aten
