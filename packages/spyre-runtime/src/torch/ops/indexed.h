// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <vector>

#include "torch/ops/call.h"
#include "torch/ops/types.h"

/// Loads and stores whose address has parts that are read from index tensors: what gathers and
/// scatters are made of. An index out of range raises IndexError at the next synchronisation, and
/// nothing is read or written there.
namespace spyre::aten {

/// One index tensor: adds `index * element_stride` to an address.
struct IndexTerm {
  at::Tensor index;
  std::vector<int64_t> strides;  ///< of the index tensor, for each dimension of the loops
  int64_t size;                  ///< indices lie in [0, size)
  int64_t element_stride;        ///< of the indexed tensor
  bool wraps;                    ///< negative indices count from the end
};

/// An indexed access of `tensor` over the elements of a tensor of shape `shape`.
struct Indexed {
  at::Tensor tensor;
  std::vector<int64_t> strides;  ///< affine part, for each dimension of the loops
  std::vector<IndexTerm> terms;
};

/// What a scatter does with an element, and what it takes: a tensor of the loops' shape or a
/// number.
struct Scatter {
  enum class Mode : uint8_t { kStore, kAdd } mode = Mode::kStore;
  at::Tensor source;             ///< undefined: `number`
  std::vector<int64_t> strides;  ///< of the source, for each dimension of the loops
  c10::Scalar number;
  c10::Scalar scale = 1;  ///< of what is added
};

inline bool is_index(const at::Tensor& index, const at::Tensor& self) {
  return is_spyre(index) && index.device() == self.device() &&
         (index.scalar_type() == c10::ScalarType::Long ||
          index.scalar_type() == c10::ScalarType::Int);
}

inline bool can_move(const at::Tensor& tensor) {
  return is_spyre(tensor) && type_class(tensor.scalar_type()) != 0;
}

/// out[...] = from[..., indices, ...]
void gather(const Call& call, const at::Tensor& out, const Indexed& from);

/// to[..., indices, ...] = (or +=) source. `shape` has the shape of the loops: the indices'.
void scatter(const Call& call, const Indexed& to, const at::Tensor& shape, const Scatter& what);

}  // namespace spyre::aten
