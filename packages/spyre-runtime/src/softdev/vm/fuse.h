// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "softdev/vm/plan.h"

namespace spyre::softdev {

/// What fuse_steps() asks about the values (numbered; operands hold numbers at this stage).
struct ValueFacts {
  Shape shape = kScalar;
  int reads = 0;  ///< by steps of all phases
};

/// Turns runs of a phase's steps, each of which goes on with what the one before it computed, into
/// fused steps: a load, maps and a store in one pass. Lanes are computed as they would be without.
/// `lanes` is the shape of the phase's blocks. `product` is the value that is a matrix product, or
/// -1: a fused step that alone reads it takes the sums where they are.
std::vector<Step> fuse_steps(const std::vector<Step>& steps, const std::vector<ValueFacts>& values,
                             const std::vector<AccessPlan>& accesses, Shape lanes, int product);

}  // namespace spyre::softdev
