// SPDX-License-Identifier: Apache-2.0
#include "torch/whole_on_host.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>

#include <memory>
#include <mutex>
#include <optional>

#include "torch/errors.h"
#include "torch/fallback.h"
#include "torch/operator_traits.h"

namespace spyre::aten {
namespace {

using torch::jit::Stack;

bool wants_gradient(const Stack& stack, size_t begin) {
  if (!c10::GradMode::is_enabled()) return false;
  for (size_t i = begin; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      const at::Tensor& tensor = stack[i].toTensor();
      if (tensor.defined() && tensor.requires_grad()) return true;
    } else if (stack[i].isTensorList()) {
      for (const at::Tensor& tensor : stack[i].toTensorVector()) {
        if (tensor.requires_grad()) return true;
      }
    }
  }
  return false;
}

/// PyTorch's own check of most of these operators is an internal assertion.
void check_one_device(const OperatorRecord& record, const Stack& stack, size_t begin) {
  std::optional<c10::Device> first;
  auto see = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.dim() == 0) return;
    TORCH_CHECK(!first.has_value() || *first == tensor.device(),
                "Expected all tensors to be on the same device, but ", record.name,
                " got tensors on ", first.value_or(tensor.device()), " and ", tensor.device(),
                "; move them to one device");
    first = tensor.device();
  };
  for (size_t i = begin; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      see(stack[i].toTensor());
    } else if (stack[i].isTensorList()) {
      for (const at::Tensor& tensor : stack[i].toTensorVector()) see(tensor);
    }
  }
}

/// Tracing, functorch and the like want to see what an operator is made of.
bool is_plain(c10::DispatchKeySet keys) {
  return !keys.has_any(c10::DispatchKeySet(
      {c10::DispatchKey::Python, c10::DispatchKey::PreDispatch, c10::DispatchKey::Functionalize,
       c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper}));
}

/// The kernel of an operator for one dispatch key: PyTorch's own, unless the device refuses a dtype
/// in it.
class WholeKernel final : public c10::OperatorKernel {
 public:
  /// `twin` is the CPU's dispatch key, whose kernel is what PyTorch would run for the device too.
  WholeKernel(c10::DispatchKey twin, bool is_composite)
      : twin_(twin), is_composite_(is_composite) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    if (!is_plain(keys)) return original(op).callBoxed(op, keys, stack);
    const size_t count = op.schema().arguments().size();
    check_one_device(record_of(op), *stack, stack->size() - count);
    const bool has_gradient = twin_ == c10::DispatchKey::AutogradCPU && !op.schema().is_mutable() &&
                              wants_gradient(*stack, stack->size() - count);
    if (is_composite_) return run_unless_refused(op, keys, stack, has_gradient);
    if (has_gradient) return cpu_fallback_with_derivative(op, stack);
    original(op).callBoxed(op, keys, stack);
  }

 private:
  void run_unless_refused(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack,
                          bool has_gradient) {
    const size_t count = op.schema().arguments().size();
    const size_t below = stack->size() - count;
    const Stack arguments(stack->begin() + static_cast<std::ptrdiff_t>(below), stack->end());
    try {
      return original(op).callBoxed(op, keys, stack);
    } catch (const NoDeviceFormat&) {
      stack->resize(below);
      stack->insert(stack->end(), arguments.begin(), arguments.end());
    }
    if (has_gradient) return cpu_fallback_with_derivative(op, stack);
    cpu_fallback(op, stack);
  }

  const c10::SafeKernelFunction& original(const c10::OperatorHandle& op) {
    // Not in the constructor: registrations of PyTorch's may follow it.
    std::call_once(found_, [&] { original_.emplace(op.getComputedKernelForDispatchKey(twin_)); });
    return *original_;
  }

  c10::DispatchKey twin_;
  bool is_composite_;
  std::once_flag found_;
  std::optional<c10::SafeKernelFunction> original_;
};

/// In-place operators are left out: one that fails half way has changed its argument.
bool is_functional_or_out(const c10::FunctionSchema& schema) {
  for (const c10::Argument& argument : schema.arguments()) {
    if (argument.alias_info() != nullptr && !argument.is_out()) return false;
  }
  return true;
}

}  // namespace

void register_whole_operators(torch::Library& library, c10::DispatchKey key) {
  using c10::DispatchKey;
  const bool is_autograd = key == DispatchKey::AutogradPrivateUse1;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const Whole whole = traits_of(name.name).whole;
    if (whole == Whole::kNever) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !is_functional_or_out(op->schema()) ||
        op->hasKernelForDispatchKey(DispatchKey::PrivateUse1)) {
      continue;
    }
    const bool is_implicit = op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
    const bool is_explicit =
        op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
        op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
    // Where the CPU has a kernel of its own, that is no stand-in for the composition.
    const bool is_composite = (is_implicit || (is_explicit && !is_autograd)) &&
                              !op->hasKernelForDispatchKey(DispatchKey::CPU);
    const bool has_derivative = is_autograd && whole == Whole::kWithDerivative &&
                                op->hasKernelForDispatchKey(DispatchKey::Autograd);
    if (!is_composite && !has_derivative) continue;
    library.impl(
        record_of(*op).name.c_str(),
        torch::CppFunction::makeFromBoxedKernel(
            c10::BoxedKernel::makeFromFunctor(std::make_unique<WholeKernel>(
                is_autograd ? DispatchKey::AutogradCPU : DispatchKey::CPU, is_composite))));
  }
}

}  // namespace spyre::aten
