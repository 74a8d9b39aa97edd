// SPDX-License-Identifier: Apache-2.0
// Kernels of the ops on integer and truth lanes, conversions, selection and random numbers. Plain
// loops: the compiler vectorises those that can be.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "softdev/kernels/fill.h"
#include "spyre/layout/codec.h"

namespace spyre::softdev::CPU_CAPABILITY {
namespace {

template <class R, class A, class Op>
void map1(void* dst, const void* const* args, int64_t n) {
  auto* d = static_cast<R*>(dst);
  const auto* x = static_cast<const A*>(args[0]);
  for (int64_t i = 0; i < n; ++i) d[i] = Op::apply(x[i]);
}

template <class R, class A, class Op, Mode mode>
void map2(void* dst, const void* const* args, int64_t n) {
  auto* d = static_cast<R*>(dst);
  const auto* x = static_cast<const A*>(args[0]);
  const auto* y = static_cast<const A*>(args[1]);
  const A x0 = *x, y0 = *y;
  for (int64_t i = 0; i < n; ++i) {
    d[i] = Op::apply(mode == Mode::kScalarLeft ? x0 : x[i], mode == Mode::kScalarRight ? y0 : y[i]);
  }
}

template <class T>
void select(void* dst, const void* const* args, int64_t n) {
  auto* d = static_cast<T*>(dst);
  const auto* c = static_cast<const float*>(args[0]);
  const auto* x = static_cast<const T*>(args[1]);
  const auto* y = static_cast<const T*>(args[2]);
  for (int64_t i = 0; i < n; ++i) d[i] = c[i] != 0 ? x[i] : y[i];
}

// --- integers ------------------------------------------------------------------------------------

constexpr uint64_t u(int64_t x) { return static_cast<uint64_t>(x); }
constexpr int64_t s(uint64_t x) { return static_cast<int64_t>(x); }

inline int64_t truncdiv_lane(int64_t x, int64_t y) {
  if (y == 0) return 0;
  return y == -1 ? s(0 - u(x)) : x / y;
}
inline int64_t fmod_lane(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
inline int64_t floordiv_lane(int64_t x, int64_t y) {
  const int64_t mod = fmod_lane(x, y);
  return truncdiv_lane(x, y) - (mod != 0 && (mod < 0) != (y < 0) ? 1 : 0);
}
inline int64_t remainder_lane(int64_t x, int64_t y) {
  const int64_t mod = fmod_lane(x, y);
  return mod != 0 && (mod < 0) != (y < 0) ? mod + y : mod;
}
inline int64_t pow_lane(int64_t x, int64_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 != 0 ? -1 : 1) : 0;
  uint64_t result = 1, base = u(x);
  for (uint64_t e = u(y); e != 0; e >>= 1) {
    if (e & 1) result *= base;
    base *= base;
  }
  return s(result);
}

// clang-format off
#define SPYRE_INT_UNARY_ROWS(X)                                        \
  X(neg_i, s(0 - u(x)))                                                \
  X(abs_i, (x < 0 ? s(0 - u(x)) : x))                                  \
  X(sign_i, static_cast<int64_t>(x > 0) - static_cast<int64_t>(x < 0)) \
  X(not_i, ~x)                                                         \
  X(wrap_i8, static_cast<int8_t>(x))                                   \
  X(wrap_i16, static_cast<int16_t>(x))                                 \
  X(wrap_i32, static_cast<int32_t>(x))                                 \
  X(wrap_u8, static_cast<uint8_t>(x))
// clang-format on

// A shift by a negative amount or by 64 or more shifts everything out, as ATen has it.
// clang-format off
#define SPYRE_INT_BINARY_ROWS(X)                      \
  X(add_i, s(u(x) + u(y)))                            \
  X(sub_i, s(u(x) - u(y)))                            \
  X(mul_i, s(u(x) * u(y)))                            \
  X(floordiv_i, floordiv_lane(x, y))                  \
  X(truncdiv_i, truncdiv_lane(x, y))                  \
  X(remainder_i, remainder_lane(x, y))                \
  X(fmod_i, fmod_lane(x, y))                          \
  X(maximum_i, (x > y ? x : y))                       \
  X(minimum_i, (x < y ? x : y))                       \
  X(and_i, x & y)                                      \
  X(or_i, x | y)                                      \
  X(xor_i, x ^ y)                                     \
  X(shl_i, (u(y) >= 64 ? 0 : s(u(x) << (u(y) & 63)))) \
  X(shr_i, (u(y) >= 64 ? x >> 63 : x >> (u(y) & 63))) \
  X(pow_i, pow_lane(x, y))
// clang-format on

// clang-format off
#define SPYRE_INT_COMPARE_ROWS(X) \
  X(eq_i, x == y)                 \
  X(ne_i, x != y)                 \
  X(lt_i, x < y)                  \
  X(le_i, x <= y)                 \
  X(gt_i, x > y)                  \
  X(ge_i, x >= y)
// clang-format on

// Truth lanes are 0 or 1 exactly.
// clang-format off
#define SPYRE_BOOL_BINARY_ROWS(X)  \
  X(and_b, x * y)                   \
  X(or_b, (x > y ? x : y))         \
  X(xor_b, (x != y ? 1.0f : 0.0f))
// clang-format on

// --- conversions ---------------------------------------------------------------------------------

template <class T>
inline int64_t saturate(float x) {
  return layout::float_to_integer(x, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
}

inline int64_t bits_of(float x) { return static_cast<int32_t>(layout::float_bits(x)); }

// clang-format off
#define SPYRE_FLOAT_TO_INT_ROWS(X) \
  X(f2i_i8, saturate<int8_t>(x))   \
  X(f2i_i16, saturate<int16_t>(x)) \
  X(f2i_i32, saturate<int32_t>(x)) \
  X(f2i_i64, saturate<int64_t>(x)) \
  X(f2i_u8, saturate<uint8_t>(x))  \
  X(b2i, static_cast<int64_t>(x))  \
  X(bits_f2i, bits_of(x))
// clang-format on

// clang-format off
#define SPYRE_INT_TO_FLOAT_ROWS(X)                          \
  X(i2f, static_cast<float>(x))                             \
  X(i2b, (x != 0 ? 1.0f : 0.0f))                            \
  X(bits_i2f, layout::bits_float(static_cast<uint32_t>(x)))
// clang-format on

// clang-format off
#define SPYRE_FLOAT_TO_BOOL_ROWS(X) \
  X(f2b, (x != 0 ? 1.0f : 0.0f))    \
  X(b2f, x)                         \
  X(not_b, (x != 0 ? 0.0f : 1.0f))
// clang-format on

namespace ops {
#define X(name, text)                                \
  struct name {                                      \
    static int64_t apply(int64_t x) { return text; } \
  };
SPYRE_INT_UNARY_ROWS(X)
#undef X
#define X(name, text)                                           \
  struct name {                                                 \
    static int64_t apply(int64_t x, int64_t y) { return text; } \
  };
SPYRE_INT_BINARY_ROWS(X)
#undef X
#define X(name, text)                                                         \
  struct name {                                                               \
    static float apply(int64_t x, int64_t y) { return (text) ? 1.0f : 0.0f; } \
  };
SPYRE_INT_COMPARE_ROWS(X)
#undef X
#define X(name, text)                                     \
  struct name {                                           \
    static float apply(float x, float y) { return text; } \
  };
SPYRE_BOOL_BINARY_ROWS(X)
#undef X
#define X(name, text)                              \
  struct name {                                    \
    static int64_t apply(float x) { return text; } \
  };
SPYRE_FLOAT_TO_INT_ROWS(X)
#undef X
#define X(name, text)                              \
  struct name {                                    \
    static float apply(int64_t x) { return text; } \
  };
SPYRE_INT_TO_FLOAT_ROWS(X)
#undef X
#define X(name, text)                            \
  struct name {                                  \
    static float apply(float x) { return text; } \
  };
SPYRE_FLOAT_TO_BOOL_ROWS(X)
#undef X
}  // namespace ops

template <class R, class A, class Op>
void fill2(KernelTable& table, program::Op op) {
  map_slot(table, op, Mode::kLanes) = map2<R, A, Op, Mode::kLanes>;
  map_slot(table, op, Mode::kScalarRight) = map2<R, A, Op, Mode::kScalarRight>;
  map_slot(table, op, Mode::kScalarLeft) = map2<R, A, Op, Mode::kScalarLeft>;
}

// --- random numbers ------------------------------------------------------------------------------

struct Philox {
  uint32_t out[4];

  /// Philox 4x32 with 10 rounds: key from the seed, counter from the offset.
  Philox(int64_t seed, int64_t offset) {
    uint32_t c0 = static_cast<uint32_t>(offset), c1 = static_cast<uint32_t>(u(offset) >> 32),
             c2 = 0, c3 = 0;
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(u(seed) >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
      const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0,
                     n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c0 = n0, c1 = static_cast<uint32_t>(p1), c2 = n2, c3 = static_cast<uint32_t>(p0);
      k0 += 0x9E3779B9, k1 += 0xBB67AE85;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
  }

  /// In [0, 1), 24 bits.
  float uniform(int i) const { return static_cast<float>(out[i] >> 8) * 0x1p-24f; }
};

void rand_kernel(void* dst, const void* const* args, int64_t n) {
  auto* d = static_cast<float*>(dst);
  const auto *seed = static_cast<const int64_t*>(args[0]),
             *offset = static_cast<const int64_t*>(args[1]);
  for (int64_t i = 0; i < n; ++i) d[i] = Philox(seed[i], offset[i]).uniform(0);
}

void randn_kernel(void* dst, const void* const* args, int64_t n) {
  auto* d = static_cast<float*>(dst);
  const auto *seed = static_cast<const int64_t*>(args[0]),
             *offset = static_cast<const int64_t*>(args[1]);
  for (int64_t i = 0; i < n; ++i) {
    const Philox p(seed[i], offset[i]);
    // Box and Muller; 1 - u lies in (0, 1], so that the logarithm is finite.
    d[i] = std::sqrt(-2.0f * std::log(1.0f - p.uniform(0))) *
           std::cos(6.283185307179586f * p.uniform(1));
  }
}

void randint_kernel(void* dst, const void* const* args, int64_t n) {
  auto* d = static_cast<int64_t*>(dst);
  const auto *seed = static_cast<const int64_t*>(args[0]),
             *offset = static_cast<const int64_t*>(args[1]);
  const auto *low = static_cast<const int64_t*>(args[2]),
             *high = static_cast<const int64_t*>(args[3]);
  for (int64_t i = 0; i < n; ++i) {
    const Philox p(seed[i], offset[i]);
    const uint64_t range = u(high[i]) - u(low[i]), bits = uint64_t{p.out[0]} << 32 | p.out[1];
    d[i] = high[i] <= low[i] ? low[i] : s(u(low[i]) + bits % range);
  }
}

}  // namespace

void fill_int_maps(KernelTable& table) {
#define X(name, text) map_slot(table, Op::name, Mode::kLanes) = map1<int64_t, int64_t, ops::name>;
  SPYRE_INT_UNARY_ROWS(X)
#undef X
#define X(name, text) fill2<int64_t, int64_t, ops::name>(table, Op::name);
  SPYRE_INT_BINARY_ROWS(X)
#undef X
#define X(name, text) fill2<float, int64_t, ops::name>(table, Op::name);
  SPYRE_INT_COMPARE_ROWS(X)
#undef X
#define X(name, text) fill2<float, float, ops::name>(table, Op::name);
  SPYRE_BOOL_BINARY_ROWS(X)
#undef X
#define X(name, text) map_slot(table, Op::name, Mode::kLanes) = map1<int64_t, float, ops::name>;
  SPYRE_FLOAT_TO_INT_ROWS(X)
#undef X
#define X(name, text) map_slot(table, Op::name, Mode::kLanes) = map1<float, int64_t, ops::name>;
  SPYRE_INT_TO_FLOAT_ROWS(X)
#undef X
#define X(name, text) map_slot(table, Op::name, Mode::kLanes) = map1<float, float, ops::name>;
  SPYRE_FLOAT_TO_BOOL_ROWS(X)
#undef X
  map_slot(table, Op::where, Mode::kLanes) = select<float>;
  map_slot(table, Op::where_b, Mode::kLanes) = select<float>;
  map_slot(table, Op::where_i, Mode::kLanes) = select<int64_t>;
  map_slot(table, Op::rand, Mode::kLanes) = rand_kernel;
  map_slot(table, Op::randn, Mode::kLanes) = randn_kernel;
  map_slot(table, Op::randint, Mode::kLanes) = randint_kernel;
}

}  // namespace spyre::softdev::CPU_CAPABILITY
