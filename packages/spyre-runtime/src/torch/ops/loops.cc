// SPDX-License-Identifier: Apache-2.0
#include "torch/ops/loops.h"

#include <algorithm>

#include "torch/ops/types.h"

namespace spyre::aten {

LoopOrder::LoopOrder(const at::Tensor& tensor) : rank_(tensor.dim()) {
  for (int64_t dim = 0; dim < rank_; ++dim) {
    if (tensor.size(dim) != 1) dims_.push_back(dim);
  }
  std::stable_sort(dims_.begin(), dims_.end(),
                   [&](int64_t a, int64_t b) { return tensor.stride(a) > tensor.stride(b); });
  for (int64_t dim : dims_) extents_.push_back(tensor.size(dim));
  if (dims_.empty()) extents_.push_back(1);
}

void LoopOrder::declare(StageBuilder& stage) const {
  for (int64_t extent : extents_) stage.loop(extent);
}

int64_t LoopOrder::stride(const at::Tensor& tensor, int64_t dim) const {
  const int64_t own = dim - (rank_ - tensor.dim());
  return own < 0 || tensor.size(own) == 1 ? 0 : tensor.stride(own);
}

std::vector<int64_t> LoopOrder::strides(const at::Tensor& tensor) const {
  std::vector<int64_t> result;
  result.reserve(extents_.size());
  for (int64_t dim : dims_) result.push_back(stride(tensor, dim));
  if (dims_.empty()) result.push_back(0);
  return result;
}

std::vector<int64_t> LoopOrder::select(at::IntArrayRef strides) const {
  std::vector<int64_t> result;
  for (int64_t dim : dims_) result.push_back(strides[dim]);
  if (dims_.empty()) result.push_back(0);
  return result;
}

void LoopOrder::add_to(ProgramKey& key) const {
  // Which dimension each loop is matters where strides are keyed by dimension.
  key.add(rank_);
  key.add(c10::ArrayRef<int64_t>(dims_));
  key.add(c10::ArrayRef<int64_t>(extents_));
}

void LoopOrder::add_strides(ProgramKey& key, const at::Tensor& tensor) const {
  for (int64_t dim : dims_) key.add(stride(tensor, dim));
}

int LoopOrder::loop_of(int64_t dim) const {
  const auto it = std::find(dims_.begin(), dims_.end(), dim);
  return it == dims_.end() ? -1 : static_cast<int>(it - dims_.begin());
}

int declare_arg(ProgramBuilder& program, const at::Tensor& tensor) {
  return program.arg(host_dtype(tensor.scalar_type()), to_vector(tensor.sizes()),
                     to_vector(tensor.strides()));
}

}  // namespace spyre::aten
