// SPDX-License-Identifier: Apache-2.0
// Packing, conversion and plain kernels of matrix products.
#include <algorithm>
#include <cstring>

#include "softdev/kernels/fill.h"
#include "softdev/kernels/sen169_lanes.h"
#include "spyre/layout/codec.h"

namespace spyre::softdev::CPU_CAPABILITY {
namespace {

// --- codes ---------------------------------------------------------------------------------------

template <class T>
struct CodeOf;
template <>
struct CodeOf<uint16_t> {
  static uint16_t code(uint16_t x) { return x; }
};
template <>
struct CodeOf<float> {
  static uint16_t code(float x) { return layout::float_to_sen169(x); }
};
struct Fp8Sen143 {
  uint8_t bits;
};
struct Fp8Sen152 {
  uint8_t bits;
};
template <>
struct CodeOf<Fp8Sen143> {
  static uint16_t code(Fp8Sen143 x) {
    return layout::float_to_sen169(layout::sen143_to_float(x.bits));
  }
};
template <>
struct CodeOf<Fp8Sen152> {
  static uint16_t code(Fp8Sen152 x) {
    return layout::float_to_sen169(layout::sen152_to_float(x.bits));
  }
};

/// Calls run with the view's base, typed.
template <class Run>
void with_base(const MatrixView& view, Run run) {
  switch (view.codec) {
    case Codec::kFp32: return run(static_cast<const float*>(view.base));
    case Codec::kSen143: return run(static_cast<const Fp8Sen143*>(view.base));
    case Codec::kSen152: return run(static_cast<const Fp8Sen152*>(view.base));
    default: return run(static_cast<const uint16_t*>(view.base));
  }
}

int64_t element(const MatrixView& view, int64_t i, int64_t k) {
  const int64_t offset = view.start + view.outer[i] + view.inner[k];
  return view.digits == nullptr ? offset
                                : layout::map_offset(view.digits, view.digit_count, offset);
}

// --- halves --------------------------------------------------------------------------------------

// IEEE half has 5 exponent bits with bias 15: its normal numbers are SEN169 exponents 17 to 46.
constexpr int kHalfLow = 0x2200, kHalfEnd = 0x5E00, kHalfShift = 0x2000, kBinade = 0x200;
// Scales are multiples of this, so that blocks of one operand mostly share theirs.
constexpr int kScaleStep = 5, kScaleMost = 15, kScaleLeast = -20;

/// Turns codes into halves for one scale, and keeps the range of what it saw.
class ToHalf {
 public:
  explicit ToHalf(int scale)
      : scale_(scale), shift_(static_cast<uint16_t>(scale * kBinade - kHalfShift)) {}

  [[gnu::always_inline]] void run(uint16_t* to, const uint16_t* codes, int64_t n) {
    const uint16_t shift = shift_;
    Lanes above = above_, below = below_, lanes;
    auto take = [&] {
      const Lanes magnitude = lanes & 0x7FFF, less = magnitude - 1;  // zero wraps to the top
      above = magnitude > above ? magnitude : above;
      below = less < below ? less : below;
      const Lanes half = (magnitude + shift) << 1;
      lanes = (lanes & 0x8000) | (magnitude == 0 ? Lanes{} : half);
    };
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      std::memcpy(&lanes, codes + i, sizeof lanes);
      take();
      std::memcpy(to + i, &lanes, sizeof lanes);
    }
    if (i < n) {
      const auto bytes = static_cast<size_t>(n - i) * sizeof *codes;
      lanes = Lanes{};
      std::memcpy(&lanes, codes + i, bytes);
      take();
      std::memcpy(to + i, &lanes, bytes);
    }
    above_ = above;
    below_ = below;
  }

  /// Whether all values were zero or became normal numbers.
  bool fits() const { return fits(scale_); }

  /// A scale with which they would; kCodes if there is none.
  int8_t other_scale() const {
    for (int scale = kScaleMost; scale >= kScaleLeast; scale -= kScaleStep) {
      if (fits(scale)) return static_cast<int8_t>(scale);
    }
    return kCodes;
  }

