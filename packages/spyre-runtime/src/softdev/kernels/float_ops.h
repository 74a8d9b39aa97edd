// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ops on float lanes. One row per op: its text here is its definition.
#include <ATen/cpu/vec/vec.h>
#include <ATen/native/Math.h>

#include <cmath>

#include "softdev/kernels/fill.h"
#include "spyre/layout/codec.h"

namespace spyre::softdev::CPU_CAPABILITY {
namespace {

using V = at::vec::Vectorized<float>;

// --- vector forms --------------------------------------------------------------------------------

#if defined(CPU_CAPABILITY_AVX512)
/// Within 2 ulp, and NaN stays NaN: 2^n * e^r with |r| <= ln(2) / 2.
inline V exp_lanes(V x) {
  // Of a NaN and a number, these instructions give their second operand.
  const V bound = _mm512_min_ps(_mm512_set1_ps(89.0f), _mm512_max_ps(_mm512_set1_ps(-104.0f), x));
  const V n = _mm512_roundscale_ps(bound * V(1.44269504f), 8);  // to nearest, no exceptions
  const V r = at::vec::fmadd(n, V(2.12194440e-4f), at::vec::fmadd(n, V(-0.693359375f), bound));
  V p(1.9875691500e-4f);
  p = at::vec::fmadd(p, r, V(1.3981999507e-3f));
  p = at::vec::fmadd(p, r, V(8.3334519073e-3f));
  p = at::vec::fmadd(p, r, V(4.1665795894e-2f));
  p = at::vec::fmadd(p, r, V(1.6666665459e-1f));
  p = at::vec::fmadd(p, r, V(5.0000001201e-1f));
  return _mm512_scalef_ps(at::vec::fmadd(p, r * r, r + V(1.0f)), n);
}
/// 2^x for x in [-200, 0], within 3e-7 of it.
inline V exp2_lanes(V x) {
  const V n = _mm512_roundscale_ps(x, 8), f = x - n;
  V p(1.339887440e-3f);
  p = at::vec::fmadd(p, f, V(9.618437357e-3f));
  p = at::vec::fmadd(p, f, V(5.550332548e-2f));
  p = at::vec::fmadd(p, f, V(2.402264791e-1f));
  p = at::vec::fmadd(p, f, V(6.931472028e-1f));
  return _mm512_scalef_ps(at::vec::fmadd(p, f, V(1.0f)), n);
}
inline V least(V x, V bound) { return _mm512_min_ps(x, bound); }
/// x, or 1 - x where y has a sign.
inline V mirrored(V x, V y) {
  const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(y));
  return _mm512_mask_sub_ps(x, negative, V(1.0f), x);
}
/// Within 1 ulp for the finite and normal.
inline V reciprocal_lanes(V x) {
  const V guess = _mm512_rcp14_ps(x);
  return guess * at::vec::fnmadd(x, guess, V(2.0f));
}
#else
/// Within 20 ulp, and NaN stays NaN.
inline V exp_lanes(V x) { return V::blendv(x.exp_u20(), x, x != x); }
inline V exp2_lanes(V x) { return (x * V(0.69314718056f)).exp_u20(); }
inline V least(V x, V bound) { return at::vec::minimum(x, bound); }
inline V mirrored(V x, V y) { return V::blendv(x, V(1.0f) - x, y < V(0.0f)); }
inline V reciprocal_lanes(V x) { return V(1.0f) / x; }
#endif

inline V sigmoid_lanes(V x) { return V(1.0f) / (V(1.0f) + exp_lanes(x.neg())); }

/// x times the normal distribution function, whose tail is a polynomial in 1 / (1 + p |x|) times
/// exp(-x^2 / 2) (Abramowitz and Stegun 7.1.26, as in erf): within 1e-7 |x|. Both sides are taken
/// from 1 - tail, with its rounding to 2^-24, as 1 + erf has it: the trail of ever smaller numbers
/// below it would leave the range in which a matrix product takes one pass (matmul_kernels.cc).
inline V gelu_lanes(V x) {
  const V a = least(x.abs(), V(10.0f));
  const V t = reciprocal_lanes(at::vec::fmadd(V(0.3275911f * 0.70710678118654752440f), a, V(1.0f)));
  V p(0.5307027145f);
  p = at::vec::fmadd(p, t, V(-0.7265760135f));
  p = at::vec::fmadd(p, t, V(0.7107068705f));
  p = at::vec::fmadd(p, t, V(-0.142248368f));
  p = at::vec::fmadd(p, t, V(0.127414796f));
  // exp(-a^2 / 2)
  const V bell = exp2_lanes(a * a * V(-0.72134752044448170368f));
  return x * mirrored(at::vec::fnmadd(p * t, bell, V(1.0f)), x);
}

/// tanh through one exponential: 1 - 2 / (exp(2|x|) + 1), and an odd polynomial near zero, where
/// that would cancel. Within 2 ulp; a third of the cost of a correctly rounded one.
inline V tanh_lanes(V x) {
  const V a = x.abs();
  const V wide = V(1.0f) - V(2.0f) / ((a + a).exp_u20() + V(1.0f));
  const V s = x * x;
  V p(-5.70498872745e-3f);
  p = at::vec::fmadd(p, s, V(2.06390887954e-2f));
  p = at::vec::fmadd(p, s, V(-5.37397155531e-2f));
  p = at::vec::fmadd(p, s, V(1.33314422036e-1f));
  p = at::vec::fmadd(p, s, V(-3.33332819422e-1f));
  const V near = at::vec::fmadd(p * s, x, x);
  return V::blendv(near, wide.copysign(x), a > V(0.625f));
}

/// The library's form is within 1e-7, which is much of a small result: near zero, a series.
inline V erf_lanes(V x) {
  const V s = x * x;
  V p(1.2055333e-4f);
  p = at::vec::fmadd(p, s, V(-8.5483270e-4f));
  p = at::vec::fmadd(p, s, V(5.2239776e-3f));
  p = at::vec::fmadd(p, s, V(-2.6866171e-2f));
  p = at::vec::fmadd(p, s, V(1.1283792e-1f));
  p = at::vec::fmadd(p, s, V(-3.7612639e-1f));
  p = at::vec::fmadd(p, s, V(1.1283792f));
  return V::blendv(x.erf(), p * x, x.abs() < V(0.5f));
}

inline V gelu_tanh_lanes(V x) {
  const V inner = V(0.79788456080286535588f) * at::vec::fmadd(V(0.044715f) * x * x, x, x);
  return V(0.5f) * x * (V(1.0f) + tanh_lanes(inner));
}

/// Where the square of x overflows, asinh and acosh are log(2|x|).
inline V log_twice(V x) { return x.abs().log() + V(0.69314718055994530942f); }
inline V asinh_lanes(V x) {
  return V::blendv(x.asinh(), log_twice(x).copysign(x), x.abs() > V(1e15f));
}
inline V acosh_lanes(V x) { return V::blendv(x.acosh(), log_twice(x), x > V(1e15f)); }

inline V copysign_lanes(V x, V y) { return x.abs() | (y & V(-0.0f)); }

// Magnitudes that round to SEN169's stand-in for infinity, 2^32: from the first bits to before the
// others. From kOverflowFrom on, 2^32 * (1 + 510.5 / 512), a number rounds beyond SEN169's largest,
// and a half keeps it as an infinity.
constexpr uint32_t kInfinityFrom = 0x4F7FE000, kInfinityTo = 0x4F802000, kOverflowFrom = 0x4FFFA000;

#if defined(CPU_CAPABILITY_AVX512)
/// x, or `magnitude` with the sign of x where the mask says so.
inline V with_magnitude(V x, __mmask16 where, float magnitude) {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN), other = _mm512_castps_si512(V(magnitude));
  // Bits of x where `sign` has them, of the other elsewhere.
  return _mm512_castsi512_ps(
      _mm512_mask_ternarylogic_epi32(_mm512_castps_si512(x), where, sign, other, 0xE2));
}
inline __mmask16 overflows_sen169(V x) {
  const V bound(layout::bits_float(kOverflowFrom));
  return _mm512_cmp_ps_mask(x.abs(), bound, _CMP_GE_OQ);
}
/// Infinite where the value rounds to the stand-in, or beyond the range.
inline V inf_from_sen169_lanes(V x) {
  const __m512i magnitude = _mm512_castps_si512(x.abs());
  const __m512i above = _mm512_sub_epi32(magnitude, _mm512_set1_epi32(kInfinityFrom));
  const __m512i span = _mm512_set1_epi32(kInfinityTo - kInfinityFrom);
  const auto is_stand_in = _mm512_cmplt_epu32_mask(above, span);
  return with_magnitude(x, static_cast<__mmask16>(is_stand_in | overflows_sen169(x)), INFINITY);
}
inline V inf_to_sen169_lanes(V x) { return with_magnitude(x, overflows_sen169(x), 0x1p32f); }
inline V isinf_sen169_lanes(V x) {
  const __mmask16 is_stand_in = _mm512_cmpeq_ps_mask(x.abs(), V(0x1p32f));
  return _mm512_maskz_mov_ps(static_cast<__mmask16>(is_stand_in | overflows_sen169(x)), V(1.0f));
}
#else
inline V overflows_sen169(V x) { return x.abs() >= V(layout::bits_float(kOverflowFrom)); }
inline V inf_from_sen169_lanes(V x) {
  const V a = x.abs();
  const V is_stand_in =
      (a >= V(layout::bits_float(kInfinityFrom))) & (a < V(layout::bits_float(kInfinityTo)));
  return V::blendv(x, copysign_lanes(V(INFINITY), x), is_stand_in | overflows_sen169(x));
}
inline V inf_to_sen169_lanes(V x) {
  return V::blendv(x, copysign_lanes(V(0x1p32f), x), overflows_sen169(x));
}
inline V isinf_sen169_lanes(V x) {
  return V::blendv(x.abs().eq(V(0x1p32f)), V(1.0f), overflows_sen169(x));
}
#endif

