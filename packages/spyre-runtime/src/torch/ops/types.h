// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <vector>

#include "torch/ops/value.h"
#include "torch/tensor.h"

/// Dtype rules of the device that several kernels share.
namespace spyre::aten {

/// 'f' float16, bfloat16, float32; 'i' integers; 'b' bool; 0 a dtype that no kernel computes in.
char type_class(c10::ScalarType dtype);

inline bool is_float_on_device(const at::Tensor& tensor) {
  return is_spyre(tensor) && type_class(tensor.scalar_type()) == 'f';
}

/// The number that a tensor of `dtype` holds after it was given `value` on the host and copied to
/// the device: rounded for the half dtypes, whose infinities are +-2^32 on the device.
double stored_number(double value, c10::ScalarType dtype);

/// `value` for arithmetic in `dtype`: not rounded beyond float32; infinities as in stored_number.
double computed_number(double value, c10::ScalarType dtype);

/// The scalar as a constant of `dtype`'s register type: the stored_number if `as_stored`, else
/// the computed_number.
Value constant(StageBuilder& stage, const c10::Scalar& value, c10::ScalarType dtype,
               bool as_stored = true);

/// `value`, loaded from a tensor of dtype `from`, as PyTorch would cast it to `to` before
/// computing.
Value cast(Value value, c10::ScalarType from, c10::ScalarType to);

/// In float32.
inline at::Tensor wide(const at::Tensor& tensor) { return tensor.to(c10::ScalarType::Float); }

/// Register type that a dtype is computed in.
inline Type register_type(c10::ScalarType dtype) { return register_type(host_dtype(dtype)); }

inline std::vector<int64_t> to_vector(at::IntArrayRef values) { return values.vec(); }

}  // namespace spyre::aten
