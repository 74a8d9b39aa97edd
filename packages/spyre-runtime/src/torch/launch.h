// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "spyre/runtime/runtime.h"

namespace spyre::aten {

/// Queues one run of a program on the current stream of the tensors' device. `args` are the
/// program's argument buffers in order of declaration; each access is relative to a tensor's first
/// element, so only dtype and data position of a tensor are used here: sizes and strides are the
/// program's own (constants or `symbols`).
///
/// Tensors whose storage holds another dtype (`x.view(torch.int16)`) are passed through typed
/// temporaries, and written back if the program stores to them. All tensors must be on one device.
/// Throws c10 exceptions: launch errors now, errors of the run itself at the next synchronisation.
void launch(runtime::Executable& executable, at::ArrayRef<at::Tensor> args,
            at::ArrayRef<int64_t> symbols = {});

/// Text of the bound form for these arguments.
std::string bound_text(runtime::Executable& executable, at::ArrayRef<at::Tensor> args,
                       at::ArrayRef<int64_t> symbols = {});

}  // namespace spyre::aten