/// The number that a half holds: beyond the range, infinity's stand-in.
inline float round_sen169_lane(float x) {
  const float held = layout::sen169_to_float(layout::float_to_sen169(x));
  return std::isnan(held) && !std::isnan(x) ? std::copysign(0x1p32f, x) : held;
}

// clang-format off
#define SPYRE_VECTOR_UNARY(X)                \
  X(neg, x.neg())                            \
  X(abs, x.abs())                            \
  X(sign, (x.gt(V(0.0f)) - x.lt(V(0.0f))))   \
  X(exp, exp_lanes(x))                       \
  X(exp2, x.exp2())                          \
  X(expm1, x.expm1())                        \
  X(log, x.log())                            \
  X(log2, x.log2())                          \
  X(log10, x.log10())                        \
  X(log1p, x.log1p())                        \
  X(sqrt, x.sqrt())                          \
  X(rsqrt, V(1.0f) / x.sqrt())               \
  X(reciprocal, V(1.0f) / x)                 \
  X(sin, x.sin())                            \
  X(cos, x.cos())                            \
  X(tan, x.tan())                            \
  X(asin, x.asin())                          \
  X(acos, x.acos())                          \
  X(atan, x.atan())                          \
  X(sinh, x.sinh())                          \
  X(cosh, x.cosh())                          \
  X(tanh, tanh_lanes(x))                     \
  X(asinh, asinh_lanes(x))                   \
  X(acosh, acosh_lanes(x))                   \
  X(atanh, x.atanh())                        \
  X(erf, erf_lanes(x))                       \
  X(erfc, x.erfc())                          \
  X(erfinv, x.erfinv())                      \
  X(lgamma, x.lgamma())                      \
  X(digamma, x.digamma())                    \
  X(sigmoid, sigmoid_lanes(x))               \
  X(relu, at::vec::maximum(x, V(0.0f)))      \
  X(silu, x / (V(1.0f) + x.neg().exp_u20())) \
  X(gelu, gelu_lanes(x))                     \
  X(gelu_tanh, gelu_tanh_lanes(x))           \
  X(floor, x.floor())                        \
  X(ceil, x.ceil())                          \
  X(trunc, x.trunc())                        \
  X(round, x.round())                        \
  X(frac, x - x.trunc())                     \
  X(i0, x.i0())                              \
  X(i0e, x.i0e())                            \
  X(isnan, x.ne(x))                          \
  X(isinf, x.abs().eq(V(INFINITY)))          \
  X(isinf_sen169, isinf_sen169_lanes(x))     \
  X(inf_from_sen169, inf_from_sen169_lanes(x)) \
  X(inf_to_sen169, inf_to_sen169_lanes(x))
