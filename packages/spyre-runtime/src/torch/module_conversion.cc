// SPDX-License-Identifier: Apache-2.0
// Module.to("spyre") and `parameter.data = spyre_tensor` in place. PyTorch lets a tensor take on
// another's data across devices of its own kinds (CPU, CUDA ...), and so keeps Parameter objects,
// tied weights and optimizers intact; of others it asks this operator. TensorImpls here are plain,
// so the same is sound.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "torch/tensor.h"

namespace spyre::aten {
namespace {

bool is_plain(const at::Tensor& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  return keys.has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) &&
         keys.has_any(c10::DispatchKeySet(
             {c10::BackendComponent::CPUBit, c10::BackendComponent::PrivateUse1Bit})) &&
         !keys.has_any(c10::python_ks) && tensor.layout() == c10::kStrided;
}

bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  if (is_plain(self) && is_plain(from)) return true;
  return self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
}

}  // namespace
}  // namespace spyre::aten
