// SPDX-License-Identifier: Apache-2.0
//
// Body of the array kernels. Included once per instruction set, with SPYRE_LAYOUT_ISA naming it;
// the including file is compiled for that set. Everything here has internal linkage and nothing
// from other headers is called: a function that the linker could share with other files would carry
// this file's instructions into programs on older CPUs.
//
// Written with the vector extensions that GCC and Clang share, which lower to whatever the target
// has. There is no branch on data but one: half subnormals, which are rare, are redone block by
// block.

#include <cstdint>
#include <cstring>

#include "vector_kernels.h"

// Vectors wider than the target's registers stay inside this file.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace spyre::layout::detail {
namespace {
namespace kernels {

constexpr int kBytes = SPYRE_LAYOUT_VECTOR_BYTES;
constexpr int kLanes32 = kBytes / 4;
constexpr int kLanes16 = kBytes / 2;

using U32 = uint32_t __attribute__((vector_size(kBytes)));
using I32 = int32_t __attribute__((vector_size(kBytes)));
using F32 = float __attribute__((vector_size(kBytes)));
using U16 = uint16_t __attribute__((vector_size(kBytes)));
using I16 = int16_t __attribute__((vector_size(kBytes)));
using U64 = uint64_t __attribute__((vector_size(kBytes)));
using U16Half = uint16_t __attribute__((vector_size(kBytes / 2)));
using U8Half = uint8_t __attribute__((vector_size(kBytes / 2)));
using U8Quarter = uint8_t __attribute__((vector_size(kBytes / 4)));
using Row16 = uint16_t __attribute__((vector_size(16)));
using Row32 = uint32_t __attribute__((vector_size(16)));

#define SPYRE_LAYOUT_INLINE static inline __attribute__((always_inline))

template <typename V>
SPYRE_LAYOUT_INLINE V load(const void* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

template <typename V>
SPYRE_LAYOUT_INLINE void store(void* to, V value) {
  __builtin_memcpy(to, &value, sizeof value);
}

// ---- conversions of one vector ------------------------------------------------------------------

SPYRE_LAYOUT_INLINE U32 pick(I32 mask, U32 yes, U32 no) { return mask ? yes : no; }
SPYRE_LAYOUT_INLINE U16 pick(I16 mask, U16 yes, U16 no) { return mask ? yes : no; }

// Magnitudes fit in the positive range of signed lanes, which compare faster on older sets.
SPYRE_LAYOUT_INLINE I32 below(U32 magnitude, int32_t limit) { return (I32)magnitude < limit; }
SPYRE_LAYOUT_INLINE I16 below(U16 magnitude, int16_t limit) { return (I16)magnitude < limit; }

SPYRE_LAYOUT_INLINE U32 constant(uint32_t value) { return U32{} + value; }
SPYRE_LAYOUT_INLINE U16 constant16(uint16_t value) { return U16{} + value; }

/// Bits of the float that a small integer is.
SPYRE_LAYOUT_INLINE U32 integer_float(U32 value) {
  return (U32) __builtin_convertvector((I32)value, F32);
}

struct Fp16ToSen169 {
  static constexpr bool kHasRare = true;
  SPYRE_LAYOUT_INLINE U16 common(U16 half, U16* rare) {
    const U16 magnitude = half & 0x7FFF;
    *rare |= (U16)(below(magnitude, 0x0400) & ~below(magnitude, 0x0001));
    U16 code = ((magnitude + 1) >> 1) + 0x2000;
    code = pick(below(code, 0x5E00), code, constant16(0x5DFF));
    code = pick(below(magnitude, 0x0001), constant16(0), code);
    code = pick(below(magnitude, 0x7C00), code, constant16(0x7FFF));
    code = pick(magnitude == 0x7C00, constant16(0x7E00), code);
    return code | (half & 0x8000);
  }
  SPYRE_LAYOUT_INLINE U32 any(U32 half) {
    const U32 magnitude = half & 0x7FFF;
    U32 code = ((magnitude + 1) >> 1) + 0x2000;
    code = pick(below(code, 0x5E00), code, constant(0x5DFF));
    const U32 subnormal = (integer_float(magnitude) - 0x3C000000u) >> 14;
    code = pick(below(magnitude, 0x0400), subnormal, code);
    code = pick(below(magnitude, 0x0001), constant(0), code);
    code = pick(below(magnitude, 0x7C00), code, constant(0x7FFF));
    code = pick(magnitude == 0x7C00, constant(0x7E00), code);
    return code | (half & 0x8000);
  }
};

struct Sen169ToFp16 {
  static constexpr bool kHasRare = true;
  SPYRE_LAYOUT_INLINE U16 common(U16 code, U16* rare) {
    const U16 magnitude = code & 0x7FFF;
    *rare |= (U16)(below(magnitude, 0x2200) & ~below(magnitude, 0x0001));
    U16 half = (magnitude - 0x2000) << 1;
    half = pick(below(magnitude, 0x0001), constant16(0), half);
    half = pick(below(magnitude, 0x5E00), half, constant16(0x7C00));
    half = pick(magnitude == 0x7FFF, constant16(0x7E00), half);
    return half | (code & 0x8000);
  }
  SPYRE_LAYOUT_INLINE U32 any(U32 code) {
    const U32 magnitude = code & 0x7FFF;
    // Adding 0.5 puts units of 2^-24 at the end of the significand; the addition rounds to even.
    const F32 aligned = (F32)((magnitude << 14) + 0x30000000u) + 0.5f;
    U32 half =
        pick(below(magnitude, 0x2200), (U32)aligned - 0x3F000000u, (magnitude - 0x2000) << 1);
    half = pick(below(magnitude, 0x5E00), half, constant(0x7C00));
    half = pick(magnitude == 0x7FFF, constant(0x7E00), half);
    return half | (code & 0x8000);
  }
};

struct Bf16ToSen169 {
  static constexpr bool kHasRare = false;
  SPYRE_LAYOUT_INLINE U16 common(U16 bf16, U16*) {
    const U16 magnitude = bf16 & 0x7FFF;
    U16 code = (magnitude - 0x3000) << 2;
    code = pick(below(magnitude, 0x3001), constant16(0), code);
    code = pick(below(magnitude, 0x5000), code, constant16(0x7FFE));
    code = pick(below(magnitude, 0x7F80), code, constant16(0x7FFF));
    code = pick(magnitude == 0x7F80, constant16(0x7E00), code);
    return code | (bf16 & 0x8000);
  }
};

struct Sen169ToBf16 {
  static constexpr bool kHasRare = false;
  SPYRE_LAYOUT_INLINE U16 common(U16 code, U16*) {
    const U16 magnitude = code & 0x7FFF;
    U16 bf16 = ((magnitude + 1 + ((magnitude >> 2) & 1)) >> 2) + 0x3000;
    bf16 = pick(below(magnitude, 0x0001), constant16(0), bf16);
    bf16 = pick(magnitude == 0x7E00, constant16(0x7F80), bf16);
    bf16 = pick(magnitude == 0x7FFF, constant16(0x7FC0), bf16);
    return bf16 | (code & 0x8000);
  }
};

struct FloatToSen169 {
  SPYRE_LAYOUT_INLINE U32 encode(U32 bits) {
    const U32 magnitude = bits & 0x7FFFFFFF;
    U32 code = (magnitude + 0x2000u - 0x30000000u) >> 14;
    code = pick(below(magnitude, 0x30002000), constant(0), code);
    code = pick(below(magnitude, 0x4FFFA000), code, constant(0x7FFF));
    return code | ((bits >> 16) & 0x8000);
  }
};

struct FloatToSen169Saturate {
  SPYRE_LAYOUT_INLINE U32 encode(U32 bits) {
    const U32 magnitude = bits & 0x7FFFFFFF;
    U32 code = (magnitude + 0x2000u - 0x30000000u) >> 14;
    code = pick(below(magnitude, 0x30002000), constant(0), code);
    code = pick(below(magnitude, 0x4FFFA000), code, constant(0x7FFE));
    code = pick(below(magnitude, 0x7F800000), code, constant(0x7FFF));
    return code | ((bits >> 16) & 0x8000);
  }
};

struct Sen169ToFloat {
  SPYRE_LAYOUT_INLINE U32 decode(U32 code) {
    const U32 magnitude = code & 0x7FFF;
    U32 bits = (magnitude << 14) + 0x30000000u;
    bits = pick(below(magnitude, 0x0001), constant(0), bits);
    bits = pick(magnitude == 0x7FFF, constant(0x7FC00000u), bits);
    return bits | ((code & 0x8000) << 16);
  }
};

struct FloatToFp16 {
  SPYRE_LAYOUT_INLINE U32 encode(U32 bits) {
    const U32 magnitude = bits & 0x7FFFFFFF;
    U32 half = (magnitude - 0x38000000u + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
    const F32 aligned = (F32)magnitude + 0.5f;
    half = pick(below(magnitude, 0x38800000), (U32)aligned - 0x3F000000u, half);
    half = pick(below(magnitude, 0x477FF000), half, constant(0x7C00));
    half = pick(below(magnitude, 0x7F800001), half, ((magnitude >> 13) & 0x3FF) | 0x7E00);
    return half | ((bits >> 16) & 0x8000);
  }
};

struct Fp16ToFloat {
  SPYRE_LAYOUT_INLINE U32 decode(U32 half) {
    const U32 magnitude = half & 0x7FFF;
    U32 bits = (magnitude << 13) + 0x38000000u;
    const F32 subnormal = (F32)integer_float(magnitude) * 0x1p-24f;
    bits = pick(below(magnitude, 0x0400), (U32)subnormal, bits);
    bits = pick(below(magnitude, 0x7C00), bits, (magnitude << 13) | 0x7F800000u);
    bits = pick(below(magnitude, 0x7C01), bits, bits | 0x00400000u);
    return bits | ((half & 0x8000) << 16);
  }
};

struct FloatToBf16 {
  SPYRE_LAYOUT_INLINE U32 encode(U32 bits) {
    const U32 rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    return pick(below(bits & 0x7FFFFFFF, 0x7F800001), rounded, (bits >> 16) | 0x40);
  }
};

struct Bf16ToFloat {
  SPYRE_LAYOUT_INLINE U32 decode(U32 bf16) { return bf16 << 16; }
};

struct FloatToSen143 {
  SPYRE_LAYOUT_INLINE U32 encode(U32 bits) {
    const U32 magnitude = bits & 0x7FFFFFFF;
    U32 code = (magnitude - 0x3C000000u + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20;
    const F32 aligned = (F32)magnitude + 0x1p14f;
    code = pick(below(magnitude, 0x3C800000), (U32)aligned - 0x46800000u, code);
    code = pick(below(magnitude, 0x43E00000), code, constant(0x7E));
    code = pick(below(magnitude, 0x7F800001), code, constant(0x7F));
    return code | ((bits >> 24) & 0x80);
  }
};

struct Sen143ToFloat {
  SPYRE_LAYOUT_INLINE U32 decode(U32 code) {
    const U32 magnitude = code & 0x7F;
    U32 bits = (magnitude << 20) + 0x3C000000u;
    const F32 subnormal = (F32)integer_float(magnitude) * 0x1p-9f;
    bits = pick(below(magnitude, 8), (U32)subnormal, bits);
    bits = pick(magnitude == 0x7F, constant(0x7FC00000u), bits);
    return bits | ((code & 0x80) << 24);
  }
};

template <bool kSaturate>
struct FloatToSen152 {
  SPYRE_LAYOUT_INLINE U32 encode(U32 bits) {
    const U32 magnitude = bits & 0x7FFFFFFF;
    const U32 sign = (bits >> 24) & 0x80;
    U32 code = (magnitude - 0x37800000u + 0xFFFFF + ((magnitude >> 21) & 1)) >> 21;
    const F32 aligned = (F32)magnitude + 0x1p6f;
    code = pick(below(magnitude, 0x38000000), (U32)aligned - 0x42800000u, code);
    code = pick(code == 0, code, code | sign);
    const U32 overflow = kSaturate ? sign | 0x7F : constant(0x80);
    code = pick(below(magnitude, 0x47700000), code, overflow);
    return pick(below(magnitude, 0x7F800000), code, constant(0x80));
  }
};

struct Sen152ToFloat {
  SPYRE_LAYOUT_INLINE U32 decode(U32 code) {
    const U32 magnitude = code & 0x7F;
    U32 bits = (magnitude << 21) + 0x37800000u;
    const F32 subnormal = (F32)integer_float(magnitude) * 0x1p-17f;
    bits = pick(below(magnitude, 4), (U32)subnormal, bits);
    bits |= (code & 0x80) << 24;
    return pick(code == 0x80, constant(0x7FC00000u), bits);
  }
};

// ---- loops over arrays --------------------------------------------------------------------------

/// Runs `body(source, target)` on whole vectors, and once more on a padded copy of what is left.
template <int64_t kLanes, int64_t kSourceBytes, int64_t kTargetBytes, typename Body>
SPYRE_LAYOUT_INLINE void for_vectors(const void* source, void* target, int64_t count,
                                     const Body& body) {
  const char* from = static_cast<const char*>(source);
  char* to = static_cast<char*>(target);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(from + i * kSourceBytes, to + i * kTargetBytes);
  if (i == count) return;
  char padded[kLanes * kSourceBytes] = {};
  char result[kLanes * kTargetBytes];
  __builtin_memcpy(padded, from + i * kSourceBytes,
                   static_cast<size_t>((count - i) * kSourceBytes));
  body(padded, result);
  __builtin_memcpy(to + i * kTargetBytes, result, static_cast<size_t>((count - i) * kTargetBytes));
}

SPYRE_LAYOUT_INLINE bool is_zero(U16 value) {
  const U64 words = (U64)value;
  uint64_t any = 0;
  for (int k = 0; k < kBytes / 8; ++k) any |= words[k];
  return any == 0;
}

/// 16-bit codes to 16-bit codes.
template <typename Convert>
static void convert_16(const void* source, void* target, int64_t count) {
  constexpr int64_t kBlock = 512;
  const char* from = static_cast<const char*>(source);
  char* to = static_cast<char*>(target);
  for (int64_t start = 0; start < count; start += kBlock) {
    const int64_t n = count - start < kBlock ? count - start : kBlock;
    U16 rare = {};
    for_vectors<kLanes16, 2, 2>(
        from + start * 2, to + start * 2, n,
        [&](const char* in, char* out) { store(out, Convert::common(load<U16>(in), &rare)); });
    if constexpr (Convert::kHasRare) {
      if (is_zero(rare)) continue;
      for_vectors<kLanes32, 2, 2>(
          from + start * 2, to + start * 2, n, [](const char* in, char* out) {
            const U32 wide = __builtin_convertvector(load<U16Half>(in), U32);
            store(out, __builtin_convertvector(Convert::any(wide), U16Half));
          });
    }
  }
}

template <typename Narrow, typename Encode>
static void encode_floats(const void* source, void* target, int64_t count) {
  for_vectors<kLanes32, 4, sizeof(Narrow) / kLanes32>(
      source, target, count, [](const char* in, char* out) {
        store(out, __builtin_convertvector(Encode::encode(load<U32>(in)), Narrow));
      });
}

template <typename Narrow, typename Decode>
static void decode_floats(const void* source, void* target, int64_t count) {
  for_vectors<kLanes32, sizeof(Narrow) / kLanes32, 4>(
      source, target, count, [](const char* in, char* out) {
        store(out, Decode::decode(__builtin_convertvector(load<Narrow>(in), U32)));
      });
}

static void bool_to_sen169(const void* source, void* target, int64_t count) {
  for_vectors<kLanes16, 1, 2>(source, target, count, [](const char* in, char* out) {
    const U16 wide = __builtin_convertvector(load<U8Half>(in), U16);
    store(out, (U16)(wide != 0) & 0x3E00);
  });
}

static void sen169_to_bool(const void* source, void* target, int64_t count) {
  for_vectors<kLanes16, 2, 1>(source, target, count, [](const char* in, char* out) {
    const U16 truth = (U16)((load<U16>(in) & 0x7FFF) != 0) & 1;
    store(out, __builtin_convertvector(truth, U8Half));
  });
}

static void uint8_to_uint32(const void* source, void* target, int64_t count) {
  for_vectors<kLanes32, 1, 4>(source, target, count, [](const char* in, char* out) {
    store(out, __builtin_convertvector(load<U8Quarter>(in), U32));
  });
}

static void uint32_to_uint8(const void* source, void* target, int64_t count) {
  for_vectors<kLanes32, 4, 1>(source, target, count, [](const char* in, char* out) {
    store(out, __builtin_convertvector(load<U32>(in), U8Quarter));
  });
}

// ---- transposes ---------------------------------------------------------------------------------

// Each round interleaves row r with row r + half; after log2(rows) rounds the block is transposed.
SPYRE_LAYOUT_INLINE Row16 low_pairs(Row16 a, Row16 b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
SPYRE_LAYOUT_INLINE Row16 high_pairs(Row16 a, Row16 b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
SPYRE_LAYOUT_INLINE Row32 low_pairs(Row32 a, Row32 b) {
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
}
SPYRE_LAYOUT_INLINE Row32 high_pairs(Row32 a, Row32 b) {
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
}

template <typename Row, int kSide, typename T>
SPYRE_LAYOUT_INLINE void transpose_block(const T* source, int64_t source_stride, T* target,
                                         int64_t target_stride) {
  Row rows[kSide];
  Row next[kSide];
#pragma GCC unroll 8
  for (int r = 0; r < kSide; ++r) rows[r] = load<Row>(source + r * source_stride);
#pragma GCC unroll 3
  for (int round = 1; round < kSide; round *= 2) {
#pragma GCC unroll 4
    for (int r = 0; r < kSide / 2; ++r) {
      next[2 * r] = low_pairs(rows[r], rows[r + kSide / 2]);
      next[2 * r + 1] = high_pairs(rows[r], rows[r + kSide / 2]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kSide; ++r) rows[r] = next[r];
  }
#pragma GCC unroll 8
  for (int r = 0; r < kSide; ++r) store(target + r * target_stride, rows[r]);
}

template <typename T, typename Row>
static void transpose(const void* source, int64_t source_stride, void* target,
                      int64_t target_stride, int64_t rows, int64_t columns) {
  constexpr int kSide = sizeof(Row) / sizeof(T);
  const T* from = static_cast<const T*>(source);
  T* to = static_cast<T*>(target);
  int64_t r = 0;
  for (; r + kSide <= rows; r += kSide) {
    int64_t c = 0;
    for (; c + kSide <= columns; c += kSide) {
      transpose_block<Row, kSide>(from + r * source_stride + c, source_stride,
                                  to + c * target_stride + r, target_stride);
    }
    for (; c < columns; ++c) {
      for (int64_t k = r; k < r + kSide; ++k)
        to[c * target_stride + k] = from[k * source_stride + c];
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * target_stride + r] = from[r * source_stride + c];
  }
}

#undef SPYRE_LAYOUT_INLINE

}  // namespace kernels
}  // namespace

extern const VectorKernels SPYRE_LAYOUT_ISA;
const VectorKernels SPYRE_LAYOUT_ISA = {
    SPYRE_LAYOUT_ISA_NAME,
    kernels::convert_16<kernels::Fp16ToSen169>,
    kernels::convert_16<kernels::Sen169ToFp16>,
    kernels::convert_16<kernels::Bf16ToSen169>,
    kernels::convert_16<kernels::Sen169ToBf16>,
    kernels::bool_to_sen169,
    kernels::sen169_to_bool,
    kernels::encode_floats<kernels::U16Half, kernels::FloatToSen169>,
    kernels::encode_floats<kernels::U16Half, kernels::FloatToSen169Saturate>,
    kernels::decode_floats<kernels::U16Half, kernels::Sen169ToFloat>,
    kernels::encode_floats<kernels::U16Half, kernels::FloatToFp16>,
    kernels::decode_floats<kernels::U16Half, kernels::Fp16ToFloat>,
    kernels::encode_floats<kernels::U16Half, kernels::FloatToBf16>,
    kernels::decode_floats<kernels::U16Half, kernels::Bf16ToFloat>,
    kernels::encode_floats<kernels::U8Quarter, kernels::FloatToSen143>,
    kernels::decode_floats<kernels::U8Quarter, kernels::Sen143ToFloat>,
    kernels::encode_floats<kernels::U8Quarter, kernels::FloatToSen152<false>>,
    kernels::encode_floats<kernels::U8Quarter, kernels::FloatToSen152<true>>,
    kernels::decode_floats<kernels::U8Quarter, kernels::Sen152ToFloat>,
    kernels::uint8_to_uint32,
    kernels::uint32_to_uint8,
    kernels::transpose<uint16_t, kernels::Row16>,
    kernels::transpose<uint32_t, kernels::Row32>,
};

}  // namespace spyre::layout::detail
