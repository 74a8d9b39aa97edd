// SPDX-License-Identifier: Apache-2.0
#include "softdev/vm/matmul.h"

#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "program/verify.h"
#include "softdev/vm/run.h"

namespace spyre::softdev {
namespace {

namespace blas = at::native::cpublas;

// A tile of the product is worked on by one core; its fp32 sums stay in the second-level cache.
constexpr int64_t kTile = 256;
// Tiles are halved down to kPanel while there are too few of them to share.
constexpr int64_t kFewTiles = 8;
// The right operand is packed in panels of so many columns, both operands in blocks of so much
// depth: a block of a panel and its counterpart fit the first-level cache.
constexpr int64_t kPanel = 64;
constexpr int64_t kDepth = 256;
// Columns of one piece of a product with few rows: long runs where columns lie side by side.
constexpr int64_t kGemvColumns = 256;
// Batches are packed in groups of about so many codes, which stay in the shared cache.
constexpr int64_t kGroupCodes = int64_t{1} << 23;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

bool contiguous(const std::vector<int64_t>& offsets) {
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] != offsets[0] + static_cast<int64_t>(i)) return false;
  }
  return true;
}

struct Engine {
  bool half = blas::could_pack(at::kHalf);
  bool bfloat16 = blas::could_pack(at::kBFloat16);
  bool pairs() const { return half || bfloat16; }
};

const Engine& engine() {
  static const Engine e;
  return e;
}

constexpr int8_t kCodes = INT8_MIN;

/// A packed block: rows x depth of the left operand, or depth x kPanel of the right one. Holds IEEE
/// half numbers of the values times 2^scale or, with scale kCodes, SEN169 codes.
struct Block {
  const uint16_t* data;
  int8_t scale;
  bool is_half() const { return scale != kCodes; }
};

/// Makes halves of a block of codes if the machine multiplies those and all values fit; returns the
/// scale.
int8_t finish(uint16_t* codes, int64_t n) {
  int scale = 0;
  return engine().half && kernels().codes_to_half(codes, n, &scale) ? static_cast<int8_t>(scale)
                                                                    : kCodes;
}

/// float sums times 2^exponent: a power of two is exact, and cannot overflow what products of
/// SEN169 reach.
void scale_rows(float* to, int64_t to_pitch, const float* from, int64_t from_pitch, int64_t rows,
                int64_t cols, int exponent) {
  const float factor = std::ldexp(1.0f, exponent);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) to[r * to_pitch + c] = from[r * from_pitch + c] * factor;
  }
}

/// Multiplies blocks; converts those that are not halves.
class Multiplier {
 public:
  explicit Multiplier(Workspace& workspace)
      : memory_(reinterpret_cast<uint16_t*>(
            workspace.get((kTile + kPanel) * kDepth * 2 * sizeof(uint16_t)))) {}
  ~Multiplier() {
    if (used_) blas::brgemm_release(true);
  }

  /// c (pitch ldc) = or += a (m x depth) * b (depth x width). c holds sums times 2^*exponent, and
  /// so it does afterwards, with another exponent perhaps. Consecutive calls with one `a` convert
  /// it once.
  void run(const Block& a, int64_t m, const Block& b, int64_t width, int64_t depth, float* c,
           int64_t ldc, bool add, int* exponent) {
    const bool halves = a.is_half() && b.is_half();
    const int wanted = halves ? a.scale + b.scale : 0;
    if (add && wanted != *exponent) scale_rows(c, ldc, c, ldc, m, width, wanted - *exponent);
    *exponent = wanted;
    if (!engine().pairs()) return plain(a, m, b, width, depth, c, ldc, add);
    used_ = true;
    if (halves) {
      blas::brgemm(m, width, depth, depth, width, ldc, add,
                   reinterpret_cast<const at::Half*>(a.data),
                   reinterpret_cast<const at::Half*>(b.data), c, true);
      return;
    }
    uint16_t *a_high = memory_, *a_low = a_high + kTile * kDepth;
    uint16_t *b_high = a_low + kTile * kDepth, *b_low = b_high + kPanel * kDepth;
    if (converted_ != a.data) split(a, m * depth, a_high, a_low);
    converted_ = a.data;
    split(b, width * depth, b_high, b_low);
    auto product = [&](const uint16_t* left, const uint16_t* right, bool add_to) {
      blas::brgemm(m, width, depth, depth, width, ldc, add_to,
                   reinterpret_cast<const at::BFloat16*>(left),
                   reinterpret_cast<const at::BFloat16*>(right), c, true);
    };
    // lo * lo is below what fp32 keeps of the rest.
    product(a_high, b_high, add);
    product(a_high, b_low, true);
    product(a_low, b_high, true);
  }

