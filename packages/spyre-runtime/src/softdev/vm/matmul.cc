// SPDX-License-Identifier: Apache-2.0
#include "softdev/vm/matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "program/verify.h"
#include "softdev/vm/multiplier.h"
#include "softdev/vm/run.h"

namespace spyre::softdev {
namespace {

// Columns of a tile, and sums of the tiles that are multiplied in a row: a matrix engine that was
// idle takes microseconds to come to speed again, so it gets much to do before the epilogue takes
// the sums, which are still in the second-level cache then.
constexpr int64_t kMaxCols = 512;
constexpr int64_t kSums = int64_t{1} << 16;
// Operands that a task packs for tiles that are multiplied in a row, in codes.
constexpr int64_t kTogetherCodes = int64_t{1} << 18;
// A task's columns of the right operand, in codes: they stay in the second-level cache while tasks
// of other rows use them.
constexpr int64_t kStripCodes = int64_t{5} << 17;
// Rows of a left operand that a task packs for itself, in codes.
constexpr int64_t kLocalCodes = int64_t{1} << 18;
// Tasks are cut smaller while there are too few of them to share.
constexpr int64_t kFewTasks = 16;
constexpr int64_t kLeastRows = 32;
// Columns of one piece of a product with few rows: long runs where columns lie side by side.
constexpr int64_t kGemvColumns = 256;
// Batches are packed in groups of about so many codes, which stay in the shared cache.
constexpr int64_t kGroupCodes = int64_t{1} << 23;
// Fits what is of the order of one; others find their scale with the first block.
constexpr int8_t kFirstScale = 10;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/// The size of even pieces of n, each at most `most`, in multiples of `unit`.
int64_t even_piece(int64_t n, int64_t most, int64_t unit) {
  return round_up(ceil_div(n, ceil_div(n, most)), unit);
}

/// The longest run such that offsets come in runs of it; the last one may be shorter.
int64_t run_of(const std::vector<int64_t>& offsets) {
  int64_t run = static_cast<int64_t>(offsets.size());
  for (int64_t i = 1; i < static_cast<int64_t>(offsets.size()); ++i) {
    const auto at = static_cast<size_t>(i);
    if (offsets[at] != offsets[at - 1] + 1) run = std::gcd(run, i);
  }
  return run;
}

/// Blocks of one operand of a group of batches, packed beforehand.
struct Packed {
  int64_t tiles;  ///< per batch: row tiles, or column panels
  int64_t block_codes;
  int64_t blocks_per_batch;  ///< 0: not packed beforehand
  uint16_t* data = nullptr;
  int8_t* scale = nullptr;

