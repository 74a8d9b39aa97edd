// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <vector>

#include "torch/ops/builder.h"
#include "torch/ops/program_cache.h"

/// From PyTorch's sizes and strides to a stage's loops.
namespace spyre::aten {

/// The parallel loops over the elements of a tensor: its dimensions in the order of decreasing
/// strides, those of size 1 left out.
class LoopOrder {
 public:
  explicit LoopOrder(const at::Tensor& tensor);

  void declare(StageBuilder& stage) const;
  /// Strides of a tensor that broadcasts to the loops' tensor, in loop order.
  std::vector<int64_t> strides(const at::Tensor& tensor) const;
  /// Of strides for every dimension of the loops' tensor, those of the loops.
  std::vector<int64_t> select(at::IntArrayRef strides) const;
  /// All that declare() depends on.
  void add_to(ProgramKey& key) const;
  void add_strides(ProgramKey& key, const at::Tensor& tensor) const;
  /// Number of the loop over a dimension, or -1 if it has none.
  int loop_of(int64_t dim) const;

 private:
  int64_t stride(const at::Tensor& tensor, int64_t dim) const;
  int64_t rank_;
  c10::SmallVector<int64_t, 6> dims_;
  c10::SmallVector<int64_t, 6> extents_;
};

/// Declares a tensor as the next argument of a program.
int declare_arg(ProgramBuilder& program, const at::Tensor& tensor);

}  // namespace spyre::aten
