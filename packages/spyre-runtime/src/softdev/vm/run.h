// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softdev/thread_pool.h"
#include "softdev/vm/frame.h"

namespace spyre::softdev {

/// Stages that take less than this run on the calling thread: waking another one takes as long.
inline constexpr double kInlineNs = 20000;

/// A worker's arena of at least `bytes`; one per thread.
std::byte* thread_arena(size_t bytes);

/// Runs a stage of any schedule but matmul. Every core gets an equal share of the blocks.
void run_stage(const StagePlan& plan, void* const* buffers, ThreadPool& pool, int cores);

/// Runs blocks [begin, end) of such a stage on this thread.
void run_blocks(const StagePlan& plan, void* const* buffers, int64_t begin, int64_t end);

/// Calls run(begin, end) for each core's share of `count` blocks.
template <class Run>
void divide(int64_t count, int cores, bool inline_only, ThreadPool& pool, Run run) {
  const int64_t shares = std::min<int64_t>(count, cores);
  if (inline_only || shares <= 1) {
    if (count > 0) run(int64_t{0}, count);
    return;
  }
  pool.run(shares,
           [&](int64_t share) { run(share * count / shares, (share + 1) * count / shares); });
}

}  // namespace spyre::softdev