  /// Forgets what was converted: the memory of blocks is about to hold others.
  void forget() { converted_ = nullptr; }

 private:
  static void split(const Block& block, int64_t codes, uint16_t* high, uint16_t* low) {
    const uint16_t* data = block.data;
    if (block.is_half()) {
      kernels().half_to_codes(high, data, codes, block.scale);
      data = high;
    }
    kernels().codes_to_bf16(high, low, data, codes);
  }

  void plain(const Block& a, int64_t m, const Block& b, int64_t width, int64_t depth, float* c,
             int64_t ldc, bool add) {
    auto* a32 = reinterpret_cast<float*>(memory_);
    float* b32 = a32 + kTile * kDepth;
    if (converted_ != a.data) kernels().codes_to_f32(a32, a.data, m * depth);
    converted_ = a.data;
    kernels().codes_to_f32(b32, b.data, width * depth);
    kernels().gemm_f32(m, width, depth, a32, depth, b32, width, c, ldc, add);
  }

  uint16_t* memory_;
  const uint16_t* converted_ = nullptr;
  bool used_ = false;
};

/// Blocks of one operand of a group of batches, packed beforehand, or packed where they are used if
/// that happens only once.
struct Packed {
  int64_t tiles = 0;  ///< per batch: row tiles, or column panels
  int64_t block_codes = 0;
  bool ahead = false;
  uint16_t* data = nullptr;
  int8_t* scale = nullptr;
};

}  // namespace

Matmul::Matmul(const StagePlan& plan) : plan_(plan) { classify(); }

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
  side.outer_contiguous = contiguous(side.outer);
  side.inner_contiguous = contiguous(side.inner);
  return side;
}

MatrixView Matmul::view(const Side& side, int64_t batch, void* const* buffers) const {
  const AccessPlan& a = plan_.accesses[static_cast<size_t>(side.access)];
  const program::BoundStage& stage = *plan_.stage;
  int64_t start = a.offset;
  for (size_t i = batches_.loops.size(); i-- > 0;) {
    const size_t loop = batches_.loops[i];
    start += batch % stage.loops[loop].extent *
             stage.accesses[static_cast<size_t>(side.access)].stride[loop];
    batch /= stage.loops[loop].extent;
  }
  return {buffers[a.buffer],
          a.codec,
          side.outer.data(),
          side.inner.data(),
          start,
          side.outer_contiguous,
          side.inner_contiguous,
          a.indexed ? a.digits.data() : nullptr,
          a.digits.size()};
}

void Matmul::run(void* const* buffers, ThreadPool& pool, int cores, Workspace& shared) const {
  const MatrixView right = view(right_, 0, buffers);
  if (rows_.extent <= kMaxGemvRows && gemv_takes(right) && depth_.extent > 0)
    run_gemv(buffers, pool, cores);
  else
    run_tiles(buffers, pool, cores, shared);
}

void Matmul::run_gemv(void* const* buffers, ThreadPool& pool, int cores) const {
  const int64_t m = rows_.extent, n = cols_.extent, depth = depth_.extent,
                column_tiles = ceil_div(n, kGemvColumns);
  divide(batches_.extent * column_tiles, cores, plan_.cost_ns < kInlineNs, pool,
         [&](int64_t begin, int64_t end) {
           static thread_local Workspace workspace;
           const auto values = static_cast<size_t>(m * depth);
           auto* x = reinterpret_cast<float*>(
               workspace.get(values * (sizeof(float) + sizeof(uint16_t)) +
                             kGemvColumns * kMaxGemvRows * sizeof(float) + 64));
           float* product = x + round_up(m * depth, 16);
           auto* codes = reinterpret_cast<uint16_t*>(product + kGemvColumns * kMaxGemvRows);
           Frame frame(plan_, thread_arena(plan_.arena_bytes), buffers);
           int64_t packed = -1;
           for (int64_t i = begin; i < end; ++i) {
             const int64_t batch = i / column_tiles, col0 = i % column_tiles * kGemvColumns,
                           cols = std::min(kGemvColumns, n - col0);
             if (batch != packed) {
               kernels().pack_left(codes, view(left_, batch, buffers), 0, m, depth, depth);
               kernels().codes_to_f32(x, codes, m * depth);
               packed = batch;
             }
             kernels().gemv(product, kGemvColumns, x, m, view(right_, batch, buffers), col0, cols,
                            depth);
             epilogue(frame, batch, 0, m, col0, cols, product, kGemvColumns);
           }
         });
}

