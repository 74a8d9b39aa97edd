// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "softdev/thread_pool.h"
#include "softdev/vm/frame.h"

namespace spyre::softdev {

/// A matrix product with its epilogue, prepared from a stage with the matmul schedule.
///
/// Loops fall into rows (walked by the left operand alone), columns (by the right operand alone),
/// the depth (reduce loops), and batches (the others). Any strides will do: operands are read
/// through tables of offsets along rows, columns and depth.
class Matmul {
 public:
  explicit Matmul(const StagePlan& plan);

  /// Work is cut in tiles by shape alone and divided over `cores`.
  void run(void* const* buffers, ThreadPool& pool, int cores, Workspace& shared) const;

 private:
  struct Axis {
    std::vector<size_t> loops;  // outermost first; the block's own loop last
    int64_t extent = 1;
  };
  struct Side {
    int access = 0;
    std::vector<int64_t> outer, inner;  // offsets along rows or columns, and along the depth
    bool outer_contiguous = false, inner_contiguous = false;
  };

  void classify();
  Side make_side(int access, const Axis& axis) const;
  std::vector<int64_t> offsets(int access, const Axis& axis) const;
  MatrixView view(const Side& side, int64_t batch, void* const* buffers) const;
  void run_gemv(void* const* buffers, ThreadPool& pool, int cores) const;
  void run_tiles(void* const* buffers, ThreadPool& pool, int cores, Workspace& shared) const;
  void epilogue(Frame& frame, int64_t batch, int64_t row0, int64_t rows, int64_t col0, int64_t cols,
                const float* product, int64_t pitch) const;

  const StagePlan& plan_;
  Axis rows_, cols_, depth_, batches_;
  Side left_, right_;
};

}  // namespace spyre::softdev