  size_t code_bytes(int64_t batches) const {
    return static_cast<size_t>(round_up(batches * blocks_per_batch * block_codes * 2, 64));
  }
  /// Of so many batches, codes and scales.
  size_t bytes(int64_t batches) const {
    return code_bytes(batches) + static_cast<size_t>(round_up(batches * blocks_per_batch, 64));
  }
  void place(std::byte* memory, int64_t batches) {
    data = reinterpret_cast<uint16_t*>(memory);
    scale = reinterpret_cast<int8_t*>(memory + code_bytes(batches));
  }
  Block at(int64_t index) const {
    const uint16_t* block = data + index * block_codes;
    return {block, scale[index], engine().planes() ? block + block_codes / 2 : nullptr};
  }
};

/// Packs a block, by run(where to, halves or not), in the form in which the engine takes it. Of
/// `room`, `codes` are used, or so many of either plane.
template <class Run>
Block pack(uint16_t* out, int64_t room, int64_t codes, int8_t* scale, Run run) {
  static thread_local Workspace staging;
  if (engine().planes()) {
    auto* packed = reinterpret_cast<uint16_t*>(staging.get(static_cast<size_t>(room)));
    run(packed, nullptr);
    uint16_t* low = out + room / 2;
    kernels().codes_to_bf16(out, low, packed, codes);
    return {out, kCodes, low};
  }
  const int8_t got = run(out, engine().half ? scale : nullptr);
  if (got != kCodes) *scale = got;
  return {out, got};
}

}  // namespace

Matmul::Matmul(const program::BoundProgram& program, const StagePlan& plan) : plan_(plan) {
  classify();
  cut();
  describe_right(program);
}

void Matmul::classify() {
  const program::BoundStage& stage = *plan_.stage;
  const std::vector<program::Instr>& body = stage.phases[0].body;
  int left = body[0].access, right = body[1].access;
  auto walks = [&](int access, size_t loop) {
    return stage.accesses[static_cast<size_t>(access)].stride[loop] != 0;
  };
  if (stage.lane_loop >= 0 && walks(left, static_cast<size_t>(stage.lane_loop)))
    std::swap(left, right);
  auto add = [&](Axis& axis, size_t loop) {
    axis.loops.push_back(loop);
    axis.extent *= stage.loops[loop].extent;
  };
  for (size_t l = 0; l < stage.loops.size(); ++l) {
    const auto loop = static_cast<int32_t>(l);
    if (stage.loops[l].reduce)
      add(depth_, l);
    else if (loop == stage.lane_loop || loop == stage.row_loop)
      continue;
    else if (walks(left, l) && !walks(right, l))
      add(rows_, l);
    else if (walks(right, l) && !walks(left, l))
      add(cols_, l);
    else
      add(batches_, l);
  }
  if (stage.row_loop >= 0) add(rows_, static_cast<size_t>(stage.row_loop));
  if (stage.lane_loop >= 0) add(cols_, static_cast<size_t>(stage.lane_loop));
  left_ = make_side(left, rows_);
  right_ = make_side(right, cols_);
}

std::vector<int64_t> Matmul::offsets(int access, const Axis& axis) const {
  const program::BoundStage& stage = *plan_.stage;
  std::vector<int64_t> out{0};
  for (size_t loop : axis.loops) {
    const int64_t stride = stage.accesses[static_cast<size_t>(access)].stride[loop];
    std::vector<int64_t> next;
    next.reserve(out.size() * static_cast<size_t>(stage.loops[loop].extent));
    for (int64_t base : out) {
      for (int64_t i = 0; i < stage.loops[loop].extent; ++i) next.push_back(base + i * stride);
    }
    out = std::move(next);
  }
  return out;
}

Matmul::Side Matmul::make_side(int access, const Axis& axis) const {
  const program::BoundStage& stage = *plan_.stage;
  const program::BoundAccess& a = stage.accesses[static_cast<size_t>(access)];
  if (a.indexed && depth_.extent > 0) {
    // Offsets of a product are known here, so they are proven here.
    int64_t low = 0, high = 0;
    if (!program::access_range(stage, a, &low, &high) || low < 0 || high >= a.host_elements) {
      throw std::invalid_argument("an operand of a matrix product reaches host elements " +
                                  std::to_string(low) + " to " + std::to_string(high) + " of " +
                                  std::to_string(a.host_elements));
    }
  }
  Side side;
  side.access = access;
  side.outer = offsets(access, axis);
  side.inner = offsets(access, depth_);
  side.outer_run = run_of(side.outer);
  side.inner_run = run_of(side.inner);
  side.outer_contiguous = side.outer_run == static_cast<int64_t>(side.outer.size());
  side.inner_contiguous = side.inner_run == static_cast<int64_t>(side.inner.size());
  return side;
}

MatrixView Matmul::view(const Side& side, int64_t batch, void* const* buffers) const {
  const AccessPlan& a = plan_.accesses[static_cast<size_t>(side.access)];
  const program::BoundStage& stage = *plan_.stage;
  const std::vector<int64_t>& stride = stage.accesses[static_cast<size_t>(side.access)].stride;
  int64_t start = a.offset;
  for (size_t i = batches_.loops.size(); i-- > 0;) {
    const size_t loop = batches_.loops[i];
    start += batch % stage.loops[loop].extent * stride[loop];
    batch /= stage.loops[loop].extent;
  }
  return {buffers[a.buffer],
          a.codec,
          side.outer.data(),
          side.inner.data(),
          start,
          side.outer_run,
          side.inner_run,
          side.outer_contiguous,
          side.inner_contiguous,
          a.indexed ? a.digits.data() : nullptr,
          a.digits.size(),
          batches_.loops.empty() ? 0 : stride[batches_.loops.back()]};
}

bool Matmul::is_gemv(void* const* buffers) const {
  return rows_.extent <= kMaxGemvRows && depth_.extent > 0 && gemv_takes(view(right_, 0, buffers));
}

void Matmul::run(void* const* buffers, ThreadPool& pool, int cores, Workspace& shared,
                 PackedInRun& packed) const {
  if (plan_.cost_ns < kInlineNs) cores = 1;
  if (is_gemv(buffers)) return run_gemv(0, batches_.extent, buffers, pool, cores);
  const PackedCache::Found kept = find_packed(buffers, packed);
  run_tiles(0, batches_.extent, buffers, pool, cores, shared, kept);
  if (kept.to_fill) kept.operand->is_filled.store(true, std::memory_order_release);
}

void Matmul::run_batches(int64_t first, int64_t last, void* const* buffers, ThreadPool& pool,
                         Workspace& packed) const {
  if (is_gemv(buffers))
    run_gemv(first, last, buffers, pool, 1);
  else
    run_tiles(first, last, buffers, pool, 1, packed, {});
}

void Matmul::run_gemv(int64_t first, int64_t last, void* const* buffers, ThreadPool& pool,
                      int cores) const {
  const int64_t m = rows_.extent, n = cols_.extent, depth = depth_.extent,
                column_tiles = ceil_div(n, kGemvColumns);
  divide((last - first) * column_tiles, cores, false, pool, [&](int64_t begin, int64_t end) {
    static thread_local Workspace workspace;
    const auto values = static_cast<size_t>(m * depth);
    auto* x =
        reinterpret_cast<float*>(workspace.get(values * (sizeof(float) + sizeof(uint16_t)) +
                                               kGemvColumns * kMaxGemvRows * sizeof(float) + 64));
    float* product = x + round_up(m * depth, 16);
    auto* codes = reinterpret_cast<uint16_t*>(product + kGemvColumns * kMaxGemvRows);
    Frame frame(plan_, thread_arena(plan_.arena_bytes), buffers);
    int64_t packed = -1;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t batch = first + i / column_tiles, col0 = i % column_tiles * kGemvColumns,
                    cols = std::min(kGemvColumns, n - col0);
      if (batch != packed) {
        kernels().pack_left(codes, view(left_, batch, buffers), 0, m, depth, depth, nullptr);
        kernels().codes_to_f32(x, codes, m * depth);
        packed = batch;
      }
      kernels().gemv(product, kGemvColumns, x, m, view(right_, batch, buffers), col0, cols, depth);
      epilogue(frame, batch, 0, m, col0, cols, {product, kGemvColumns, 0, cols, nullptr});
    }
  });
}

