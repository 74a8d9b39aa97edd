// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "torch/operator_traits.h"

/// One operator on the host: its arguments copied there, its results and what it wrote copied back.
namespace spyre::aten {

void run_on_host(const c10::OperatorHandle& op, const OperatorRecord& record,
                 torch::jit::Stack& stack);

/// The operator and its derivative; only the copies there and back are recorded for the device.
void run_on_host_with_derivative(const c10::OperatorHandle& op, const OperatorRecord& record,
                                 torch::jit::Stack& stack);

}  // namespace spyre::aten
