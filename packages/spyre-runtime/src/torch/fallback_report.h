// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <string>

/// What the user is told of CPU fallbacks: counts, a warning for each operator, and an error under
/// SPYRE_FALLBACK=error. fallback.h has the counts.
namespace spyre::aten {

/// "(float32[2], Int)", of the arguments from `begin` on.
std::string describe_arguments(const torch::jit::Stack& stack, size_t begin);

/// Raises where the user forbids fallbacks.
void check_fallback_allowed(const c10::OperatorHandle& op, const std::string& name,
                            const torch::jit::Stack& stack);

/// Counts and warns of a fallback that gave a result: native kernels leave it to the CPU to word
/// what is wrong with an argument, and that is no missing kernel.
void announce_fallback(const std::string& name);

}  // namespace spyre::aten
