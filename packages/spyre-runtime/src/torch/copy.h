// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "spyre/runtime/runtime.h"

namespace spyre::aten {

/// aten::_copy_from: every copy with a Spyre tensor on either side (or both).
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking);

/// A CPU tensor with the values, and for a dense tensor the strides, of a Spyre one. Blocks.
at::Tensor to_cpu(const at::Tensor& tensor);

/// The first `count` elements (by host offset) from one allocation to another of the same dtype and
/// device, whatever their layouts. Queued on the current stream.
void copy_elements(runtime::Allocation* to, const runtime::Allocation* from, int64_t count);

/// Waits for asynchronous host copies that are done to let go of their host memory.
void release_finished_transfers();

}  // namespace spyre::aten
