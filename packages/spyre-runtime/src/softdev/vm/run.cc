// SPDX-License-Identifier: Apache-2.0
#include "softdev/vm/run.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace spyre::softdev {
namespace {

int64_t accumulator_lanes(const StagePlan& plan, const Frame& frame) {
  const program::BoundStage& stage = *plan.stage;
  if (plan.horizontal) return stage.row_loop >= 0 ? frame.rows : 1;
  return stage.lane_loop >= 0 ? frame.cols : 1;
}

/// Blocks [begin, end) of a reduce phase at the frame's parallel position.
void run_reduce_blocks(const PhasePlan& phase, Frame& frame, int64_t begin, int64_t end) {
  const StagePlan& plan = frame.plan();
  for (const Step& s : phase.reductions)
    reset_accumulators(s, frame.arena(), accumulator_lanes(plan, frame));
  if (begin >= end) return;
  frame.current = frame.base;
  Odometer inner(plan.inner, begin, &frame.current);
  for (int64_t i = begin; i < end; ++i) {
    if (i > begin) inner.advance();
    inner.set_block(frame);
    frame.run(phase.steps);
  }
}

/// Few parallel blocks with much to reduce: one after the other, each with its reduce space cut in
/// chunks that cores work on at once. Chunks are combined in order, so the result does not depend
/// on who ran them.
void run_chunked(const StagePlan& plan, void* const* buffers, ThreadPool& pool, int cores) {
  const int64_t chunks = std::min(plan.stage->reduce_chunks, plan.reduce_steps);
  // Every chunk needs registers of its own; the main frame holds what phases hand on.
  std::vector<std::byte> memory((static_cast<size_t>(chunks) + 1) * plan.arena_bytes + 64);
  auto* arenas =
      reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  Frame main(plan, arenas, buffers);
  Odometer outer(plan.outer, 0, &main.base);
  for (int64_t unit = 0; unit < plan.units; ++unit) {
    if (unit > 0) outer.advance();
    outer.set_block(main);
    for (const PhasePlan& phase : plan.phases) {
      main.current = main.base;
      if (!phase.reduce) {
        main.run(phase.steps);
        continue;
      }
      auto arena_of = [&](int64_t chunk) {
        return arenas + static_cast<size_t>(chunk + 1) * plan.arena_bytes;
      };
      divide(chunks, cores, false, pool, [&](int64_t begin, int64_t end) {
        for (int64_t chunk = begin; chunk < end; ++chunk) {
          std::memcpy(arena_of(chunk), arenas, plan.arena_bytes);
          Frame frame(plan, arena_of(chunk), buffers);
          frame.base = main.base;
          frame.rows = main.rows;
          frame.cols = main.cols;
          run_reduce_blocks(phase, frame, chunk * plan.reduce_steps / chunks,
                            (chunk + 1) * plan.reduce_steps / chunks);
        }
      });
      for (const Step& s : phase.reductions) {
        const int64_t lanes = accumulator_lanes(plan, main);
        reset_accumulators(s, main.arena(), lanes);
        for (int64_t chunk = 0; chunk < chunks; ++chunk)
          combine_accumulators(s, main.arena(), arena_of(chunk), lanes);
      }
    }
  }
}

}  // namespace

void run_blocks(const StagePlan& plan, void* const* buffers, int64_t begin, int64_t end) {
  Frame frame(plan, thread_arena(plan.arena_bytes), buffers);
  Odometer outer(plan.outer, begin, &frame.base);
  for (int64_t i = begin; i < end; ++i) {
    if (i > begin) outer.advance();
    outer.set_block(frame);
    for (const PhasePlan& phase : plan.phases) {
      if (phase.reduce) {
        run_reduce_blocks(phase, frame, 0, plan.reduce_steps);
      } else {
        frame.current = frame.base;
        frame.run(phase.steps);
      }
    }
  }
}

std::byte* thread_arena(size_t bytes) {
  static thread_local Workspace arena;
  return arena.get(bytes);
}

void run_stage(const StagePlan& plan, void* const* buffers, ThreadPool& pool, int cores) {
  if (plan.stage->reduce_chunks > 1 && plan.reduce_steps > 1)
    return run_chunked(plan, buffers, pool, cores);
  const bool inline_only = plan.stage->serial || plan.cost_ns < kInlineNs;
  divide(plan.units, cores, inline_only, pool,
         [&](int64_t begin, int64_t end) { run_blocks(plan, buffers, begin, end); });
}

}  // namespace spyre::softdev
