// SPDX-License-Identifier: Apache-2.0
#include "softdev/vm/chain.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "program/check.h"
#include "softdev/vm/run.h"

namespace spyre::softdev {
namespace {

using program::BoundAccess;
using program::BoundProgram;
using program::BoundStage;
using program::BufferKind;

using Stages = std::vector<std::unique_ptr<LoadedStage>>;

// Slices are worked on together while what they hand on takes no more than this: half of a
// second-level cache.
constexpr int64_t kGroupBytes = int64_t{512} << 10;
// Below this, what is handed on stays in the caches anyway.
constexpr int64_t kLeastBytes = int64_t{1} << 20;

/// How a stage is cut in slices: a slice is one iteration of the loops before `loop`, and so many
/// of that loop itself.
struct Cut {
  size_t loop = 0;
  int64_t iterations = 1;
};

/// Cuts the outermost parallel loops of a stage in `slices`, if blocks allow.
std::optional<Cut> cut(const LoadedStage& s, int64_t slices) {
  const BoundStage& stage = *s.plan.stage;
  if (stage.serial || stage.reduce_chunks > 1) return std::nullopt;
  // Blocks run through loops in this order; a loop that a block covers comes in pieces.
  std::vector<size_t> order;
  if (s.matmul) {
    order = s.matmul->batch_loops();
  } else {
    for (size_t l = 0; l < stage.loops.size(); ++l) {
      const auto loop = static_cast<int32_t>(l);
      if (!stage.loops[l].reduce && loop != stage.lane_loop && loop != stage.row_loop)
        order.push_back(l);
    }
    if (stage.row_loop >= 0 && !stage.loops[static_cast<size_t>(stage.row_loop)].reduce)
      order.push_back(static_cast<size_t>(stage.row_loop));
  }
  int64_t left = slices;
  for (size_t i = 0; i < order.size() && order[i] == i; ++i) {
    const int64_t extent = stage.loops[i].extent;
    const int64_t piece = static_cast<int32_t>(i) == stage.row_loop ? stage.block_rows : 1;
    if (left < extent || piece > 1) {
      const bool divides = extent % left == 0 && extent / left % piece == 0;
      return divides ? std::optional(Cut{i, extent / left}) : std::nullopt;
    }
    if (left % extent != 0) return std::nullopt;
    left /= extent;
    if (left == 1) return Cut{i, 1};
  }
  return std::nullopt;
}

/// The offsets of an access in slice n: n * step + [low, high].
struct Reach {
  int64_t step, low, high;
};

std::optional<Reach> reach(const BoundStage& stage, const BoundAccess& a, const Cut& cut) {
  if (a.indexed) return std::nullopt;
  Reach r{a.stride[cut.loop] * cut.iterations, a.offset, a.offset};
  int64_t step = a.stride[cut.loop] * stage.loops[cut.loop].extent;
  for (size_t l = cut.loop; l-- > 0;) {
    if (a.stride[l] != step) return std::nullopt;
    step *= stage.loops[l].extent;
  }
  for (size_t l = cut.loop; l < stage.loops.size(); ++l) {
    const int64_t extent = l == cut.loop ? cut.iterations : stage.loops[l].extent;
    const int64_t span = a.stride[l] * (std::max<int64_t>(extent, 1) - 1);
    (span < 0 ? r.low : r.high) += span;
  }
  return r;
}

std::vector<bool> stored_accesses(const BoundStage& stage) {
  std::vector<bool> stored(stage.accesses.size());
  for (const program::Phase& phase : stage.phases) {
    for (const program::Instr& in : phase.body) {
      if (program::is_store(in.op)) stored[static_cast<size_t>(in.access)] = true;
    }
  }
  return stored;
}

/// Grows a chain, stage by stage.
class Finder {
 public:
  Finder(const BoundProgram& program, const Stages& stages, size_t first, int64_t slices)
      : program_(program), stages_(stages), uses_(program.buffers.size()) {
    chain_.first = first;
    chain_.slices = slices;
  }

  std::optional<Chain> run() {
    while (chain_.first + chain_.count < stages_.size() &&
           add(*stages_[chain_.first + chain_.count])) {
    }
    if (chain_.count < 2) return std::nullopt;
    int64_t handed_on = 0;
    for (size_t b = 0; b < uses_.size(); ++b) {
      if (uses_[b].is_written && program_.buffers[b].kind != BufferKind::kArg)
        handed_on += program_.buffers[b].bytes;
    }
    if (handed_on < kLeastBytes || chain_.cost_ns < kInlineNs) return std::nullopt;
    chain_.group = std::clamp<int64_t>(kGroupBytes * chain_.slices / handed_on, 1, chain_.slices);
    note_arguments();
    return std::move(chain_);
  }

 private:
  struct Use {
    std::vector<std::optional<Reach>> reaches;
    bool is_written = false;
  };