void Matmul::cut() {
  const int64_t m = rows_.extent, n = cols_.extent, depth = std::max<int64_t>(depth_.extent, 1);
  Tiling& t = tiling_;
  t.width = std::min(panel_columns(), round_up(n, 16));
  t.panels = ceil_div(n, t.width);
  t.depth = even_piece(depth, kMaxBlockDepth, 64);
  t.depth_blocks = ceil_div(depth, t.depth);
  t.rows = std::min(m, even_piece(m, kMaxBlockRows, 16));
  t.cols = even_piece(n, kMaxCols, t.width);
  const int64_t strip = std::max(t.cols, kStripCodes / depth / t.cols * t.cols);
  t.strip = even_piece(n, strip, t.cols);
  auto tasks = [&] { return batches_.extent * ceil_div(m, t.rows) * ceil_div(n, t.strip); };
  while (tasks() < kFewTasks && t.strip > t.cols) t.strip = round_up(t.strip / 2, t.cols);
  while (tasks() < kFewTasks && t.cols > t.width) t.strip = t.cols = round_up(t.cols / 2, t.width);
  while (tasks() < kFewTasks && t.rows > kLeastRows) t.rows = ceil_div(t.rows, 2);
  t.row_tiles = ceil_div(m, t.rows);
  t.strips = ceil_div(n, t.strip);
  const int64_t planes = engine().planes() ? 2 : 1;
  t.left_codes = t.rows * left_pitch(t.depth) * planes;
  t.right_codes = t.width * t.depth * planes;
  t.tile_panels = ceil_div(t.cols, t.width);
  t.tile_sums = t.rows * t.tile_panels * t.width;
  t.together = 1;
  if (t.strip == t.cols) {
    const int64_t codes = t.left_codes + t.tile_panels * t.right_codes;
    t.together = std::max<int64_t>(1, std::min(kSums / t.tile_sums, kTogetherCodes / codes));
  }
  t.left_ahead = t.strips > 1 || (t.strip > t.cols && t.left_codes * t.depth_blocks > kLocalCodes);
  t.right_ahead = t.row_tiles > 1;
}

