// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "softdev/thread_pool.h"
#include "softdev/vm/matmul.h"
#include "softdev/vm/plan.h"

namespace spyre::softdev {

/// A stage ready to run.
struct LoadedStage {
  StagePlan plan;
  std::optional<Matmul> matmul;
};

/// Stages that are worked through slice by slice of their outermost iterations, so that what one
/// hands to the next stays in a core's cache: scores, softmax and weighted sum of attention, a few
/// heads at a time. Each slice reads and writes its own part of every buffer that the stages share,
/// so the order of slices does not matter, and each stage does in a slice what it does without.
struct Chain {
  size_t first = 0, count = 0;
  int64_t slices = 1;
  int64_t group = 1;  ///< slices that are worked on together
  double cost_ns = 0;
  /// Argument buffers, one of them written: the stages may run as a chain if the memory given for
  /// them does not overlap.
  std::vector<std::pair<int32_t, int32_t>> apart;
};

/// Chains of a program's stages, in order and apart.
std::vector<Chain> find_chains(const program::BoundProgram& program,
                               const std::vector<std::unique_ptr<LoadedStage>>& stages);

/// Whether a chain may run as one on these buffers.
bool can_run(const Chain& chain, const program::BoundProgram& program, void* const* buffers);

void run_chain(const Chain& chain, const std::vector<std::unique_ptr<LoadedStage>>& stages,
               void* const* buffers, ThreadPool& pool, int cores);

}  // namespace spyre::softdev
