// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "program/bound.h"

namespace spyre::program {

/// Proves that a bound program is well formed and stays inside its buffers. Trusts no field. Throws
/// std::invalid_argument with the stage, the access and the numbers.
void verify(const BoundProgram& program);

/// Device offsets that an affine access may touch, [low, high], over the loops in use; false if it
/// overflows. Loops of extent 0 count as 1.
bool access_range(const BoundStage& stage, const BoundAccess& access, int64_t* low, int64_t* high);

/// For every access of the stage, how its instructions use it.
struct AccessUse {
  bool used = false;
  bool outside_reduce = false;  ///< by a phase without reduce loops
  bool stored = false;
  bool added = false;
  bool index = false;  ///< with an index register
  bool plain = false;  ///< at least once without a predicate
};
std::vector<AccessUse> access_uses(const std::vector<Phase>& phases, size_t access_count);

}  // namespace spyre::program
