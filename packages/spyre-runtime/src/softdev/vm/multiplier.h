// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "softdev/kernels/kernels.h"
#include "softdev/vm/frame.h"

namespace spyre::softdev {

/// What the machine multiplies in pairs with fp32 sums.
struct Engine {
  bool half;
  bool bfloat16;
  bool pairs() const { return half || bfloat16; }
  /// Operands are packed as the bfloat16 planes that their products take.
  bool planes() const { return bfloat16 && !half; }
};
const Engine& engine();

// The largest blocks that are multiplied: those of both operands and their fp32 sums fit the
// second-level cache together.
inline constexpr int64_t kMaxBlockRows = 128;
inline constexpr int64_t kMaxBlockDepth = 512;
/// The right operand is packed in panels of at most so many columns. An engine starts anew for
/// each, so they are wide; the plain kernel goes down a panel in steps of its width, which the
/// first-level cache bears only so far.
inline constexpr int64_t kPanel = 128;
inline int64_t panel_columns() { return engine().pairs() ? kPanel : kPanel / 2; }

/// Elements from row to row of a packed left block: whole cache lines, and an odd number of them
/// where rows are long, as rows that are a power of two apart share few sets of the cache.
inline int64_t left_pitch(int64_t depth) {
  const int64_t lines = (depth + 31) / 32;
  return (lines > 4 ? lines | 1 : lines) * 32;
}
inline constexpr int64_t kMaxLeftPitch = kMaxBlockDepth + 32;

/// A packed block: rows x depth of the left operand, or depth x width of the right one. Holds IEEE
/// half numbers of the values times 2^scale or, with scale kCodes, SEN169 codes; or two planes of
/// bfloat16 numbers, `data` and `low`, whose sums are the values.
struct Block {
  const uint16_t* data;
  int8_t scale;
  const uint16_t* low = nullptr;
  bool is_half() const { return scale != kCodes; }
};

/// Multiplies blocks; converts those that are not halves.
class Multiplier {
 public:
  explicit Multiplier(Workspace& workspace);
  ~Multiplier();
  Multiplier(const Multiplier&) = delete;
  Multiplier& operator=(const Multiplier&) = delete;

  /// c (pitch ldc) = or += a (m x depth) * b (depth x width); depth is even. c holds sums times
  /// 2^*exponent, and so it does afterwards, with another exponent perhaps. Consecutive calls with
  /// one `a` convert it once.
  void run(const Block& a, int64_t m, const Block& b, int64_t width, int64_t depth, float* c,
           int64_t ldc, bool add, int* exponent);

  /// Forgets what was converted: the memory of blocks is about to hold others.
  void forget() { converted_ = nullptr; }

 private:
  /// One of the blocks of halves, at most two, that a block is the sum of.
  struct Level {
    const uint16_t* data;
    int scale;
  };
  struct Levels {
    Level level[2];
    int count = 0;
  };
  Levels levels(const Block& block, int64_t codes, uint16_t* memory);
  void add_product(const Level& a, int64_t m, const Level& b, int64_t width, int64_t depth,
                   float* c, int64_t ldc, bool add, int* exponent);
  Block split(const Block& block, int64_t codes, uint16_t* memory) const;
  void in_bfloat16(const Block& a, int64_t m, const Block& b, int64_t width, int64_t depth,
                   float* c, int64_t ldc, bool add);
  void plain(const Block& a, int64_t m, const Block& b, int64_t width, int64_t depth, float* c,
             int64_t ldc, bool add);

  uint16_t* memory_;
  const uint16_t* converted_ = nullptr;  // the left block that is in memory_ in another form:
  Levels left_;                          // in halves, or in bfloat16 if these are none
  bool used_ = false;
};

}  // namespace spyre::softdev
