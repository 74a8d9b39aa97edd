// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/ArrayRef.h>

#include "spyre/runtime/runtime.h"

namespace spyre::aten {

/// Queues a copy between two strided views on one device, converting the dtype, as a one-op program on
/// the current stream. Sizes and strides are in host elements; strides of `to` must not overlap.
/// Infinities of float32 and their SEN169 stand-in turn into each other, unless `keep_infinity_code`:
/// then the stand-in is the number 2^32, for values on their way to another SEN169 buffer.
void launch_copy(runtime::Executable::Arg from, runtime::Executable::Arg to,
                 c10::ArrayRef<int64_t> size, c10::ArrayRef<int64_t> from_stride,
                 c10::ArrayRef<int64_t> to_stride, bool keep_infinity_code = false);

}  // namespace spyre::aten
