// SPDX-License-Identifier: Apache-2.0
#pragma once

// SEN169 codes to and from float lanes, a vector at a time; as in spyre/layout/codec.h.
#include <cstdint>

#include "softdev/kernels/float_ops.h"
#include "spyre/layout/codec.h"

namespace spyre::softdev::CPU_CAPABILITY {
namespace {

constexpr int64_t kWidth = V::size();

#if defined(CPU_CAPABILITY_AVX512)

/// The first `count` lanes; the others are zero.
inline V decode(const uint16_t* from, int64_t count = kWidth) {
  const auto some = static_cast<__mmask16>((1u << count) - 1);
  const __m512i wide = _mm512_cvtepu16_epi32(
      count == kWidth ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))
                      : _mm256_maskz_loadu_epi16(some, from));
  const __m512i magnitude = _mm512_and_si512(wide, _mm512_set1_epi32(0x7FFF));
  const __mmask16 is_nonzero = _mm512_test_epi32_mask(magnitude, magnitude);
  const __mmask16 is_nan = _mm512_cmpeq_epi32_mask(magnitude, _mm512_set1_epi32(0x7FFF));
  __m512i bits = _mm512_maskz_add_epi32(is_nonzero, _mm512_slli_epi32(magnitude, 14),
                                        _mm512_set1_epi32(0x30000000));
  bits = _mm512_mask_mov_epi32(bits, is_nan, _mm512_set1_epi32(0x7FC00000));
  const __m512i sign = _mm512_slli_epi32(_mm512_xor_si512(wide, magnitude), 16);
  return _mm512_castsi512_ps(_mm512_or_si512(bits, sign));
}

/// With kInfinite, as inf_to_sen169 would make x before.
template <bool kInfinite>
inline void encode(uint16_t* to, V x, int64_t count = kWidth) {
  const __m512i bits = _mm512_castps_si512(x);
  __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF));
  if constexpr (kInfinite) {
    const __m512 bound = _mm512_castsi512_ps(_mm512_set1_epi32(kOverflowFrom));
    const __mmask16 is_beyond =
        _mm512_cmp_ps_mask(_mm512_castsi512_ps(magnitude), bound, _CMP_GE_OQ);  // no NaN
    magnitude = _mm512_mask_mov_epi32(magnitude, is_beyond, _mm512_set1_epi32(0x4F800000));
  }
  magnitude = _mm512_max_epi32(magnitude, _mm512_set1_epi32(0x30001FFF));
  magnitude = _mm512_min_epi32(magnitude, _mm512_set1_epi32(kOverflowFrom));
  magnitude = _mm512_sub_epi32(magnitude, _mm512_set1_epi32(0x30000000 - 0x2000));
  // Code bits of the magnitude, the sign's bit of the other.
  const __m512i codes =
      _mm512_ternarylogic_epi32(_mm512_set1_epi32(0x8000), _mm512_srli_epi32(bits, 16),
                                _mm512_srli_epi32(magnitude, 14), 0xCA);
  const __m256i narrow = _mm512_cvtepi32_epi16(codes);
  if (count == kWidth)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow);
  else
    _mm256_mask_storeu_epi16(to, static_cast<__mmask16>((1u << count) - 1), narrow);
}

#else

inline V decode(const uint16_t* from, int64_t count = kWidth) {
  alignas(64) float lanes[kWidth];
  for (int64_t i = 0; i < kWidth; ++i) lanes[i] = i < count ? layout::sen169_to_float(from[i]) : 0;
  return V::loadu(lanes);
}

template <bool kInfinite>
inline void encode(uint16_t* to, V x, int64_t count = kWidth) {
  alignas(64) float lanes[kWidth];
  (kInfinite ? ops::inf_to_sen169::apply(x) : x).store(lanes);
  for (int64_t i = 0; i < count; ++i) to[i] = layout::float_to_sen169(lanes[i]);
}

#endif

}  // namespace
}  // namespace spyre::softdev::CPU_CAPABILITY
