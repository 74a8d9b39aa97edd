// SPDX-License-Identifier: Apache-2.0
// Packing, conversion and plain kernels of matrix products.
#include <ATen/cpu/vec/vec.h>

#include <algorithm>
#include <cstring>

#include "softdev/kernels/fill.h"
#include "spyre/layout/codec.h"

namespace spyre::softdev::CPU_CAPABILITY {
namespace {

using V = at::vec::Vectorized<float>;
constexpr int64_t kWidth = V::size();

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
  static uint16_t code(Fp8Sen143 x) { return layout::float_to_sen169(layout::sen143_to_float(x.bits)); }
};
template <>
struct CodeOf<Fp8Sen152> {
  static uint16_t code(Fp8Sen152 x) { return layout::float_to_sen169(layout::sen152_to_float(x.bits)); }
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
  return view.digits == nullptr ? offset : layout::map_offset(view.digits, view.digit_count, offset);
}

void pack_left(uint16_t* out, const MatrixView& view, int64_t first, int64_t count, int64_t depth, int64_t pitch) {
  with_base(view, [&](const auto* base) {
    using Code = CodeOf<std::remove_cv_t<std::remove_pointer_t<decltype(base)>>>;
    const bool affine = view.digits == nullptr;
    if (affine && view.outer_contiguous && !view.inner_contiguous) {
      for (int64_t k = 0; k < depth; ++k) {
        const auto* column = base + element(view, first, k);
        for (int64_t i = 0; i < count; ++i) out[i * pitch + k] = Code::code(column[i]);
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      uint16_t* row = out + i * pitch;
      if (affine && view.inner_contiguous) {
        const auto* from = depth > 0 ? base + element(view, first + i, 0) : base;
        for (int64_t k = 0; k < depth; ++k) row[k] = Code::code(from[k]);
      } else if (!affine || !view.outer_contiguous) {
        for (int64_t k = 0; k < depth; ++k) row[k] = Code::code(base[element(view, first + i, k)]);
      }
      std::fill(row + depth, row + pitch, uint16_t{0});
    }
  });
}

/// Rows of codes, count x pitch, as columns of pairs: 32-bit elements transposed.
void transpose_pairs(uint16_t* out, const uint16_t* rows, int64_t count, int64_t pitch, int64_t width) {
  const auto* in = reinterpret_cast<const float*>(rows);
  auto* to = reinterpret_cast<float*>(out);
  const int64_t pairs = pitch / 2;
  for (int64_t i0 = 0; i0 < count; i0 += 16) {
    const int64_t i_count = std::min<int64_t>(16, count - i0);
    int64_t j0 = 0;
#if defined(CPU_CAPABILITY_AVX512)
    if (i_count == 16) {
      for (; j0 + 16 <= pairs; j0 += 16) {
        at::vec::transpose_mxn<float, 16, 16>(in + i0 * pairs + j0, pairs, to + j0 * width + i0, width);
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

void pack_right(uint16_t* out, const MatrixView& view, int64_t first, int64_t count, int64_t depth, int64_t pitch,
                int64_t width, bool pairs) {
  if (count < width || depth < pitch) std::fill_n(out, pitch * width, uint16_t{0});
  if (pairs && view.digits == nullptr && view.inner_contiguous) {
    // Blocks of the depth, so that rows and their transpose stay in the cache.
    constexpr int64_t kBlock = 128;
    alignas(64) uint16_t rows[64 * kBlock];
    for (int64_t k0 = 0; k0 < pitch; k0 += kBlock) {
      const int64_t rows_pitch = std::min(kBlock, pitch - k0), block = std::clamp<int64_t>(depth - k0, 0, rows_pitch);
      for (int64_t i0 = 0; i0 < count; i0 += 64) {
        const int64_t i_count = std::min<int64_t>(64, count - i0);
        MatrixView part = view;
        part.inner += std::min(k0, depth);
        pack_left(rows, part, first + i0, i_count, block, rows_pitch);
        transpose_pairs(out + k0 * width + i0 * 2, rows, i_count, rows_pitch, width);
      }
    }
    return;
  }
  with_base(view, [&](const auto* base) {
    using Code = CodeOf<std::remove_cv_t<std::remove_pointer_t<decltype(base)>>>;
    const bool in_place = view.digits == nullptr && view.outer_contiguous;
    const int64_t step = pairs ? 2 : 1;
    for (int64_t k = 0; k < depth; ++k) {
      uint16_t* row = pairs ? out + (k / 2) * width * 2 + k % 2 : out + k * width;
      if (in_place) {
        const auto* from = base + element(view, first, k);
        for (int64_t i = 0; i < count; ++i) row[i * step] = Code::code(from[i]);
      } else {
        for (int64_t i = 0; i < count; ++i) row[i * step] = Code::code(base[element(view, first + i, k)]);
      }
    }
  });
}

// Half has 5 exponent bits with bias 15: normal numbers are SEN169 exponents 17 to 46.
bool fits_half(const uint16_t* codes, int64_t n) {
  uint16_t bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t magnitude = codes[i] & 0x7FFF;
    const auto above = static_cast<uint16_t>(magnitude - 0x2200);
    bad |= static_cast<uint16_t>((magnitude != 0) & (above >= 0x3C00));
  }
  return bad == 0;
}

void codes_to_half(uint16_t* codes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t magnitude = codes[i] & 0x7FFF;
    const auto half = static_cast<uint16_t>((magnitude - 0x2000) << 1);
    codes[i] = static_cast<uint16_t>((codes[i] & 0x8000) | (magnitude == 0 ? 0 : half));
  }
}

void half_to_codes(uint16_t* to, const uint16_t* half, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t magnitude = half[i] & 0x7FFF;
    const auto code = static_cast<uint16_t>((magnitude >> 1) + 0x2000);
    to[i] = static_cast<uint16_t>((half[i] & 0x8000) | (magnitude == 0 ? 0 : code));
  }
}

// The high part takes the upper bits of the fraction; the rest is a multiple of 2^-9 of the leading bit
// with at most two bits, so the low part is exact. NaN goes to both parts; it comes out as NaN.
void codes_to_bf16(uint16_t* high, uint16_t* low, const uint16_t* codes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float value = layout::sen169_to_float(codes[i]);
    const uint32_t top = layout::float_bits(value) & 0xFFFF0000u;
    high[i] = static_cast<uint16_t>(top >> 16);
    low[i] = static_cast<uint16_t>(layout::float_bits(value - layout::bits_float(top)) >> 16);
  }
}

void codes_to_f32(float* to, const uint16_t* codes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = layout::sen169_to_float(codes[i]);
}

// --- fp32 products -------------------------------------------------------------------------------

template <int kRows, int kVectors>
void gemm_tile(int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc) {
  V acc[kRows][kVectors];
  for (auto& row : acc) {
    for (V& v : row) v = V(0.0f);
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

/// `n` is a multiple of 16.
void gemm_f32(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
              int64_t ldc) {
  constexpr int kVectors = 16 / kWidth > 1 ? 16 / kWidth : 1;
  for (int64_t j = 0; j < n; j += 16) {
    int64_t i = 0;
    for (; i + 8 <= m; i += 8) gemm_tile<8, kVectors>(k, a + i * lda, lda, b + j, ldb, c + i * ldc + j, ldc);
    for (; i < m; ++i) gemm_tile<1, kVectors>(k, a + i * lda, lda, b + j, ldb, c + i * ldc + j, ldc);
  }
}

// --- few rows: the right operand is read in place ----------------------------------------------------

using U16 = uint16_t __attribute__((vector_size(2 * kWidth)));
using U32 = uint32_t __attribute__((vector_size(4 * kWidth)));

V decode(const uint16_t* from) {
  U16 codes;
  std::memcpy(&codes, from, sizeof codes);
  const U32 wide = __builtin_convertvector(codes, U32);
  const U32 magnitude = wide & 0x7FFFu;
  U32 bits = (magnitude << 14) + 0x30000000u;
  bits = magnitude == 0 ? U32{} : bits;
  bits = magnitude == 0x7FFFu ? U32{} + 0x7FC00000u : bits;
  bits |= (wide & 0x8000u) << 16;
  float lanes[kWidth];
  std::memcpy(lanes, &bits, sizeof lanes);
  return V::loadu(lanes);
}

V decode(const float* from) {
  float lanes[kWidth];
  for (int64_t i = 0; i < kWidth; ++i) lanes[i] = layout::sen169_to_float(layout::float_to_sen169(from[i]));
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

/// Depth runs along memory: one dot product per column, in kUnroll independent sums.
template <int kM, class T>
void gemv_along(float* out, int64_t pitch, const float* x, const T* base, const MatrixView& view, int64_t first,
                int64_t count, int64_t depth) {
  constexpr int kUnroll = kM == 1 ? 4 : kM <= 4 ? 2 : 1;
  for (int64_t j = 0; j < count; ++j) {
    const T* column = base + element(view, first + j, 0);
    V acc[kM][kUnroll];
    for (auto& row : acc) {
      for (V& v : row) v = V(0.0f);
    }
    int64_t k = 0;
    for (; k + kUnroll * kWidth <= depth; k += kUnroll * kWidth) {
      for (int u = 0; u < kUnroll; ++u) {
        const V w = decode(column + k + u * kWidth);
        for (int i = 0; i < kM; ++i) acc[i][u] = at::vec::fmadd(w, V::loadu(x + i * depth + k + u * kWidth), acc[i][u]);
      }
    }
    for (; k + kWidth <= depth; k += kWidth) {
      const V w = decode(column + k);
      for (int i = 0; i < kM; ++i) acc[i][0] = at::vec::fmadd(w, V::loadu(x + i * depth + k), acc[i][0]);
    }
    for (int i = 0; i < kM; ++i) {
      V total = acc[i][0];
      for (int u = 1; u < kUnroll; ++u) total = total + acc[i][u];
      float sum = sum_lanes(total);
      for (int64_t t = k; t < depth; ++t) sum += decode_one(column[t]) * x[i * depth + t];
      out[i * pitch + j] = sum;
    }
  }
}

/// Columns run along memory: sums of a group of columns side by side.
template <int kM, class T>
void gemv_across(float* out, int64_t pitch, const float* x, const T* base, const MatrixView& view, int64_t first,
                 int64_t count, int64_t depth) {
  constexpr int kGroup = kM <= 2 ? 4 : 2;
  int64_t j = 0;
  for (; j + kGroup * kWidth <= count; j += kGroup * kWidth) {
    V acc[kM][kGroup];
    for (auto& row : acc) {
      for (V& v : row) v = V(0.0f);
    }
    for (int64_t k = 0; k < depth; ++k) {
      const T* row = base + element(view, first + j, k);
      for (int g = 0; g < kGroup; ++g) {
        const V w = decode(row + g * kWidth);
        for (int i = 0; i < kM; ++i) acc[i][g] = at::vec::fmadd(w, V(x[i * depth + k]), acc[i][g]);
      }
    }
    for (int i = 0; i < kM; ++i) {
      for (int g = 0; g < kGroup; ++g) acc[i][g].store(out + i * pitch + j + g * kWidth);
    }
  }
  for (; j < count; ++j) {
    for (int i = 0; i < kM; ++i) {
      float sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += decode_one(base[element(view, first + j, k)]) * x[i * depth + k];
      out[i * pitch + j] = sum;
    }
  }
}

template <int kM>
void gemv_rows(float* out, int64_t pitch, const float* x, const MatrixView& view, int64_t first, int64_t count,
               int64_t depth) {
  auto run = [&](const auto* base) {
    if (view.inner_contiguous) gemv_along<kM>(out, pitch, x, base, view, first, count, depth);
    else gemv_across<kM>(out, pitch, x, base, view, first, count, depth);
  };
  if (view.codec == Codec::kFp32) run(static_cast<const float*>(view.base));
  else run(static_cast<const uint16_t*>(view.base));
}

void gemv(float* out, int64_t pitch, const float* x, int64_t m, const MatrixView& view, int64_t first, int64_t count,
          int64_t depth) {
  using Fn = void (*)(float*, int64_t, const float*, const MatrixView&, int64_t, int64_t, int64_t);
  static constexpr Fn kRun[kMaxGemvRows] = {gemv_rows<1>, gemv_rows<2>, gemv_rows<3>, gemv_rows<4>,
                                            gemv_rows<5>, gemv_rows<6>, gemv_rows<7>, gemv_rows<8>};
  kRun[m - 1](out, pitch, x, view, first, count, depth);
}

}  // namespace

void fill_matmul(KernelTable& table) {
  table.pack_left = pack_left;
  table.pack_right = pack_right;
  table.fits_half = fits_half;
  table.codes_to_half = codes_to_half;
  table.half_to_codes = half_to_codes;
  table.codes_to_bf16 = codes_to_bf16;
  table.codes_to_f32 = codes_to_f32;
  table.gemm_f32 = gemm_f32;
  table.gemv = gemv;
}

}  // namespace spyre::softdev::CPU_CAPABILITY