 private:
  static constexpr int kLanes = 32;
  using Lanes = uint16_t __attribute__((vector_size(2 * kLanes)));

  bool fits(int scale) const {
    int high = 0, low = 0xFFFF;
    for (int lane = 0; lane < kLanes; ++lane) {
      high = std::max<int>(high, above_[lane]);
      low = std::min<int>(low, below_[lane]);
    }
    return high != layout::kSen169Nan && high + scale * kBinade < kHalfEnd &&
           low + 1 + scale * kBinade >= kHalfLow;
  }

  int scale_;
  uint16_t shift_;
  Lanes above_ = Lanes{}, below_ = ~Lanes{};
};

/// Leaves codes as they are.
struct KeepCodes {
  void run(uint16_t* to, const uint16_t* codes, int64_t n) {
    if (to != codes) std::memcpy(to, codes, static_cast<size_t>(n) * sizeof *codes);
  }
};

/// Packs with the guessed scale, again with another one if values do not fit that, and as codes if
/// they fit none. Which of the two it is depends on the values alone; a scale changes no result.
template <class Pack>
int8_t pack_scaled(const int8_t* halves, Pack pack) {
  KeepCodes keep;
  if (halves != nullptr) {
    ToHalf guessed(*halves);
    pack(guessed);
    if (guessed.fits()) return *halves;
    const int8_t scale = guessed.other_scale();
    if (scale != kCodes) {
      ToHalf right(scale);
      pack(right);
      return scale;
    }
  }
  pack(keep);
  return kCodes;
}

// --- packing -------------------------------------------------------------------------------------

template <class T>
void pack_run(uint16_t* out, int64_t step, const T* from, int64_t n) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = CodeOf<T>::code(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i * step] = CodeOf<T>::code(from[i]);
  }
}

template <class Convert>
void convert_run(uint16_t* out, const uint16_t* from, int64_t n, Convert& convert) {
  convert.run(out, from, n);
}
template <class T, class Convert>
void convert_run(uint16_t* out, const T* from, int64_t n, Convert& convert) {
  pack_run(out, 1, from, n);
  convert.run(out, out, n);
}

// Shorter runs are not worth a call.
constexpr int64_t kLeastRun = 8;
// Of one cache line, or two.
constexpr int64_t kShortRun = 64;

template <class T, class Convert>
void pack_rows(uint16_t* out, const T* base, const MatrixView& view, int64_t first, int64_t count,
               int64_t depth, int64_t pitch, Convert& convert) {
  const bool affine = view.digits == nullptr;
  const bool along = affine && std::min(view.inner_run, depth) >= std::min(kLeastRun, depth);
  const bool across = affine && !along && view.outer_contiguous;
  constexpr int64_t kStrip =
      32;  // rows that stay in the first-level cache until they are converted
  for (int64_t i0 = 0; i0 < count; i0 += kStrip) {
    const int64_t i_end = std::min(count, i0 + kStrip);
    for (int64_t k = 0; across && k < depth; ++k)
      pack_run(out + i0 * pitch + k, pitch, base + element(view, first + i0, k), i_end - i0);
    Convert local = convert;  // so that it stays in registers
    // Runs of neighbouring rows often lie side by side, as sticks do: memory is read in its order.
    for (int64_t k = 0; along && k < depth; k += view.inner_run) {
      const int64_t n = std::min(view.inner_run, depth - k);
      for (int64_t i = i0; i < i_end; ++i) {
        const T* run = base + element(view, first + i, k);
        // The next batch's runs, if they are too short for the hardware to see where they lead.
        if (n <= kShortRun) __builtin_prefetch(run + view.ahead);
        convert_run(out + i * pitch + k, run, n, local);
      }
    }
    convert = local;
    for (int64_t i = i0; i < i_end; ++i) {
      uint16_t* row = out + i * pitch;
      if (!along) {
        for (int64_t k = 0; !across && k < depth; ++k)
          row[k] = CodeOf<T>::code(base[element(view, first + i, k)]);
        convert.run(row, row, depth);
      }
      std::fill(row + depth, row + pitch, uint16_t{0});
    }
  }
}

