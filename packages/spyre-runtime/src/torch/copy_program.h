// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/ArrayRef.h>

#include "spyre/runtime/runtime.h"

namespace spyre::aten {

/// Queues a copy between two strided views on one device, converting the dtype, as a one-op program
/// on the current stream. Sizes and strides are in host elements; strides of `to` must not overlap.
/// Infinities of float32 and their SEN169 stand-in turn into each other, unless
/// `keep_infinity_code`: then the stand-in is the number 2^32, for values on their way to another
/// SEN169 buffer.
void launch_copy(runtime::Executable::Arg from, runtime::Executable::Arg to,
                 c10::ArrayRef<int64_t> size, c10::ArrayRef<int64_t> from_stride,
                 c10::ArrayRef<int64_t> to_stride, bool keep_infinity_code = false);

/// Stores the elements of `from` (dense, `count` of them) whose `mask` (dense, bool) is set to the
/// same places of `to`, counted from its offset by host element. `from` has the dtype of `to`.
void launch_masked_store(runtime::Allocation* mask, runtime::Allocation* from,
                         runtime::Executable::Arg to, int64_t count);

}  // namespace spyre::aten