/// A right operand of one batch that lies in an argument may be kept: it may be a weight.
void Matmul::describe_right(const program::BoundProgram& program) {
  const AccessPlan& a = plan_.accesses[static_cast<size_t>(right_.access)];
  const program::BoundBuffer& buffer = program.buffers[static_cast<size_t>(a.buffer)];
  if (buffer.kind != program::BufferKind::kArg || batches_.extent != 1) return;
  const program::BoundStage& stage = *plan_.stage;
  right_bytes_ = static_cast<uint64_t>(buffer.bytes);
  right_form_ = {static_cast<int64_t>(a.codec), a.offset, tiling_.width, tiling_.depth};
  for (const Axis* axis : {&cols_, &depth_}) {
    right_form_.push_back(static_cast<int64_t>(axis->loops.size()));
    for (size_t loop : axis->loops) {
      right_form_.push_back(stage.loops[loop].extent);
      right_form_.push_back(stage.accesses[static_cast<size_t>(right_.access)].stride[loop]);
    }
  }
  if (!a.indexed) return;
  for (const layout::Digit& digit : a.digits)
    right_form_.insert(right_form_.end(), {digit.divisor, digit.device_stride, digit.limit});
}

PackedCache::Found Matmul::find_packed(void* const* buffers, PackedInRun& packed) const {
  if (right_form_.empty()) return {};
  const AccessPlan& a = plan_.accesses[static_cast<size_t>(right_.access)];
  const auto begin = reinterpret_cast<uintptr_t>(buffers[a.buffer]);
  const Packed b{tiling_.panels, tiling_.right_codes, tiling_.panels * tiling_.depth_blocks};
  return packed.find({begin, begin + right_bytes_}, right_form_, b.bytes(1));
}