int8_t pack_left(uint16_t* out, const MatrixView& view, int64_t first, int64_t count, int64_t depth,
                 int64_t pitch, const int8_t* halves) {
  return pack_scaled(halves, [&](auto& convert) {
    with_base(view, [&](const auto* base) {
      pack_rows(out, base, view, first, count, depth, pitch, convert);
    });
  });
}

/// Rows of codes, count x pitch, as columns of pairs: 32-bit elements transposed.
void transpose_pairs(uint16_t* out, const uint16_t* rows, int64_t count, int64_t pitch,
                     int64_t width) {
  const auto* in = reinterpret_cast<const float*>(rows);
  auto* to = reinterpret_cast<float*>(out);
  const int64_t pairs = pitch / 2;
  for (int64_t i0 = 0; i0 < count; i0 += 16) {
    const int64_t i_count = std::min<int64_t>(16, count - i0);
    int64_t j0 = 0;
#if defined(CPU_CAPABILITY_AVX512)
    if (i_count == 16) {
      for (; j0 + 16 <= pairs; j0 += 16) {
        at::vec::transpose_mxn<float, 16, 16>(in + i0 * pairs + j0, pairs, to + j0 * width + i0,
                                              width);
      }
    }
#endif
    for (; j0 < pairs; ++j0) {
      for (int64_t i = 0; i < i_count; ++i) {
        std::memcpy(to + j0 * width + i0 + i, in + (i0 + i) * pairs + j0, sizeof(float));
      }
    }
  }
}

// Depth of a block that is turned at a time: rows and their transpose stay in the cache.
constexpr int64_t kTurnDepth = 128;

/// Whether runs are long, and every block begins with one.
bool turns(const MatrixView& view) {
  const int64_t run = view.inner_run;
  return view.inner_contiguous ||
         (run >= kLeastRun && (run % kTurnDepth == 0 || kTurnDepth % run == 0));
}

/// Columns that lie in runs along the depth, as pairs.
template <class T, class Convert>
void pack_turned(uint16_t* out, const T* base, const MatrixView& view, int64_t first, int64_t count,
                 int64_t depth, int64_t pitch, int64_t width, Convert& convert) {
  constexpr int64_t kBlock = kTurnDepth, kStrip = 16;
  alignas(64) uint16_t rows[kStrip * kBlock];
  for (int64_t i0 = 0; i0 < count; i0 += kStrip) {
    const int64_t i_count = std::min(kStrip, count - i0);
    for (int64_t k0 = 0; k0 < pitch; k0 += kBlock) {
      const int64_t rows_pitch = std::min(kBlock, pitch - k0),
                    block = std::clamp<int64_t>(depth - k0, 0, rows_pitch);
      MatrixView part = view;
      part.inner += std::min(k0, depth);
      // Runs are too short for the hardware to see where they lead: the next strip, and from the
      // last one the next block of the depth.
      for (int64_t i = i0; i < i0 + i_count && block > 0; ++i) {
        const bool last = i + kStrip >= count;
        const T* next = base +
                        element(part, first + (last ? (i + kStrip) % count : i + kStrip), 0) +
                        (last ? depth : 0);
        for (int64_t k = 0; k < block; k += 64 / static_cast<int64_t>(sizeof(T)))
          __builtin_prefetch(next + k, 0, 2);
      }
      pack_rows(rows, base, part, first + i0, i_count, block, rows_pitch, convert);
      transpose_pairs(out + k0 * width + i0 * 2, rows, i_count, rows_pitch, width);
    }
  }
}

/// Rows k and k + 1 of columns that are contiguous, interleaved.
template <class T>
void pack_pair(uint16_t* out, const T* even, const T* odd, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    out[2 * i] = CodeOf<T>::code(even[i]);
    out[2 * i + 1] = CodeOf<T>::code(odd[i]);
  }
}

