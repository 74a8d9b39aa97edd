// SPDX-License-Identifier: Apache-2.0
// View operators without a composite kernel. PyTorch's own CPU versions look at sizes and strides
// only, so they serve; left to the fallback these would silently become copies, and is_set_to would
// compare the copies' storages.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "torch/tensor.h"

namespace spyre::aten {
namespace {

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<int64_t> storage_offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, storage_offset);
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef size) {
  return at::native::view(self, size);
}

at::Tensor view_as_complex(const at::Tensor& self) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "view_as_complex of a spyre tensor of dtype ", dtype_name(self.scalar_type()),
      " is not possible: complex dtypes have no format on device spyre; move the "
      "tensor to the CPU first");
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("is_set_to", at::native::is_set_to);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", view_as_complex);
}

}  // namespace
}  // namespace spyre::aten