void Matmul::run_tiles(void* const* buffers, ThreadPool& pool, int cores, Workspace& shared) const {
  const int64_t m = rows_.extent, n = cols_.extent;
  const int64_t depth = std::max<int64_t>(depth_.extent, 1), depth_blocks = ceil_div(depth, kDepth);
  int64_t tile_rows = std::min(m, kTile), tile_cols = kTile;
  auto tiles = [&] { return batches_.extent * ceil_div(m, tile_rows) * ceil_div(n, tile_cols); };
  while (tiles() < kFewTiles && tile_cols > kPanel) tile_cols /= 2;
  while (tiles() < kFewTiles && tile_rows > kPanel) tile_rows = ceil_div(tile_rows, 2);
  const int64_t row_tiles = ceil_div(m, tile_rows), col_tiles = ceil_div(n, tile_cols);
  const int64_t width = std::min(kPanel, round_up(n, 16)), panels = ceil_div(n, width);
  const bool inline_only = plan_.cost_ns < kInlineNs;

  // An operand is packed ahead if its blocks are used by more than one tile.
  Packed a{row_tiles, tile_rows * kDepth, col_tiles > 1, nullptr, nullptr};
  Packed b{panels, width * kDepth, row_tiles > 1, nullptr, nullptr};
  auto blocks_per_batch = [&](const Packed& p) { return p.ahead ? p.tiles * depth_blocks : 0; };
  const int64_t codes_per_batch =
      blocks_per_batch(a) * a.block_codes + blocks_per_batch(b) * b.block_codes;
  const int64_t group =
      std::clamp<int64_t>(kGroupCodes / std::max<int64_t>(codes_per_batch, 1), 1, batches_.extent);
  const auto code_bytes = static_cast<size_t>(round_up(group * codes_per_batch * 2, 64));
  std::byte* memory = shared.get(
      code_bytes + static_cast<size_t>(group * (blocks_per_batch(a) + blocks_per_batch(b))));
  a.data = reinterpret_cast<uint16_t*>(memory);
  b.data = a.data + group * blocks_per_batch(a) * a.block_codes;
  a.scale = reinterpret_cast<int8_t*>(memory + code_bytes);
  b.scale = a.scale + group * blocks_per_batch(a);

  auto depth_of = [&](int64_t block) { return std::min(kDepth, depth_.extent - block * kDepth); };
  auto pitch_of = [&](int64_t block) { return round_up(std::max<int64_t>(depth_of(block), 1), 2); };
  auto part = [&](const Side& side, int64_t batch, int64_t block) {
    MatrixView v = view(side, batch, buffers);
    v.inner += std::min(block * kDepth, depth_.extent);
    return v;
  };
  auto pack_left = [&](uint16_t* out, int64_t batch, int64_t tile, int64_t block) {
    const MatrixView from = part(left_, batch, block);
    const int64_t rows = std::min(tile_rows, m - tile * tile_rows);
    kernels().pack_left(out, from, tile * tile_rows, rows, depth_of(block), pitch_of(block));
    return finish(out, rows * pitch_of(block));
  };
  auto pack_right = [&](uint16_t* out, int64_t batch, int64_t panel, int64_t block) {
    const MatrixView from = part(right_, batch, block);
    const int64_t cols = std::min(width, n - panel * width);
    kernels().pack_right(out, from, panel * width, cols, depth_of(block), pitch_of(block), width,
                         engine().pairs());
    return finish(out, width * pitch_of(block));
  };

  for (int64_t batch0 = 0; batch0 < batches_.extent; batch0 += group) {
    const int64_t batches = std::min(group, batches_.extent - batch0);
    const int64_t a_blocks = batches * blocks_per_batch(a),
                  b_blocks = batches * blocks_per_batch(b);
    divide(a_blocks + b_blocks, cores, inline_only, pool, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const bool left = i < a_blocks;
        const Packed& p = left ? a : b;
        const int64_t at = left ? i : i - a_blocks, block = at % depth_blocks,
                      tile = at / depth_blocks % p.tiles;
        const int64_t batch = batch0 + at / depth_blocks / p.tiles;
        uint16_t* out = p.data + at * p.block_codes;
        p.scale[at] =
            left ? pack_left(out, batch, tile, block) : pack_right(out, batch, tile, block);
      }
    });
    divide(batches * row_tiles * col_tiles, cores, inline_only, pool,
           [&](int64_t begin, int64_t end) {
             static thread_local Workspace converted, local;
             auto* product = reinterpret_cast<float*>(local.get(static_cast<size_t>(
                 tile_rows * tile_cols * 4 + (a.block_codes + b.block_codes) * 2)));
             auto* a_local = reinterpret_cast<uint16_t*>(product + tile_rows * tile_cols);
             uint16_t* b_local = a_local + a.block_codes;
             Multiplier multiplier(converted);
             Frame frame(plan_, thread_arena(plan_.arena_bytes), buffers);
             for (int64_t i = begin; i < end; ++i) {
               // Rows fastest, so that panels of the right operand are used again at once.
               const int64_t row = i % row_tiles, col = i / row_tiles % col_tiles,
                             batch = i / row_tiles / col_tiles;
               const int64_t rows = std::min(tile_rows, m - row * tile_rows),
                             cols = std::min(tile_cols, n - col * tile_cols);
               const int64_t first = col * tile_cols / width, count = ceil_div(cols, width),
                             pitch = count * width;
               int exponents[kTile / 16] = {};  // of the panels' sums
               for (int64_t block = 0; block < depth_blocks; ++block) {
                 const int64_t at = (batch * a.tiles + row) * depth_blocks + block;
                 Block left{a.data + at * a.block_codes, a.ahead ? a.scale[at] : kCodes};
                 if (!a.ahead) {
                   multiplier.forget();
                   left = {a_local, pack_left(a_local, batch0 + batch, row, block)};
                 }
                 for (int64_t panel = first; panel < first + count; ++panel) {
                   const int64_t to = (batch * b.tiles + panel) * depth_blocks + block;
                   Block right{b.data + to * b.block_codes, b.ahead ? b.scale[to] : kCodes};
                   if (!b.ahead)
                     right = {b_local, pack_right(b_local, batch0 + batch, panel, block)};
                   multiplier.run(left, rows, right, width, pitch_of(block),
                                  product + (panel - first) * width, pitch, block > 0,
                                  &exponents[panel - first]);
                 }
               }
               for (int64_t panel = 0; panel < count; ++panel) {
                 float* sums = product + panel * width;
                 if (exponents[panel] != 0)
                   scale_rows(sums, pitch, sums, pitch, rows, width, -exponents[panel]);
               }
               epilogue(frame, batch0 + batch, row * tile_rows, rows, col * tile_cols, cols,
                        product, pitch);
             }
           });
  }
}

