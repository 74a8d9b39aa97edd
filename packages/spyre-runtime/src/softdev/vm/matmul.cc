// SPDX-License-Identifier: Apache-2.0
#include "softdev/vm/matmul.h"

#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

#include "program/verify.h"
#include "softdev/vm/run.h"

namespace spyre::softdev {
namespace {

namespace blas = at::native::cpublas;

// A tile of the product, and the width of a packed panel: multiples of what the matrix unit takes.
constexpr int64_t kTile = 64;
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

/// Packed panels of one operand of a group of batches. Each holds codes, or halves if all of them fit.
struct Panels {
  uint16_t* data = nullptr;
  uint8_t* is_half = nullptr;
  int64_t per_batch = 0;  // panels
  int64_t codes = 0;      // of one panel
};

/// Multiplies panels tile by tile, and keeps what it converted for the next one.
class Multiplier {
 public:
  Multiplier(int64_t pitch, Workspace& workspace) : pitch_(pitch) {
    const auto codes = static_cast<size_t>(kTile * pitch);
    memory_ = workspace.get(codes * sizeof(float) * 2);
  }
  ~Multiplier() {
    if (used_) blas::brgemm_release(true);
  }

  void run(const Panels& a, int64_t a_panel, int64_t m, const Panels& b, int64_t b_panel, int64_t n, float* c,
           int64_t ldc) {
    const uint16_t* left = a.data + a_panel * a.codes;
    const uint16_t* right = b.data + b_panel * b.codes;
    if (!engine().pairs()) return plain(left, m, right, b_panel, n, c, ldc);
    used_ = true;
    if (a.is_half[a_panel] && b.is_half[b_panel]) {
      blas::brgemm(m, n, pitch_, pitch_, n, ldc, false, reinterpret_cast<const at::Half*>(left),
                   reinterpret_cast<const at::Half*>(right), c, true);
      return;
    }
    split(left, a.is_half[a_panel], m * pitch_, 0);
    if (converted_ != b_panel) split(right, b.is_half[b_panel], n * pitch_, 2);
    converted_ = b_panel;
    // hi * hi + hi * lo + lo * hi; lo * lo is below what fp32 keeps of the rest.
    product(m, n, 0, 2, c, ldc, false);
    product(m, n, 0, 3, c, ldc, true);
    product(m, n, 1, 2, c, ldc, true);
  }

 private:
  uint16_t* part(int i) const { return reinterpret_cast<uint16_t*>(memory_) + i * kTile * pitch_; }

  void split(const uint16_t* panel, bool is_half, int64_t codes, int to) {
    if (is_half) {
      kernels().half_to_codes(part(to), panel, codes);
      panel = part(to);
    }
    kernels().codes_to_bf16(part(to), part(to + 1), panel, codes);
  }

  void product(int64_t m, int64_t n, int left, int right, float* c, int64_t ldc, bool add) {
    blas::brgemm(m, n, pitch_, pitch_, n, ldc, add, reinterpret_cast<const at::BFloat16*>(part(left)),
                 reinterpret_cast<const at::BFloat16*>(part(right)), c, true);
  }

  void plain(const uint16_t* left, int64_t m, const uint16_t* right, int64_t b_panel, int64_t n, float* c, int64_t ldc) {
    auto* a32 = reinterpret_cast<float*>(memory_);
    float* b32 = a32 + kTile * pitch_;
    kernels().codes_to_f32(a32, left, m * pitch_);
    if (converted_ != b_panel) kernels().codes_to_f32(b32, right, n * pitch_);
    converted_ = b_panel;
    kernels().gemm_f32(m, n, pitch_, a32, pitch_, b32, n, c, ldc);
  }

