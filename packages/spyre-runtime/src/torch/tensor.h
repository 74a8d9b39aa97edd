// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <vector>

#include "spyre/layout/layout.h"
#include "spyre/runtime/runtime.h"

/// Spyre tensors as the ATen glue sees them: dtype maps, creation, and the way from a tensor to the
/// allocation that holds it. TensorImpls are plain; a layout belongs to the allocation.
///
/// The namespace is `aten`, not `torch`, so that `torch::Library` still means PyTorch's inside
/// `spyre`.
namespace spyre::aten {

inline constexpr c10::DeviceType kSpyre = c10::DeviceType::PrivateUse1;

inline bool is_spyre(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kSpyre;
}

// --- dtypes --------------------------------------------------------------------------------------

/// nullopt: the dtype has no device format (float64, complex, float8_e5m2, quantised ...).
std::optional<layout::HostDtype> maybe_host_dtype(c10::ScalarType dtype);
/// Throws c10::NotImplementedError that names the dtype and a dtype to cast to.
layout::HostDtype host_dtype(c10::ScalarType dtype);
c10::ScalarType scalar_type(layout::HostDtype dtype);
/// PyTorch's Python name: "float16".
std::string dtype_name(c10::ScalarType dtype);
/// Stored as SEN169 on the device: float16, bfloat16, bool.
bool is_sen169(c10::ScalarType dtype);

// --- creation ------------------------------------------------------------------------------------

/// An uninitialised contiguous tensor. `device` may lack an index: then the current one.
at::Tensor empty(at::IntArrayRef size, c10::ScalarType dtype, c10::Device device);
/// An uninitialised tensor with these strides (any non-negative ones).
at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType dtype,
                         c10::Device device);
/// An uninitialised tensor like another one, in the order of its dimensions but without gaps:
/// torch.empty_like(like).
at::Tensor empty_like(const at::Tensor& like);

// --- from tensor to memory -----------------------------------------------------------------------

/// The allocation and where the tensor's first element lies in it, in elements of the tensor's
/// dtype.
struct Location {
  runtime::Allocation* allocation = nullptr;
  int64_t offset = 0;
  /// The allocation holds elements of another dtype (a `view(dtype)`, a byte view): `offset` counts
  /// elements of the tensor's dtype, and the tensor cannot be a program argument directly.
  bool is_reinterpreted = false;
};

/// Finds the allocation of a Spyre tensor. Gives a raw allocation (bytes without a type so far) the
/// layout of this tensor if it is the first typed use of it. An empty tensor without memory gets a
/// per-device placeholder. Throws if the storage is not Spyre memory or was freed.
Location locate(const at::Tensor& tensor);

/// The layout the tensor's storage has, or would get.
layout::Layout layout_of(const at::Tensor& tensor);

/// Lays the tensor's storage out anew, keeping the values. Throws c10::ValueError if the layout has
/// another format than the tensor's dtype, or no place for some element of the storage.
void set_layout(const at::Tensor& tensor, const layout::Layout& layout);

}  // namespace spyre::aten
