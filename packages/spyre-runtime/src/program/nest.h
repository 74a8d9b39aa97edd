// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "program/bound.h"

/// Loop nests of the linker: how accesses in host elements become device accesses over a common
/// nest, and how that nest is made short.
namespace spyre::program {

/// A loop of the portable stage with, for one access, the parts into which its layout splits it:
/// (extent, device stride), outermost first, the product of the extents being the loop's.
struct SplitPart {
  int64_t extent, stride;
};
using SplitLoop = std::vector<SplitPart>;

/// Splits every loop of a stage where any access needs it, if their splits agree.
class Refiner {
 public:
  explicit Refiner(std::vector<BoundLoop> loops);

  /// Whether an access with these splits, one per loop, fits those accepted so far; if so, accepts
  /// it.
  bool accept(const std::vector<SplitLoop>& splits);
  /// The refined loops.
  std::vector<BoundLoop> loops() const;
  /// Strides over the refined loops of an access with these splits, which were accepted.
  std::vector<int64_t> strides(const std::vector<SplitLoop>& splits) const;
  /// Strides over the refined loops of an access that is linear in the original ones.
  std::vector<int64_t> strides(const std::vector<int64_t>& linear) const;

 private:
  std::vector<BoundLoop> loops_;
  std::vector<std::vector<int64_t>>
      cuts_;  // per loop: inner products where it is cut, ascending from 1
};

/// Removes loops of extent 1.
void drop_unit_loops(BoundStage& stage);
/// Orders loops, among the parallel and among the reduce ones, by decreasing stride of the accesses
/// in `priority`, as far as they tell.
void order_loops(BoundStage& stage, const std::vector<int>& priority);
/// Merges neighbours that every access walks as one.
void merge_loops(BoundStage& stage);

}  // namespace spyre::program
