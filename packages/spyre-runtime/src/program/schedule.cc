// SPDX-License-Identifier: Apache-2.0
#include "program/schedule.h"

#include <algorithm>
#include <cstdlib>

#include "program/check.h"

namespace spyre::program {
namespace {

// Lanes per block: registers of 4 KiB, so that a dozen stay in the L1 cache.
constexpr int64_t kBlock = 1024;
// Transposed accesses walk a square tile, so that every cache line that is touched is used up.
constexpr int64_t kTransposeTile = 64;
// A reduce space is cut in chunks only when there are few parallel iterations to keep the cores
// busy.
constexpr int64_t kFewIterations = 32;
constexpr int64_t kChunkElements = 1 << 16;
constexpr int64_t kMaxChunks = 64;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Cuts `extent` into even pieces of at most `most`, whole sticks where it can.
int64_t even_piece(int64_t extent, int64_t most) {
  if (extent <= most) return std::max<int64_t>(extent, 1);
  const int64_t piece = ceil_div(extent, ceil_div(extent, most));
  return std::min(most, ceil_div(piece, 64) * 64);
}

class Scheduler {
 public:
  explicit Scheduler(BoundStage& stage) : stage_(stage) {
    for (const Phase& phase : stage.phases) {
      reduces_ = reduces_ || phase.reduce;
      for (const Instr& in : phase.body) {
        if (has_access(in.op)) used_.push_back(in.access);
        if (phase.reduce && has_access(in.op)) reduced_.push_back(in.access);
      }
    }
  }

  void run() {
    if (!stage_.phases.empty() && !stage_.phases[0].body.empty() &&
        stage_.phases[0].body.back().op == Op::dot) {
      matmul();
    } else if (!reduces_) {
      pointwise();
    } else {
      reduction();
    }
  }

 private:
  int64_t extent(int loop) const {
    return loop < 0 ? 1 : stage_.loops[static_cast<size_t>(loop)].extent;
  }

  /// How well lanes along `loop` suit the accesses in `which`.
  int64_t suit(int loop, const std::vector<int>& which) const {
    int64_t score = 0;
    for (int a : which) {
      const int64_t stride =
          stage_.accesses[static_cast<size_t>(a)].stride[static_cast<size_t>(loop)];
      score += stride == 1 ? 4 : stride == 0 ? 1 : 0;
    }
    return score;
  }

  /// The loop of this kind that suits best, or -1; ties go to the larger extent, then to the inner
  /// one.
  int best_loop(bool reduce, const std::vector<int>& which) const {
    int best = -1;
    for (int l = static_cast<int>(stage_.loops.size()); l-- > 0;) {
      if (stage_.loops[static_cast<size_t>(l)].reduce != reduce) continue;
      if (best < 0 || suit(l, which) > suit(best, which) ||
          (suit(l, which) == suit(best, which) && extent(l) > extent(best))) {
        best = l;
      }
    }
    return best;
  }

  /// The largest loop of this kind besides `taken`, or -1.
  int largest_loop(bool reduce, int taken) const {
    int best = -1;
    for (int l = static_cast<int>(stage_.loops.size()); l-- > 0;) {
      if (l == taken || stage_.loops[static_cast<size_t>(l)].reduce != reduce) continue;
      if (best < 0 || extent(l) > extent(best)) best = l;
    }
    return best;
  }

  int64_t total(bool reduce) const {
    int64_t n = 1;
    for (const BoundLoop& loop : stage_.loops) {
      if (loop.reduce == reduce) n *= std::max<int64_t>(loop.extent, 1);
    }
    return n;
  }

  void pointwise() {
    stage_.schedule = Schedule::kPointwise;
    const int last = static_cast<int>(stage_.loops.size()) - 1;
    // A serial stage keeps the program's order: lanes and rows are its innermost loops.
    stage_.lane_loop = stage_.serial ? last : best_loop(false, used_);
    stage_.row_loop =
        stage_.serial ? std::max(last - 1, -1) : largest_loop(false, stage_.lane_loop);
    const int other = stage_.serial ? -1 : transposed_loop();
    if (other >= 0) {
      stage_.row_loop = other;
      stage_.block_lanes = even_piece(extent(stage_.lane_loop), kTransposeTile);
      stage_.block_rows = even_piece(extent(other), kTransposeTile);
      return;
    }
    stage_.block_lanes = even_piece(extent(stage_.lane_loop), kBlock);
    stage_.block_rows = stage_.row_loop < 0 ? 1 : even_rows();
    if (stage_.serial && stage_.block_lanes < extent(stage_.lane_loop)) stage_.block_rows = 1;
  }

