// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// The CPU fallback: copies arguments to the host, runs the CPU kernel, copies results and mutated
/// arguments back. Warned of once per op, counted, visible to the profiler, and an error under
/// SPYRE_FALLBACK=error.
namespace spyre::aten {

/// Boxed kernel, registered for every op that has no kernel of its own.
void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// The same for an operator that writes no argument, with its derivative: autograd records the
/// copies to the host and back, and between them what the CPU does.
void cpu_fallback_with_derivative(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// (op, times taken), since the start or the last reset, in order of first use.
std::vector<std::pair<std::string, int64_t>> fallback_counts();
void reset_fallback_counts();

}  // namespace spyre::aten