/// With a right operand that is kept, that one is used, and filled first if it is to be.
void Matmul::run_tiles(int64_t first, int64_t last, void* const* buffers, ThreadPool& pool,
                       int cores, Workspace& shared, const PackedCache::Found& kept) const {
  const Tiling& t = tiling_;
  const int64_t m = rows_.extent, n = cols_.extent;
  const bool right_ahead = t.right_ahead || kept.operand != nullptr,
             right_is_packed = kept.operand != nullptr && !kept.to_fill;

  Packed a{t.row_tiles, t.left_codes, t.left_ahead ? t.row_tiles * t.depth_blocks : 0};
  Packed b{t.panels, t.right_codes, right_ahead ? t.panels * t.depth_blocks : 0};
  const int64_t codes_per_batch =
      a.blocks_per_batch * a.block_codes + b.blocks_per_batch * b.block_codes;
  const int64_t group =
      std::clamp<int64_t>(kGroupCodes / std::max<int64_t>(codes_per_batch, 1), 1, last - first);
  std::byte* memory =
      shared.get(a.bytes(group) + (kept.operand == nullptr ? b.bytes(group) : size_t{0}));
  a.place(memory, group);
  b.place(kept.operand == nullptr ? memory + a.bytes(group) : kept.operand->memory.get(b.bytes(1)),
          group);

  auto depth_of = [&](int64_t block) {
    return std::clamp<int64_t>(depth_.extent - block * t.depth, 0, t.depth);
  };
  auto even_depth = [&](int64_t block) {
    return round_up(std::max<int64_t>(depth_of(block), 1), 2);
  };
  auto part = [&](const Side& side, int64_t batch, int64_t block) {
    MatrixView v = view(side, batch, buffers);
    v.inner += std::min(block * t.depth, depth_.extent);
    if (t.depth_blocks > 1 && !v.inner_contiguous) v.inner_run = std::gcd(v.inner_run, t.depth);
    return v;
  };
  // Packs a block with *scale as the guess, and puts the scale it got there.
  auto pack_left = [&](uint16_t* out, int64_t batch, int64_t tile, int64_t block, int8_t* scale) {
    const int64_t rows = std::min(t.rows, m - tile * t.rows), pitch = left_pitch(even_depth(block));
    return pack(out, t.left_codes, rows * pitch, scale, [&](uint16_t* to, const int8_t* halves) {
      return kernels().pack_left(to, part(left_, batch, block), tile * t.rows, rows,
                                 depth_of(block), pitch, halves);
    });
  };
  auto pack_right = [&](uint16_t* out, int64_t batch, int64_t panel, int64_t block, int8_t* scale) {
    const int64_t cols = std::min(t.width, n - panel * t.width), depth = even_depth(block);
    return pack(
        out, t.right_codes, depth * t.width, scale, [&](uint16_t* to, const int8_t* halves) {
          return kernels().pack_right(to, part(right_, batch, block), panel * t.width, cols,
                                      depth_of(block), depth, t.width, engine().pairs(), halves);
        });
  };

  for (int64_t batch0 = first; batch0 < last; batch0 += group) {
    const int64_t batches = std::min(group, last - batch0);
    const int64_t a_blocks = batches * a.blocks_per_batch,
                  b_blocks = right_is_packed ? 0 : batches * b.blocks_per_batch;
    divide(a_blocks + b_blocks, cores, false, pool, [&](int64_t begin, int64_t end) {
      int8_t left_scale = kFirstScale, right_scale = kFirstScale;
      for (int64_t i = begin; i < end; ++i) {
        const bool left = i < a_blocks;
        const Packed& p = left ? a : b;
        const int64_t at = left ? i : i - a_blocks, block = at % t.depth_blocks,
                      tile = at / t.depth_blocks % p.tiles;
        const int64_t batch = batch0 + at / t.depth_blocks / p.tiles;
        uint16_t* out = p.data + at * p.block_codes;
        const Block packed = left ? pack_left(out, batch, tile, block, &left_scale)
                                  : pack_right(out, batch, tile, block, &right_scale);
        p.scale[at] = packed.scale;
      }
    });
    divide(batches * t.row_tiles * t.strips, cores, false, pool, [&](int64_t begin, int64_t end) {
      static thread_local Workspace converted, local;
      static thread_local std::vector<Block> left, right;
      static thread_local std::vector<int> exponents;  // of the panels' sums
      const int64_t a_slots = t.left_ahead       ? 0
                              : t.strip > t.cols ? t.depth_blocks
                                                 : t.together,
                    b_slots = right_ahead ? 0 : t.together * t.tile_panels;
      auto* sums = reinterpret_cast<float*>(
          local.get(static_cast<size_t>(t.together * t.tile_sums * 4 + a_slots * a.block_codes * 2 +
                                        b_slots * b.block_codes * 2)));
      auto* b_local = reinterpret_cast<uint16_t*>(sums + t.together * t.tile_sums);
      uint16_t* a_local = b_local + b_slots * b.block_codes;
      left.resize(static_cast<size_t>(std::max(t.together, t.depth_blocks)));
      right.resize(static_cast<size_t>(t.together * t.tile_panels));
      exponents.resize(right.size());
      int8_t left_scale = kFirstScale, right_scale = kFirstScale;
      Multiplier multiplier(converted);
      Frame frame(plan_, thread_arena(plan_.arena_bytes), buffers);

      struct Tile {
        int64_t batch, row, rows, col, cols, panel, panels;
      };
      // Rows fastest, so that columns of the right operand are used again at once.
      auto tile_of = [&](int64_t task, int64_t col_in_strip) {
        const int64_t row = task % t.row_tiles, strip = task / t.row_tiles % t.strips;
        const int64_t col = strip * t.strip + col_in_strip,
                      cols = std::min({t.cols, t.strip - col_in_strip, n - col});
        return Tile{task / t.row_tiles / t.strips,
                    row,
                    std::min(t.rows, m - row * t.rows),
                    col,
                    cols,
                    col / t.width,
                    ceil_div(cols, t.width)};
      };
      // Tiles at these columns of the strips of tasks [first_task, first_task + count).
      auto run_tiles_of = [&](int64_t first_task, int64_t count, int64_t col_in_strip) {
        for (int64_t block = 0; block < t.depth_blocks; ++block) {
          const int64_t kept_left = t.strip > t.cols ? block : 0;
          for (int64_t j = 0; j < count; ++j) {
            const Tile tile = tile_of(first_task + j, col_in_strip);
            Block& l = left[static_cast<size_t>(kept_left + j)];
            if (t.left_ahead) {
              l = a.at((tile.batch * a.tiles + tile.row) * t.depth_blocks + block);
            } else if (col_in_strip == 0) {
              uint16_t* out = a_local + (kept_left + j) * a.block_codes;
              l = pack_left(out, batch0 + tile.batch, tile.row, block, &left_scale);
              multiplier.forget();
            }
            for (int64_t p = 0; p < tile.panels; ++p) {
              const int64_t slot = j * t.tile_panels + p, panel = tile.panel + p;
              uint16_t* out = b_local + slot * b.block_codes;
              right[static_cast<size_t>(slot)] =
                  right_ahead ? b.at((tile.batch * b.tiles + panel) * t.depth_blocks + block)
                              : pack_right(out, batch0 + tile.batch, panel, block, &right_scale);
            }
          }
          for (int64_t j = 0; j < count; ++j) {
            const Tile tile = tile_of(first_task + j, col_in_strip);
            for (int64_t slot = j * t.tile_panels; slot < j * t.tile_panels + tile.panels; ++slot) {
              multiplier.run(left[static_cast<size_t>(kept_left + j)], tile.rows,
                             right[static_cast<size_t>(slot)], t.width, even_depth(block),
                             sums + slot * t.rows * t.width, t.width, block > 0,
                             &exponents[static_cast<size_t>(slot)]);
            }
          }
        }
        for (int64_t j = 0; j < count; ++j) {
          const Tile tile = tile_of(first_task + j, col_in_strip);
          epilogue(frame, batch0 + tile.batch, tile.row * t.rows, tile.rows, tile.col, tile.cols,
                   {sums + j * t.tile_sums, t.width, t.rows * t.width, t.width,
                    &exponents[static_cast<size_t>(j * t.tile_panels)]});
        }
      };
      for (int64_t i = begin; i < end;) {
        const int64_t count = ceil_div(end - i, ceil_div(end - i, t.together)),
                      columns = std::min(t.strip, n - i / t.row_tiles % t.strips * t.strip);
        for (int64_t col = 0; col < columns; col += t.cols) run_tiles_of(i, count, col);
        i += count;
      }
    });
  }
}

