// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "softdev/vm/plan.h"

namespace spyre::softdev {

/// Grows, never shrinks; 64-byte aligned; contents are not kept.
class Workspace {
 public:
  std::byte* get(size_t bytes);

 private:
  struct Free {
    void operator()(void* p) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

/// Where a worker is in a stage, and its registers.
class Frame {
 public:
  /// `arena` has plan.arena_bytes and is not shared; `buffers` has the address of every buffer.
  Frame(const StagePlan& plan, std::byte* arena, void* const* buffers);

  const StagePlan& plan() const { return plan_; }
  std::byte* at(uint32_t offset) const { return arena_ + offset; }
  std::byte* arena() const { return arena_; }

  /// Runs steps at the present position.
  void run(const std::vector<Step>& steps);

  int64_t rows = 1, cols = 1;    ///< of the present block
  std::vector<int64_t> base;     ///< per access: offset at the present parallel position
  std::vector<int64_t> current;  ///< the same with the reduce position
  /// Of the present block of a matrix product.
  struct Sums {
    const float* data = nullptr;
    int64_t pitch = 0;
    float factor = 1;
  };
  Sums sums;

 private:
  int64_t lanes(Shape shape) const {
    return ((shape & kRows) ? rows : 1) * ((shape & kCols) ? cols : 1);
  }
  void map(const Step& s);
  void expand(const Step& s);
  void load(const Step& s);
  void store(const Step& s);
  void sequence(const Step& s);
  void reduce(const Step& s);
  void check(const Step& s);
  void fused(const Step& s);
  template <class Visit>
  void visit_guarded(const Step& s, int64_t row_count, int64_t col_count, Visit visit);
  template <class Visit>
  void visit_lanes(const Step& s, int64_t row, int64_t first, int64_t count, Visit visit);
  void load_guarded(const Step& s);
  void store_guarded(const Step& s);
  void store_add(const Step& s, const AccessPlan& a, std::byte* memory, std::byte* lanes,
                 int64_t stride, int64_t count);
  int64_t checked(const AccessPlan& a, int64_t host) const;

  const StagePlan& plan_;
  std::byte* arena_;
  void* const* buffers_;
};

/// Sets the accumulators of a reduction to its identity, and combines those of two chunks in order.
void reset_accumulators(const Step& s, std::byte* arena, int64_t lanes);
void combine_accumulators(const Step& s, std::byte* into, const std::byte* from, int64_t lanes);

/// A position in a list of directions, advanced one block at a time.
class Odometer {
 public:
  Odometer(const std::vector<Dim>& dims, int64_t position, std::vector<int64_t>* offsets);
  void advance();
  /// Sets rows or cols of the frame where these directions cut a loop in tiles.
  void set_block(Frame& frame) const;

 private:
  const std::vector<Dim>& dims_;
  std::vector<int64_t> index_;
  std::vector<int64_t>* offsets_;
};

}  // namespace spyre::softdev