  bool add(const LoadedStage& s) {
    const BoundStage& stage = *s.plan.stage;
    const std::optional<Cut> c = cut(s, chain_.slices);
    if (!c) return false;
    std::vector<Use> uses = uses_;
    const std::vector<bool> stored = stored_accesses(stage);
    bool is_linked = chain_.count == 0;
    for (size_t i = 0; i < stage.accesses.size(); ++i) {
      const BoundAccess& a = stage.accesses[i];
      if (a.buffer < 0) continue;
      const auto buffer = static_cast<size_t>(a.buffer);
      is_linked = is_linked || uses_[buffer].is_written;
      uses[buffer].reaches.push_back(reach(stage, a, *c));
      uses[buffer].is_written = uses[buffer].is_written || stored[i];
    }
    // An operand that every slice shares is better read once.
    for (int access : s.matmul ? s.matmul->operands() : std::array<int, 2>{-1, -1}) {
      if (access < 0) continue;
      const std::optional<Reach> r = reach(stage, stage.accesses[static_cast<size_t>(access)], *c);
      if (r && r->step == 0) return false;
    }
    if (!is_linked || !std::all_of(uses.begin(), uses.end(), is_sliced) || shares_memory(uses))
      return false;
    uses_ = std::move(uses);
    chain_.cost_ns += s.plan.cost_ns;
    ++chain_.count;
    return true;
  }

  /// Whether slices touch parts of the buffer that do not meet, or only read it.
  static bool is_sliced(const Use& use) {
    if (!use.is_written) return true;
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (const std::optional<Reach>& r : use.reaches) {
      if (!r || r->step != use.reaches[0]->step) return false;
      low = std::min(low, r->low);
      high = std::max(high, r->high);
    }
    return high - low < std::abs(use.reaches[0]->step);
  }

  /// Whether temporaries that the chain uses lie in the same memory, as those do that a stage-wise
  /// run never needs at once.
  bool shares_memory(const std::vector<Use>& uses) const {
    auto meets = [&](size_t a, size_t b) {
      const program::BoundBuffer &x = program_.buffers[a], &y = program_.buffers[b];
      return x.scratch_offset < y.scratch_offset + y.bytes &&
             y.scratch_offset < x.scratch_offset + x.bytes;
    };
    auto is_used_temporary = [&](size_t b) {
      return !uses[b].reaches.empty() && program_.buffers[b].kind != BufferKind::kArg;
    };
    for (size_t b = 0; b < uses.size(); ++b) {
      for (size_t other = 0; is_used_temporary(b) && other < b; ++other) {
        if (is_used_temporary(other) && (uses[b].is_written || uses[other].is_written) &&
            meets(b, other))
          return true;
      }
    }
    return false;
  }

  void note_arguments() {
    auto is_used_argument = [&](size_t b) {
      return !uses_[b].reaches.empty() && program_.buffers[b].kind == BufferKind::kArg;
    };
    for (size_t b = 0; b < uses_.size(); ++b) {
      for (size_t other = 0; is_used_argument(b) && other < b; ++other) {
        if (is_used_argument(other) && (uses_[b].is_written || uses_[other].is_written))
          chain_.apart.emplace_back(static_cast<int32_t>(b), static_cast<int32_t>(other));
      }
    }
  }

  const BoundProgram& program_;
  const Stages& stages_;
  std::vector<Use> uses_;
  Chain chain_;
};

/// The longest chain that begins with a product, and of those the one of most slices.
std::optional<Chain> longest_chain(const BoundProgram& program, const Stages& stages,
                                   size_t first) {
  std::optional<Chain> best;
  int64_t slices = 1;
  for (size_t loop : stages[first]->matmul->batch_loops()) {
    slices *= stages[first]->plan.stage->loops[loop].extent;
    if (slices < 2) continue;
    std::optional<Chain> chain = Finder(program, stages, first, slices).run();
    if (chain && (!best || chain->count >= best->count)) best = std::move(chain);
  }
  return best;
}

}  // namespace

std::vector<Chain> find_chains(const BoundProgram& program, const Stages& stages) {
  std::vector<Chain> chains;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (!stages[s]->matmul) continue;
    if (std::optional<Chain> chain = longest_chain(program, stages, s)) {
      s += chain->count - 1;
      chains.push_back(*std::move(chain));
    }
  }
  return chains;
}

bool can_run(const Chain& chain, const BoundProgram& program, void* const* buffers) {
  auto begin = [&](int32_t b) { return reinterpret_cast<uintptr_t>(buffers[b]); };
  auto end = [&](int32_t b) {
    return begin(b) + static_cast<uintptr_t>(program.buffers[static_cast<size_t>(b)].bytes);
  };
  return std::all_of(chain.apart.begin(), chain.apart.end(), [&](const auto& pair) {
    return end(pair.first) <= begin(pair.second) || end(pair.second) <= begin(pair.first);
  });
}

void run_chain(const Chain& chain, const Stages& stages, void* const* buffers, ThreadPool& pool,
               int cores) {
  const int64_t groups = (chain.slices + chain.group - 1) / chain.group;
  divide(groups, cores, false, pool, [&](int64_t begin, int64_t end) {
    static thread_local Workspace packed;
    for (int64_t g = begin; g < end; ++g) {
      const int64_t first = g * chain.group, last = std::min(chain.slices, first + chain.group);
      for (size_t s = chain.first; s < chain.first + chain.count; ++s) {
        const LoadedStage& stage = *stages[s];
        if (stage.matmul) {
          const int64_t batches = stage.matmul->batches() / chain.slices;
          stage.matmul->run_batches(first * batches, last * batches, buffers, pool, packed);
        } else {
          const int64_t units = stage.plan.units / chain.slices;
          run_blocks(stage.plan, buffers, first * units, last * units);
        }
      }
    }
  });
}

}  // namespace spyre::softdev
