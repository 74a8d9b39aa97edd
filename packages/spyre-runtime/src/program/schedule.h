// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "program/bound.h"

namespace spyre::program {

/// Most lanes that a block may have; a driver refuses more.
inline constexpr int64_t kMaxBlockLanes = 8192;

/// Chooses schedule, lane and row loops and block sizes of a stage whose loops are final. Depends
/// on extents, strides and instructions alone, so that results depend on nothing else.
void schedule_stage(BoundStage& stage);

}  // namespace spyre::program