  /// A loop along which some access is contiguous that is strided along the lanes, or -1.
  int transposed_loop() const {
    for (int a : used_) {
      const auto& stride = stage_.accesses[static_cast<size_t>(a)].stride;
      if (stage_.lane_loop < 0 || std::abs(stride[static_cast<size_t>(stage_.lane_loop)]) <= 1)
        continue;
      for (int l = static_cast<int>(stride.size()); l-- > 0;) {
        if (l != stage_.lane_loop && stride[static_cast<size_t>(l)] == 1 && extent(l) >= 8)
          return l;
      }
    }
    return -1;
  }

  int64_t even_rows(int64_t lanes = kBlock) const {
    const int64_t most = std::max<int64_t>(1, lanes / stage_.block_lanes);
    const int64_t rows = extent(stage_.row_loop);
    return rows <= most ? std::max<int64_t>(rows, 1) : ceil_div(rows, ceil_div(rows, most));
  }

  void reduction() {
    const int along = best_loop(true, reduced_), across = best_loop(false, reduced_);
    const bool across_fits =
        across >= 0 && (along < 0 || suit(across, reduced_) > suit(along, reduced_));
    const bool few = total(true) <= 4 && across >= 0;
    if (across_fits || few) {
      vertical(across);
    } else {
      horizontal(along);
    }
    const int64_t iterations = total(false);
    if (iterations <= kFewIterations && !stage_.serial) {
      const int64_t chunks =
          total(true) * std::min<int64_t>(iterations, extent(stage_.lane_loop)) / kChunkElements;
      stage_.reduce_chunks = std::clamp<int64_t>(chunks, 1, kMaxChunks);
    }
  }

  void vertical(int across) {
    stage_.schedule = Schedule::kVertical;
    stage_.lane_loop = across;
    stage_.row_loop = largest_loop(true, -1);
    stage_.block_lanes = even_piece(extent(across), kBlock / 2);
    stage_.block_rows = stage_.row_loop < 0 ? 1 : even_rows();
  }

  void horizontal(int along) {
    stage_.schedule = Schedule::kHorizontal;
    stage_.lane_loop = along;
    stage_.row_loop = largest_loop(false, -1);
    // A row that fits one block keeps its registers from phase to phase. Rows are summed side by
    // side, a vector of them at a time.
    stage_.block_lanes =
        even_piece(extent(along), total(true) <= kMaxBlockLanes ? kMaxBlockLanes : 2 * kBlock);
    stage_.block_rows = stage_.row_loop < 0 ? 1 : even_rows(6 * kBlock);
  }

  /// Lanes of the epilogue run along a loop that one operand alone walks, best where results are
  /// stored side by side; rows along the largest loop that the other one alone walks.
  void matmul() {
    stage_.schedule = Schedule::kMatmul;
    const std::vector<Instr>& body = stage_.phases[0].body;
    auto walks = [&](int operand, int loop) {
      return stage_.accesses[static_cast<size_t>(body[static_cast<size_t>(operand)].access)]
                 .stride[static_cast<size_t>(loop)] != 0;
    };
    std::vector<int> stored;
    for (size_t p = 1; p < stage_.phases.size(); ++p) {
      for (const Instr& in : stage_.phases[p].body) {
        if (is_store(in.op)) stored.push_back(in.access);
      }
    }
    int lane = -1, right = 1;
    for (int operand : {1, 0}) {
      for (int l = static_cast<int>(stage_.loops.size()); l-- > 0;) {
        if (stage_.loops[static_cast<size_t>(l)].reduce || !walks(operand, l) ||
            walks(1 - operand, l))
          continue;
        const bool better =
            lane < 0 || suit(l, stored) > suit(lane, stored) ||
            (suit(l, stored) == suit(lane, stored) && operand == right && extent(l) > extent(lane));
        if (better) lane = l, right = operand;
      }
    }
    stage_.lane_loop = lane;
    for (int l = static_cast<int>(stage_.loops.size()); l-- > 0;) {
      if (stage_.loops[static_cast<size_t>(l)].reduce || !walks(1 - right, l) || walks(right, l))
        continue;
      if (stage_.row_loop < 0 || extent(l) > extent(stage_.row_loop)) stage_.row_loop = l;
    }
    // A product's tile goes through the epilogue in few blocks: each finds its place anew.
    stage_.block_lanes = std::clamp<int64_t>(extent(lane), 1, kBlock / 8);
    stage_.block_rows =
        std::clamp<int64_t>(extent(stage_.row_loop), 1, 2 * kBlock / stage_.block_lanes);
  }

  BoundStage& stage_;
  bool reduces_ = false;
  std::vector<int> used_, reduced_;
};

}  // namespace

const char* schedule_name(Schedule schedule) {
  static constexpr const char* kNames[] = {"pointwise", "horizontal", "vertical", "matmul"};
  return kNames[static_cast<int>(schedule)];
}

void schedule_stage(BoundStage& stage) { Scheduler(stage).run(); }

}  // namespace spyre::program
