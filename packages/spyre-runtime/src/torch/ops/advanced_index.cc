// SPDX-License-Identifier: Apache-2.0
// Indexing expressions: x[i, :, j] and x[i, :, j] = y.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/nonzero.h>

#include <algorithm>

#include "torch/ops/indexed.h"
#include "torch/ops/kernels.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;

/// An indexing expression: index tensors by dimension of self, broadcast against each other.
struct Advanced {
  std::vector<int64_t> size;  ///< of the result
  Indexed access;
};

/// The indices with masks replaced by the positions that they select; false if the CPU should see
/// them.
bool expand_masks(const at::Tensor& self, const c10::IValue& list,
                  std::vector<at::Tensor>& indices) {
  for (const c10::IValue& item : list.toListRef()) {
    if (item.isNone() || !item.toTensor().defined()) {
      indices.emplace_back();
      continue;
    }
    at::Tensor index = item.toTensor();
    if (index.scalar_type() == ScalarType::Bool) {
      const int64_t first = static_cast<int64_t>(indices.size());
      if (first + index.dim() > self.dim() ||
          !self.sizes().slice(first, index.dim()).equals(index.sizes()) || index.dim() == 0) {
        return false;
      }
      const at::Tensor positions = at::nonzero(index).to(self.device());
      for (int64_t dim = 0; dim < index.dim(); ++dim) indices.push_back(positions.select(1, dim));
      continue;
    }
    if (index.is_cpu()) index = index.to(self.device());
    if (!is_index(index, self)) return false;
    indices.push_back(index);
  }
  return static_cast<int64_t>(indices.size()) <= self.dim();
}

bool make_advanced(const at::Tensor& self, const c10::IValue& list, Advanced& result) {
  std::vector<at::Tensor> indices;
  if (!can_move(self) || !expand_masks(self, list, indices)) return false;
  indices.resize(self.dim());
  std::vector<int64_t> shape;
  std::vector<int64_t> indexed_dims;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    if (!indices[dim].defined()) continue;
    for (size_t i = 0; i < shape.size() || i < static_cast<size_t>(indices[dim].dim()); ++i) {
      const int64_t a = i < shape.size() ? shape[shape.size() - 1 - i] : 1;
      const int64_t b = static_cast<int64_t>(i) < indices[dim].dim()
                            ? indices[dim].size(-1 - static_cast<int64_t>(i))
                            : 1;
      if (a != b && a != 1 && b != 1) return false;
    }
    shape = at::infer_size(shape, indices[dim].sizes());
    indexed_dims.push_back(dim);
  }
  if (indexed_dims.empty()) return false;
  const bool adjacent =
      indexed_dims.back() - indexed_dims.front() + 1 == static_cast<int64_t>(indexed_dims.size());
  const int64_t before = adjacent ? indexed_dims.front() : 0;
  std::vector<int64_t> strides;
  for (int64_t dim = 0; dim <= self.dim(); ++dim) {
    if (dim == before) {
      result.size.insert(result.size.end(), shape.begin(), shape.end());
      strides.insert(strides.end(), shape.size(), 0);
    }
    if (dim == self.dim() || indices[dim].defined()) continue;
    result.size.push_back(self.size(dim));
    strides.push_back(self.stride(dim));
  }
  for (int64_t dim : indexed_dims) {
    if (self.size(dim) == 0) return false;
    const at::Tensor index = indices[dim].expand(shape);
    std::vector<int64_t> index_strides(result.size.size(), 0);
    for (size_t i = 0; i < shape.size(); ++i) index_strides[before + i] = index.stride(i);
    result.access.terms.push_back({index, index_strides, self.size(dim), self.stride(dim), true});
  }
  result.access.tensor = self;
  result.access.strides = std::move(strides);
  return true;
}

/// Contiguous, or in the order of self's dimensions that stay: PyTorch leaves it to an iterator
/// over all operands.
at::Tensor indexed_result(const at::Tensor& self, const Advanced& advanced) {
  const auto& terms = advanced.access.terms;
  if (self.is_contiguous() && std::all_of(terms.begin(), terms.end(), [](const IndexTerm& term) {
        return term.index.is_contiguous();
      })) {
    return empty(advanced.size, self.scalar_type(), self.device());
  }
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false)
      .check_all_same_dtype(false)
      .declare_static_dtype_and_device(self.scalar_type(), self.device())
      .add_owned_output(at::Tensor())
      .add_owned_const_input(self.as_strided(advanced.size, advanced.access.strides));
  for (const IndexTerm& term : terms) {
    config.add_owned_const_input(term.index.as_strided(advanced.size, term.strides));
  }
  return config.build().output();
}

bool index(Call& call) {
  const at::Tensor& self = call.tensor(0);
  Advanced advanced;
  if (call.has_output() || !make_advanced(self, call[1], advanced)) return false;
  at::Tensor out = indexed_result(self, advanced);
  gather(call, out, advanced.access);
  call.finish(std::move(out));
  return true;
}

bool index_put(Call& call) {
  at::Tensor self = call.tensor(0);
  at::Tensor values = call.tensor(2);
  const bool accumulate = call[3].toBool();
  Advanced advanced;
  if (!is_spyre(self) || values.scalar_type() != self.scalar_type() ||
      at::has_internal_overlap(self) == at::MemOverlap::Yes ||
      (accumulate && type_class(self.scalar_type()) == 'b')) {
    return false;
  }
  if (values.is_cpu() && values.dim() == 0) values = values.to(self.device());
  if (values.device() != self.device() ||
      values.dim() > static_cast<int64_t>(advanced.size.max_size())) {
    return false;
  }
  if (!make_advanced(self, call[1], advanced)) return false;
  if (!at::is_expandable_to(values.sizes(), advanced.size)) return false;
  // A source that lies in self would be read while it changes.
  if (values.is_alias_of(self)) values = values.clone();
  for (IndexTerm& term : advanced.access.terms) {
    if (term.index.is_alias_of(self)) term.index = term.index.clone().expand_as(term.index);
  }
  Scatter what;
  what.mode = accumulate ? Scatter::Mode::kAdd : Scatter::Mode::kStore;
  what.source = values.expand(advanced.size);
  what.strides = what.source.strides().vec();
  // Loops in the order of a dense tensor: the last of several values for one element stays.
  const at::Tensor shape = at::empty(advanced.size, at::TensorOptions().device(at::kMeta));
  scatter(call, advanced.access, shape, what);
  call.finish(std::move(self));
  return true;
}

}  // namespace

const std::vector<Kernel>& advanced_index_kernels() {
  static const std::vector<Kernel> kernels = {
      {"index.Tensor", index, "fib"},
      {"_index_put_impl_", index_put, "fib"},
  };
  return kernels;
}

}  // namespace spyre::aten
