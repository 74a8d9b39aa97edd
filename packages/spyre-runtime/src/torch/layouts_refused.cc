// SPDX-License-Identifier: Apache-2.0
// Kinds of tensors that device spyre does not have: their operators say so, where PyTorch's
// dispatcher would list every backend there is.
#include <c10/util/Exception.h>
#include <torch/library.h>

namespace {

constexpr char kNested[] = "nested tensors of strided layout; use layout=torch.jagged, or the CPU";
constexpr char kSparse[] = "sparse tensors; call .to_dense(), or use the CPU";
constexpr char kQuantized[] = "quantized tensors; call .dequantize(), or use the CPU";

template <const char* refusal>
void refuse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  C10_THROW_ERROR(NotImplementedError,
                  c10::str(op.operator_name(), ": device spyre has no ", refusal));
}

template <const char* refusal>
torch::CppFunction refused() {
  return torch::CppFunction::makeFromBoxedFunction<&refuse<refusal>>();
}

}  // namespace

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) { m.fallback(refused<kNested>()); }
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(refused<kSparse>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { m.fallback(refused<kSparse>()); }
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) { m.fallback(refused<kQuantized>()); }
