// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace spyre::aten {

/// A CPU tensor with the values of a Spyre one and its strides, which decide the memory format of
/// results, or the order of its dimensions where its gaps would cost much more memory than its
/// elements. Blocks.
at::Tensor faithful_host_copy(const at::Tensor& tensor);

}  // namespace spyre::aten