template <class T, class Convert>
void pack_columns(uint16_t* out, const T* base, const MatrixView& view, int64_t first,
                  int64_t count, int64_t depth, int64_t pitch, int64_t width, bool pairs,
                  Convert& convert) {
  const bool affine = view.digits == nullptr;
  if (count < width || depth < pitch) std::fill_n(out, pitch * width, uint16_t{0});
  if (pairs && affine && turns(view)) {
    pack_turned(out, base, view, first, count, depth, pitch, width, convert);
    return;
  }
  for (int64_t k = 0; k < depth;) {
    uint16_t* rows = out + (pairs ? k / 2 * width * 2 : k * width);
    if (pairs && affine && view.outer_contiguous && k + 2 <= depth) {
      pack_pair(rows, base + element(view, first, k), base + element(view, first, k + 1), count);
      convert.run(rows, rows, 2 * count);
      k += 2;
      continue;
    }
    for (int64_t odd = 0; odd < (pairs ? 2 : 1) && k < depth; ++odd, ++k) {
      uint16_t* row = rows + odd;
      const int64_t step = pairs ? 2 : 1;
      if (affine && view.outer_contiguous) {
        pack_run(row, step, base + element(view, first, k), count);
      } else {
        for (int64_t i = 0; i < count; ++i)
          row[i * step] = CodeOf<T>::code(base[element(view, first + i, k)]);
      }
    }
    convert.run(rows, rows, pairs ? 2 * count : count);
  }
}

int8_t pack_right(uint16_t* out, const MatrixView& view, int64_t first, int64_t count,
                  int64_t depth, int64_t pitch, int64_t width, bool pairs, const int8_t* halves) {
  return pack_scaled(halves, [&](auto& convert) {
    with_base(view, [&](const auto* base) {
      pack_columns(out, base, view, first, count, depth, pitch, width, pairs, convert);
    });
  });
}

void half_to_codes(uint16_t* to, const uint16_t* half, int64_t n, int scale) {
  const auto shift = static_cast<uint16_t>(kHalfShift - scale * kBinade);
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t magnitude = half[i] & 0x7FFF;
    const auto code = static_cast<uint16_t>((magnitude >> 1) + shift);
    to[i] = static_cast<uint16_t>((half[i] & 0x8000) | (magnitude == 0 ? 0 : code));
  }
}

bool codes_to_halves(uint16_t* high, uint16_t* low, const uint16_t* codes, int64_t n,
                     int* high_scale, int* low_scale) {
  constexpr int kBinades = (kHalfEnd - kHalfLow) / kBinade;
  uint16_t most = 0, least = 0xFFFF;
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t magnitude = codes[i] & 0x7FFF;
    most = std::max(most, magnitude);
    least = std::min(least, static_cast<uint16_t>(magnitude - 1));  // zero wraps to the top
  }
  // The largest scale that takes the largest value.
  const int scale = (kHalfEnd - 1 - most + 64 * kBinade) / kBinade - 64;
  *high_scale = scale;
  *low_scale = scale + kBinades;
  if (most == layout::kSen169Nan || least + 1 + *low_scale * kBinade < kHalfLow) return false;
  const auto bound = static_cast<uint16_t>(std::max(kHalfLow - scale * kBinade, 1));
  const auto high_shift = static_cast<uint16_t>(*high_scale * kBinade - kHalfShift),
             low_shift = static_cast<uint16_t>(*low_scale * kBinade - kHalfShift);
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t sign = codes[i] & 0x8000, magnitude = codes[i] & 0x7FFF;
    const auto upper = static_cast<uint16_t>(static_cast<uint16_t>(magnitude + high_shift) << 1),
               lower = static_cast<uint16_t>(static_cast<uint16_t>(magnitude + low_shift) << 1);
    high[i] = static_cast<uint16_t>(sign | (magnitude >= bound ? upper : 0));
    low[i] = static_cast<uint16_t>(sign | (magnitude >= bound || magnitude == 0 ? 0 : lower));
  }
  return true;
}

// The high part is the nearest bfloat16; what is left has at most two significant bits, so the low
// part is exact. NaN comes out as NaN.
void codes_to_bf16(uint16_t* high, uint16_t* low, const uint16_t* codes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float value = layout::sen169_to_float(codes[i]);
    const uint16_t top = layout::float_to_bf16(value);
    high[i] = top;
    low[i] = static_cast<uint16_t>(layout::float_bits(value - layout::bf16_to_float(top)) >> 16);
  }
}