/// Runs the phases after the dot on a tile, in pieces that lie evenly in every access.
void Matmul::epilogue(Frame& frame, int64_t batch, int64_t row0, int64_t rows, int64_t col0,
                      int64_t cols, const Sums& sums) const {
  const program::BoundStage& stage = *plan_.stage;
  auto move = [&](const Axis& axis, int64_t position) {
    for (size_t i = axis.loops.size(); i-- > 0;) {
      const size_t loop = axis.loops[i];
      const int64_t extent = stage.loops[loop].extent, index = position % extent;
      position /= extent;
      if (index == 0) continue;
      for (size_t a = 0; a < frame.current.size(); ++a)
        frame.current[a] += index * stage.accesses[a].stride[loop];
    }
  };
  const int64_t row_run = plan_.row_extent, col_run = plan_.col_extent;
  for (int64_t r = row0; r < row0 + rows; r += frame.rows) {
    frame.rows = std::min(row0 + rows - r, row_run - r % row_run);
    if (!plan_.any_rows) frame.rows = std::min(frame.rows, stage.block_rows);
    for (int64_t c = col0; c < col0 + cols; c += frame.cols) {
      const int64_t at = c - col0, panel = at / sums.width;
      frame.cols = std::min(
          {cols - at, (panel + 1) * sums.width - at, col_run - c % col_run, stage.block_lanes});
      for (size_t a = 0; a < frame.current.size(); ++a) frame.current[a] = plan_.accesses[a].offset;
      move(batches_, batch);
      move(rows_, r);
      move(cols_, c);
      frame.sums = {
          sums.data + panel * sums.panel + (r - row0) * sums.pitch + at - panel * sums.width,
          sums.pitch, sums.exponents == nullptr ? 1.0f : std::ldexp(1.0f, -sums.exponents[panel])};
      if (plan_.keeps_product) {
        auto* to = reinterpret_cast<float*>(frame.at(plan_.product.offset));
        kernels().scale_rows(to, frame.cols, frame.sums.data, sums.pitch, frame.rows, frame.cols,
                             frame.sums.factor);
      }
      for (size_t p = 1; p < plan_.phases.size(); ++p) frame.run(plan_.phases[p].steps);
    }
  }
}

}  // namespace spyre::softdev
