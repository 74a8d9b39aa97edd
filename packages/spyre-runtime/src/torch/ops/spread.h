// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "torch/ops/builder.h"
#include "torch/ops/program_cache.h"

/// What windows of convolutions and pools move over: a tensor with something put around and between
/// its elements.
namespace spyre::aten {

/// A tensor whose position i along a spatial dimension (the last ones) goes to `low + i * step` of
/// `extent`. The rest is fill, and what would lie outside is left out.
struct Spread {
  at::Tensor tensor;
  std::vector<int64_t> low, step, extent;

  bool is_identity() const;
  int64_t leading() const { return tensor.dim() - static_cast<int64_t>(extent.size()); }
  int64_t positions(size_t spatial) const {
    return tensor.size(leading() + static_cast<int64_t>(spatial));
  }
  void add_to(ProgramKey& key) const;
};

/// An uninitialised tensor for a result over windows: channels last if one of the operands is, as
/// the CPU's.
at::Tensor empty_over_windows(at::IntArrayRef size, c10::ScalarType dtype,
                              std::initializer_list<const at::Tensor*> operands);

/// A buffer of a program with the strides of its dimensions.
struct Located {
  int buffer;
  std::vector<int64_t> stride;
};

/// Declares the tensor as the next argument, and the stages that spread it out in a temporary if it
/// needs any.
Located declare(ProgramBuilder& program, const Spread& spread, double fill = 0);

}  // namespace spyre::aten
