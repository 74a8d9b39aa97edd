// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "softdev/thread_pool.h"
#include "softdev/vm/frame.h"
#include "softdev/vm/packed.h"

namespace spyre::softdev {

/// A matrix product with its epilogue, prepared from a stage with the matmul schedule.
///
/// Loops fall into rows (walked by the left operand alone), columns (by the right operand alone),
/// the depth (reduce loops), and batches (the others). Any strides will do: operands are read
/// through tables of offsets along rows, columns and depth.
class Matmul {
 public:
  Matmul(const program::BoundProgram& program, const StagePlan& plan);

  /// Work is cut in tiles by shape alone and divided over `cores`.
  void run(void* const* buffers, ThreadPool& pool, int cores, Workspace& shared,
           PackedInRun& packed) const;

  /// Does batches [first, last) on this thread.
  void run_batches(int64_t first, int64_t last, void* const* buffers, ThreadPool& pool,
                   Workspace& packed) const;

  int64_t batches() const { return batches_.extent; }
  const std::vector<size_t>& batch_loops() const { return batches_.loops; }
  std::array<int, 2> operands() const { return {left_.access, right_.access}; }

 private:
  struct Axis {
    std::vector<size_t> loops;  // outermost first; the block's own loop last
    int64_t extent = 1;
  };
  struct Side {
    int access = 0;
    std::vector<int64_t> outer, inner;  // offsets along rows or columns, and along the depth
    int64_t outer_run = 1, inner_run = 1;
    bool outer_contiguous = false, inner_contiguous = false;
  };
  /// How the product is cut, by its shape alone.
  struct Tiling {
    int64_t rows, row_tiles;          // of a tile
    int64_t cols, strip, strips;      // columns of a tile, and of the tiles that a task works on
    int64_t width, panels;            // columns are packed in panels
    int64_t depth, depth_blocks;      // operands are packed in blocks
    bool left_ahead, right_ahead;     // packed beforehand, as several tasks use it
    int64_t left_codes, right_codes;  // of a packed block
    int64_t tile_panels, tile_sums;
    int64_t together;  // tasks whose tiles are multiplied in a row
  };
  /// The sums of a tile, panel after panel, times 2^exponent of their panel; null: times 1.
  struct Sums {
    const float* data;
    int64_t pitch, panel;  // from row to row, and from panel to panel
    int64_t width;         // of a panel
    const int* exponents;
  };

  void classify();
  Side make_side(int access, const Axis& axis) const;
  std::vector<int64_t> offsets(int access, const Axis& axis) const;
  MatrixView view(const Side& side, int64_t batch, void* const* buffers) const;
  bool is_gemv(void* const* buffers) const;
  void run_gemv(int64_t first, int64_t last, void* const* buffers, ThreadPool& pool,
                int cores) const;
  void cut();
  void describe_right(const program::BoundProgram& program);
  PackedCache::Found find_packed(void* const* buffers, PackedInRun& packed) const;
  void run_tiles(int64_t first, int64_t last, void* const* buffers, ThreadPool& pool, int cores,
                 Workspace& shared, const PackedCache::Found& kept) const;
  void epilogue(Frame& frame, int64_t batch, int64_t row0, int64_t rows, int64_t col0, int64_t cols,
                const Sums& sums) const;

  const StagePlan& plan_;
  Axis rows_, cols_, depth_, batches_;
  Side left_, right_;
  Tiling tiling_{};
  // Of a right operand that may be kept packed: the bytes of its buffer, and all that the packed
  // bytes depend on besides those.
  uint64_t right_bytes_ = 0;
  std::vector<int64_t> right_form_;
};

}  // namespace spyre::softdev