/// Runs the phases after the dot on a tile, in pieces that lie evenly in every access.
void Matmul::epilogue(Frame& frame, int64_t batch, int64_t row0, int64_t rows, int64_t col0,
                      int64_t cols, const float* product, int64_t pitch) const {
  const program::BoundStage& stage = *plan_.stage;
  auto move = [&](const Axis& axis, int64_t position) {
    for (size_t i = axis.loops.size(); i-- > 0;) {
      const size_t loop = axis.loops[i];
      const int64_t extent = stage.loops[loop].extent, index = position % extent;
      position /= extent;
      if (index == 0) continue;
      for (size_t a = 0; a < frame.base.size(); ++a)
        frame.base[a] += index * stage.accesses[a].stride[loop];
    }
  };
  const int64_t row_run = plan_.row_extent, col_run = plan_.col_extent;
  for (int64_t r = row0; r < row0 + rows; r += frame.rows) {
    frame.rows = std::min({row0 + rows - r, row_run - r % row_run, stage.block_rows});
    for (int64_t c = col0; c < col0 + cols; c += frame.cols) {
      frame.cols = std::min({col0 + cols - c, col_run - c % col_run, stage.block_lanes});
      for (size_t a = 0; a < frame.base.size(); ++a) frame.base[a] = plan_.accesses[a].offset;
      move(batches_, batch);
      move(rows_, r);
      move(cols_, c);
      frame.current = frame.base;
      auto* to = reinterpret_cast<float*>(frame.at(plan_.product.offset));
      for (int64_t i = 0; i < frame.rows; ++i) {
        std::memcpy(to + i * frame.cols, product + (r - row0 + i) * pitch + (c - col0),
                    static_cast<size_t>(frame.cols) * sizeof(float));
      }
      for (size_t p = 1; p < plan_.phases.size(); ++p) frame.run(plan_.phases[p].steps);
    }
  }
}

}  // namespace spyre::softdev