  int64_t pitch_;
  std::byte* memory_;
  int64_t converted_ = -1;
  bool used_ = false;
};

}  // namespace

Matmul::Matmul(const StagePlan& plan) : plan_(plan) { classify(); }

void Matmul::classify() {
  const program::BoundStage& stage = *plan_.stage;
  const std::vector<program::Instr>& body = stage.phases[0].body;
  int left = body[0].access, right = body[1].access;
  auto walks = [&](int access, size_t loop) { return stage.accesses[static_cast<size_t>(access)].stride[loop] != 0; };
  if (stage.lane_loop >= 0 && walks(left, static_cast<size_t>(stage.lane_loop))) std::swap(left, right);
  auto add = [&](Axis& axis, size_t loop) {
    axis.loops.push_back(loop);
    axis.extent *= stage.loops[loop].extent;
  };
  for (size_t l = 0; l < stage.loops.size(); ++l) {
    const auto loop = static_cast<int32_t>(l);
    if (stage.loops[l].reduce) add(depth_, l);
    else if (loop == stage.lane_loop || loop == stage.row_loop) continue;
    else if (walks(left, l) && !walks(right, l)) add(rows_, l);
    else if (walks(right, l) && !walks(left, l)) add(cols_, l);
    else add(batches_, l);
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
      throw std::invalid_argument("an operand of a matrix product reaches host elements " + std::to_string(low) + " to " +
                                  std::to_string(high) + " of " + std::to_string(a.host_elements));
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
    start += batch % stage.loops[loop].extent * stage.accesses[static_cast<size_t>(side.access)].stride[loop];
    batch /= stage.loops[loop].extent;
  }
  return {buffers[a.buffer], a.codec, side.outer.data(), side.inner.data(), start,
          side.outer_contiguous, side.inner_contiguous, a.indexed ? a.digits.data() : nullptr, a.digits.size()};
}

void Matmul::run(void* const* buffers, ThreadPool& pool, int cores, Workspace& shared) const {
  const MatrixView right = view(right_, 0, buffers);
  if (rows_.extent <= kMaxGemvRows && gemv_takes(right) && depth_.extent > 0) run_gemv(buffers, pool, cores);
  else run_tiles(buffers, pool, cores, shared);
}

void Matmul::run_gemv(void* const* buffers, ThreadPool& pool, int cores) const {
  const int64_t m = rows_.extent, n = cols_.extent, depth = depth_.extent, column_tiles = ceil_div(n, kTile);
  divide(batches_.extent * column_tiles, cores, plan_.cost_ns < kInlineNs, pool, [&](int64_t begin, int64_t end) {
    static thread_local Workspace workspace;
    const auto values = static_cast<size_t>(m * depth);
    auto* x = reinterpret_cast<float*>(workspace.get(values * (sizeof(float) + sizeof(uint16_t)) + kTile * kTile * 4 + 64));
    float* product = x + round_up(m * depth, 16);
    auto* codes = reinterpret_cast<uint16_t*>(product + kTile * kMaxGemvRows);
    Frame frame(plan_, thread_arena(plan_.arena_bytes), buffers);
    int64_t packed = -1;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t batch = i / column_tiles, col0 = i % column_tiles * kTile, cols = std::min(kTile, n - col0);
      if (batch != packed) {
        kernels().pack_left(codes, view(left_, batch, buffers), 0, m, depth, depth);
        kernels().codes_to_f32(x, codes, m * depth);
        packed = batch;
      }
      kernels().gemv(product, kTile, x, m, view(right_, batch, buffers), col0, cols, depth);
      epilogue(frame, batch, 0, m, col0, cols, product, kTile);
    }
  });
}

