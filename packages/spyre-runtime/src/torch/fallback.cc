// SPDX-License-Identifier: Apache-2.0
#include "torch/fallback.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include "torch/fallback_report.h"
#include "torch/generator.h"
#include "torch/host_call.h"
#include "torch/operator_traits.h"
#include "torch/tensor.h"

namespace spyre::aten {

using torch::jit::Stack;

namespace {

/// A generator argument that was left out means the device's default one.
void fill_in_generator(const c10::OperatorHandle& op, Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack.size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!stack[begin + i].isNone()) continue;
    const auto optional = arguments[i].type()->cast<c10::OptionalType>();
    if (optional == nullptr || optional->getElementType()->kind() != c10::TypeKind::GeneratorType)
      continue;
    c10::DeviceIndex device = -1;
    for (size_t k = begin; k < stack.size(); ++k) {
      if (stack[k].isTensor() && is_spyre(stack[k].toTensor()))
        device = stack[k].toTensor().device().index();
      if (stack[k].isDevice() && stack[k].toDevice().type() == kSpyre)
        device = stack[k].toDevice().index();
    }
    stack[begin + i] = default_generator(device);
  }
}

}  // namespace

void cpu_fallback(const c10::OperatorHandle& op, Stack* stack) {
  const OperatorRecord& record = record_of(op);
  const bool is_missing = !record.traits.is_drawn_on_host;
  if (is_missing) check_fallback_allowed(op, record.name, *stack);
  RECORD_FUNCTION(record.label, c10::ArrayRef<const c10::IValue>());
  fill_in_generator(op, *stack);
  run_on_host(op, record, *stack);
  if (is_missing) announce_fallback(record.name);
}

void cpu_fallback_with_derivative(const c10::OperatorHandle& op, Stack* stack) {
  const OperatorRecord& record = record_of(op);
  check_fallback_allowed(op, record.name, *stack);
  RECORD_FUNCTION(record.label, c10::ArrayRef<const c10::IValue>());
  run_on_host_with_derivative(op, record, *stack);
  announce_fallback(record.name);
}

namespace {

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
}

// These have a kernel in PyTorch that every device gets and that raises on this one, for lack of a
// vectorised loop (kaiser_window) or a name in a list (mode), or is too coarse on it: squares of
// distances as a matrix product, in which what is near cancels (_euclidean_dist).
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"mode", "mode.values", "kaiser_window", "kaiser_window.periodic",
                           "kaiser_window.beta", "kaiser_window.out", "kaiser_window.periodic_out",
                           "kaiser_window.beta_out", "_euclidean_dist", "_euclidean_dist.out"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
  }
}

}  // namespace
}  // namespace spyre::aten