void codes_to_f32(float* to, const uint16_t* codes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = layout::sen169_to_float(codes[i]);
}

void scale_rows(float* to, int64_t to_pitch, const float* from, int64_t from_pitch, int64_t rows,
                int64_t cols, float factor) {
  for (int64_t r = 0; r < rows; ++r) {
    float* out = to + r * to_pitch;
    const float* in = from + r * from_pitch;
    for (int64_t c = 0; c < cols; ++c) out[c] = in[c] * factor;
  }
}

// --- fp32 products -------------------------------------------------------------------------------

template <int kRows, int kVectors>
void gemm_tile(int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
               int64_t ldc, bool add) {
  V acc[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j)
      acc[i][j] = add ? V::loadu(c + i * ldc + j * kWidth) : V(0.0f);
  }
  for (int64_t p = 0; p < k; ++p) {
    V right[kVectors];
    for (int j = 0; j < kVectors; ++j) right[j] = V::loadu(b + p * ldb + j * kWidth);
    for (int i = 0; i < kRows; ++i) {
      const V left(a[i * lda + p]);
      for (int j = 0; j < kVectors; ++j) acc[i][j] = at::vec::fmadd(left, right[j], acc[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) acc[i][j].store(c + i * ldc + j * kWidth);
  }
}

void gemm_f32(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
              int64_t ldb, float* c, int64_t ldc, bool add) {
  constexpr int kVectors = 16 / kWidth > 1 ? 16 / kWidth : 1;
  for (int64_t j = 0; j < n; j += 16) {
    int64_t i = 0;
    for (; i + 8 <= m; i += 8)
      gemm_tile<8, kVectors>(k, a + i * lda, lda, b + j, ldb, c + i * ldc + j, ldc, add);
    for (; i < m; ++i)
      gemm_tile<1, kVectors>(k, a + i * lda, lda, b + j, ldb, c + i * ldc + j, ldc, add);
  }
}

// --- few rows: the right operand is read in place
// ----------------------------------------------------

V decode(const float* from) {
  float lanes[kWidth];
  for (int64_t i = 0; i < kWidth; ++i)
    lanes[i] = layout::sen169_to_float(layout::float_to_sen169(from[i]));
  return V::loadu(lanes);
}

float decode_one(uint16_t x) { return layout::sen169_to_float(x); }
float decode_one(float x) { return layout::sen169_to_float(layout::float_to_sen169(x)); }

float sum_lanes(V v) {
  alignas(64) float lanes[kWidth];
  v.store(lanes);
  for (int64_t width = kWidth / 2; width > 0; width /= 2) {
    for (int64_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

/// Depth runs along memory: dot products of kC columns at a time, each in kUnroll independent sums.
template <int kM, int kC, class T>
void gemv_along_columns(float* out, int64_t pitch, const float* x, const T* base,
                        const MatrixView& view, int64_t first, int64_t depth) {
  constexpr int kUnroll = kM * kC == 1 ? 4 : kM * kC <= 8 ? 2 : 1;
  const T* column[kC];
  for (int j = 0; j < kC; ++j) column[j] = base + element(view, first + j, 0);
  V acc[kM][kC][kUnroll];
  for (auto& row : acc) {
    for (auto& sums : row) {
      for (V& v : sums) v = V(0.0f);
    }
  }
  int64_t k = 0;
  auto step = [&](int u) {
    V w[kC];
    for (int j = 0; j < kC; ++j) w[j] = decode(column[j] + k);
    for (int i = 0; i < kM; ++i) {
      const V left = V::loadu(x + i * depth + k);
      for (int j = 0; j < kC; ++j) acc[i][j][u] = at::vec::fmadd(w[j], left, acc[i][j][u]);
    }
    k += kWidth;
  };
  while (k + kUnroll * kWidth <= depth) {
    for (int u = 0; u < kUnroll; ++u) step(u);
  }
  while (k + kWidth <= depth) step(0);
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kC; ++j) {
      V total = acc[i][j][0];
      for (int u = 1; u < kUnroll; ++u) total = total + acc[i][j][u];
      float sum = sum_lanes(total);
      for (int64_t t = k; t < depth; ++t) sum += decode_one(column[j][t]) * x[i * depth + t];
      out[i * pitch + j] = sum;
    }
  }
}

template <int kM, class T>
void gemv_along(float* out, int64_t pitch, const float* x, const T* base, const MatrixView& view,
                int64_t first, int64_t count, int64_t depth) {
  constexpr int kC = kM == 1 ? 1 : 2;
  int64_t j = 0;
  for (; j + kC <= count; j += kC)
    gemv_along_columns<kM, kC>(out + j, pitch, x, base, view, first + j, depth);
  for (; j < count; ++j) gemv_along_columns<kM, 1>(out + j, pitch, x, base, view, first + j, depth);
}

/// Columns run along memory: rows of the operand are added up, kDepth of them at a time, so that
/// every row is read in long runs.
template <int kM, class T>
void gemv_across(float* out, int64_t pitch, const float* x, const T* base, const MatrixView& view,
                 int64_t first, int64_t count, int64_t depth) {
  constexpr int64_t kDepth = kM <= 2 ? 8 : 4;
  for (int i = 0; i < kM; ++i) std::fill_n(out + i * pitch, count, 0.0f);
  for (int64_t k0 = 0; k0 < depth; k0 += kDepth) {
    const int64_t k_count = std::min(kDepth, depth - k0);
    const T* row[kDepth];
    for (int64_t k = 0; k < k_count; ++k) row[k] = base + element(view, first, k0 + k);
    int64_t j = 0;
    for (; j + kWidth <= count; j += kWidth) {
      V acc[kM];
      for (int i = 0; i < kM; ++i) acc[i] = V::loadu(out + i * pitch + j);
      for (int64_t k = 0; k < k_count; ++k) {
        const V w = decode(row[k] + j);
        for (int i = 0; i < kM; ++i) acc[i] = at::vec::fmadd(w, V(x[i * depth + k0 + k]), acc[i]);
      }
      for (int i = 0; i < kM; ++i) acc[i].store(out + i * pitch + j);
    }
    for (; j < count; ++j) {
      for (int64_t k = 0; k < k_count; ++k) {
        for (int i = 0; i < kM; ++i)
          out[i * pitch + j] += decode_one(row[k][j]) * x[i * depth + k0 + k];
      }
    }
  }
}

template <int kM>
void gemv_rows(float* out, int64_t pitch, const float* x, const MatrixView& view, int64_t first,
               int64_t count, int64_t depth) {
  auto run = [&](const auto* base) {
    if (view.inner_contiguous)
      gemv_along<kM>(out, pitch, x, base, view, first, count, depth);
    else
      gemv_across<kM>(out, pitch, x, base, view, first, count, depth);
  };
  if (view.codec == Codec::kFp32)
    run(static_cast<const float*>(view.base));
  else
    run(static_cast<const uint16_t*>(view.base));
}

void gemv(float* out, int64_t pitch, const float* x, int64_t m, const MatrixView& view,
          int64_t first, int64_t count, int64_t depth) {
  using Fn = void (*)(float*, int64_t, const float*, const MatrixView&, int64_t, int64_t, int64_t);
  static constexpr Fn kRun[kMaxGemvRows] = {gemv_rows<1>, gemv_rows<2>, gemv_rows<3>, gemv_rows<4>,
                                            gemv_rows<5>, gemv_rows<6>, gemv_rows<7>, gemv_rows<8>};
  kRun[m - 1](out, pitch, x, view, first, count, depth);
}

}  // namespace

void fill_matmul(KernelTable& table) {
  table.pack_left = pack_left;
  table.pack_right = pack_right;
  table.half_to_codes = half_to_codes;
  table.codes_to_halves = codes_to_halves;
  table.scale_rows = scale_rows;
  table.codes_to_bf16 = codes_to_bf16;
  table.codes_to_f32 = codes_to_f32;
  table.gemm_f32 = gemm_f32;
  table.gemv = gemv;
}

}  // namespace spyre::softdev::CPU_CAPABILITY