void Matmul::run_tiles(void* const* buffers, ThreadPool& pool, int cores, Workspace& shared) const {
  const int64_t depth = depth_.extent, pitch = round_up(std::max<int64_t>(depth, 1), 2);
  const int64_t m = rows_.extent, n = cols_.extent;
  const int64_t row_tiles = ceil_div(m, kTile), col_tiles = ceil_div(n, kTile);
  const int64_t width = std::min(kTile, round_up(n, 16));
  const int64_t a_codes = std::min(m, kTile) * pitch, b_codes = width * pitch;
  const int64_t codes_per_batch = row_tiles * a_codes + col_tiles * b_codes;
  const int64_t group = std::clamp<int64_t>(kGroupCodes / codes_per_batch, 1, batches_.extent);
  const auto code_bytes = static_cast<size_t>(round_up(group * codes_per_batch * 2, 64));
  std::byte* memory = shared.get(code_bytes + static_cast<size_t>(group * (row_tiles + col_tiles)));
  const bool inline_only = plan_.cost_ns < kInlineNs;

  Panels a{reinterpret_cast<uint16_t*>(memory), reinterpret_cast<uint8_t*>(memory + code_bytes), row_tiles, a_codes};
  Panels b{a.data + group * row_tiles * a_codes, a.is_half + group * row_tiles, col_tiles, b_codes};
  for (int64_t batch0 = 0; batch0 < batches_.extent; batch0 += group) {
    const int64_t batches = std::min(group, batches_.extent - batch0);
    auto finish = [&](const Panels& p, int64_t panel) {
      uint16_t* codes = p.data + panel * p.codes;
      const bool half = engine().half && kernels().fits_half(codes, p.codes);
      if (half) kernels().codes_to_half(codes, p.codes);
      p.is_half[panel] = half;
    };
    auto pack = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / (row_tiles + col_tiles), panel = i % (row_tiles + col_tiles);
        if (panel < row_tiles) {
          const int64_t at = batch * row_tiles + panel;
          const int64_t count = std::min(kTile, m - panel * kTile);
          uint16_t* out = a.data + at * a_codes;
          kernels().pack_left(out, view(left_, batch0 + batch, buffers), panel * kTile, count, depth, pitch);
          std::fill(out + count * pitch, out + a_codes, uint16_t{0});
          finish(a, at);
        } else {
          const int64_t tile = panel - row_tiles, at = batch * col_tiles + tile;
          kernels().pack_right(b.data + at * b_codes, view(right_, batch0 + batch, buffers), tile * kTile,
                               std::min(kTile, n - tile * kTile), depth, pitch, width, engine().pairs());
          finish(b, at);
        }
      }
    };
    auto multiply = [&](int64_t begin, int64_t end) {
      static thread_local Workspace workspace;
      static thread_local Workspace product_memory;
      auto* product = reinterpret_cast<float*>(product_memory.get(kTile * kTile * sizeof(float)));
      Multiplier multiplier(pitch, workspace);
      Frame frame(plan_, thread_arena(plan_.arena_bytes), buffers);
      for (int64_t i = begin; i < end; ++i) {
        // Rows fastest, so that a panel of the right operand is used again at once.
        const int64_t row = i % row_tiles, col = i / row_tiles % col_tiles, batch = i / row_tiles / col_tiles;
        const int64_t rows = std::min(kTile, m - row * kTile), cols = std::min(kTile, n - col * kTile);
        multiplier.run(a, batch * row_tiles + row, rows, b, batch * col_tiles + col, width, product, width);
        epilogue(frame, batch0 + batch, row * kTile, rows, col * kTile, cols, product, width);
      }
    };
    divide(batches * (row_tiles + col_tiles), cores, inline_only, pool, pack);
    divide(batches * row_tiles * col_tiles, cores, inline_only, pool, multiply);
  }
}

/// Runs the phases after the dot on a tile, in pieces that lie evenly in every access.
void Matmul::epilogue(Frame& frame, int64_t batch, int64_t row0, int64_t rows, int64_t col0, int64_t cols,
                      const float* product, int64_t pitch) const {
  const program::BoundStage& stage = *plan_.stage;
  auto move = [&](const Axis& axis, int64_t position) {
    for (size_t i = axis.loops.size(); i-- > 0;) {
      const size_t loop = axis.loops[i];
      const int64_t extent = stage.loops[loop].extent, index = position % extent;
      position /= extent;
      if (index == 0) continue;
      for (size_t a = 0; a < frame.base.size(); ++a) frame.base[a] += index * stage.accesses[a].stride[loop];
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