// clang-format on

// clang-format off
#define SPYRE_VECTOR_BINARY(X)       \
  X(add, x + y)                      \
  X(sub, x - y)                      \
  X(mul, x * y)                       \
  X(div, x / y)                      \
  X(fmod, x.fmod(y))                 \
  X(atan2, x.atan2(y))               \
  X(hypot, x.hypot(y))               \
  X(pow, x.pow(y))                   \
  X(maximum, at::vec::maximum(x, y)) \
  X(minimum, at::vec::minimum(x, y)) \
  X(copysign, copysign_lanes(x, y))    \
  X(nextafter, x.nextafter(y))       \
  X(truncdiv, (x / y).trunc())       \
  X(eq, x.eq(y))                     \
  X(ne, x.ne(y))                     \
  X(lt, x.lt(y))                     \
  X(le, x.le(y))                     \
  X(gt, x.gt(y))                     \
  X(ge, x.ge(y))
// clang-format on

// --- lane by lane --------------------------------------------------------------------------------

/// The remainder with the sign of the divisor, as Python has it.
inline float remainder_lane(float x, float y) {
  const float mod = std::fmod(x, y);
  return mod != 0 && (y < 0) != (mod < 0) ? mod + y : mod;
}

/// Python's float floor division: exact even where x / y rounds up to the next integer.
inline float floordiv_lane(float x, float y) {
  if (y == 0) return x / y;
  const float mod = std::fmod(x, y);
  float quotient = (x - mod) / y;
  if (mod != 0 && (y < 0) != (mod < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0f, x / y);
  const float floor = std::floor(quotient);
  return quotient - floor > 0.5f ? floor + 1 : floor;
}

// clang-format off
#define SPYRE_SCALAR_UNARY(X)                                                \
  X(i1, calc_i1(x))                                                          \
  X(i1e, calc_i1e(x))                                                        \
  X(signbit, static_cast<float>(layout::float_bits(x) >> 31))                \
  X(round_sen169, round_sen169_lane(x))                                      \
  X(round_bfloat16, layout::bf16_to_float(layout::float_to_bf16(x)))         \
  X(round_float16, layout::fp16_to_float(layout::float_to_fp16(x)))          \
  X(round_fp8_e4m3fn, layout::sen143_to_float(layout::float_to_sen143(x)))   \
  X(round_fp8_e5m2fnuz, layout::sen152_to_float(layout::float_to_sen152(x)))
// clang-format on

// clang-format off
#define SPYRE_SCALAR_BINARY(X)                      \
  X(remainder, remainder_lane(x, y))                \
  X(floordiv, floordiv_lane(x, y))                  \
  X(fmax, (x != x || y > x ? (y != y ? x : y) : x)) \
  X(fmin, (x != x || y < x ? (y != y ? x : y) : x))
// clang-format on

namespace ops {
#define X(name, text)                    \
  struct name {                          \
    static V apply(V x) { return text; } \
  };
SPYRE_VECTOR_UNARY(X)
#undef X
#define X(name, text)                         \
  struct name {                               \
    static V apply(V x, V y) { return text; } \
  };
SPYRE_VECTOR_BINARY(X)
#undef X
#define X(name, text)                            \
  struct name {                                  \
    static float apply(float x) { return text; } \
  };
SPYRE_SCALAR_UNARY(X)
#undef X
#define X(name, text)                                     \
  struct name {                                           \
    static float apply(float x, float y) { return text; } \
  };
SPYRE_SCALAR_BINARY(X)
#undef X
struct fma {
  static V apply(V x, V y, V z) { return at::vec::fmadd(x, y, z); }
};
}  // namespace ops

}  // namespace
}  // namespace spyre::softdev::CPU_CAPABILITY
