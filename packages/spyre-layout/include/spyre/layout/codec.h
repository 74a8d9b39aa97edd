// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "spyre/layout/formats.h"

/// Conversions between host values and device codes. Scalar forms are inline and header-only; array
/// forms use the widest vectors of the CPU they run on and give the same bits.
///
/// SEN169 has one NaN-infinity code (0x7FFF with either sign), no subnormals and no infinity.
/// Copies of half-precision host tensors use 0x7E00 (2^32) as the stand-in for infinity.
namespace spyre::layout {

// ---- bits ---------------------------------------------------------------------------------------

inline uint32_t float_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float bits_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline constexpr uint16_t kSen169Nan = 0x7FFF;
inline constexpr uint16_t kSen169Max = 0x7FFE;
inline constexpr uint16_t kSen169Infinity = 0x7E00;  ///< what a copied infinity becomes

// ---- SEN169 and float32 -------------------------------------------------------------------------

/// The value of a code, exactly; NaN for the NaN-infinity code.
inline float sen169_to_float(uint16_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000) << 16;
  const uint32_t magnitude = code & 0x7FFF;
  if (magnitude == 0) return bits_float(sign);
  if (magnitude == kSen169Nan) return bits_float(sign | 0x7FC00000u);
  return bits_float(sign | ((magnitude << 14) + 0x30000000u));
}

/// The rounding of every store of a computed value: half away from zero; magnitudes below
/// 2^-31 * (1 + 1/1024) become signed zero; overflow, infinity and NaN become the NaN-infinity
/// code.
inline uint16_t float_to_sen169(float value) {
  const uint32_t bits = float_bits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  // Clamped to the largest that rounds to zero and the least that overflows, which needs no branch.
  const uint32_t magnitude = std::min(std::max(bits & 0x7FFFFFFF, 0x30001FFFu), 0x4FFFA000u);
  return static_cast<uint16_t>(sign | ((magnitude + 0x2000u - 0x30000000u) >> 14));
}

/// As float_to_sen169, but finite overflow becomes the largest finite value. Infinity and NaN
/// become the NaN-infinity code all the same.
inline uint16_t float_to_sen169_saturate(float value) {
  const uint32_t bits = float_bits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude < 0x30002000u) return sign;
  if (magnitude >= 0x7F800000u) return sign | kSen169Nan;
  if (magnitude >= 0x4FFFA000u) return sign | kSen169Max;
  return static_cast<uint16_t>(sign | ((magnitude + 0x2000u - 0x30000000u) >> 14));
}

// ---- SEN169 and half, as copies convert ---------------------------------------------------------

/// Host copy in of torch.float16: +-65504 is held at +-65472, infinity becomes 0x7E00.
inline uint16_t fp16_to_sen169(uint16_t half) {
  const uint16_t sign = half & 0x8000;
  const uint32_t magnitude = half & 0x7FFF;
  if (magnitude >= 0x7C00) {
    return static_cast<uint16_t>(sign | (magnitude == 0x7C00 ? kSen169Infinity : kSen169Nan));
  }
  if (magnitude >= 0x0400) {
    const uint32_t code = ((magnitude + 1) >> 1) + 0x2000;
    return static_cast<uint16_t>(sign | (code > 0x5DFF ? 0x5DFF : code));
  }
  // A subnormal counts units of 2^-24; every one of them is a normal SEN169 value.
  const uint32_t bits = float_bits(static_cast<float>(magnitude));
  return magnitude == 0
             ? sign
             : static_cast<uint16_t>(sign | ((bits - 0x3C000000u) >> 14));  // 2^-24 / 2^(127 - 31)
}

/// Host copy out to torch.float16: nearest even; 2^16 and above become infinity, NaN stays NaN.
inline uint16_t sen169_to_fp16(uint16_t code) {
  const uint16_t sign = code & 0x8000;
  const uint32_t magnitude = code & 0x7FFF;
  if (magnitude == kSen169Nan) return sign | 0x7E00;
  if (magnitude >= 0x5E00) return sign | 0x7C00;
  if (magnitude >= 0x2200) return static_cast<uint16_t>(sign | ((magnitude - 0x2000) << 1));
  const uint32_t shift = 16 - (magnitude >> 9);
  if (magnitude == 0 || shift > 10) return sign;
  const uint32_t significand = 512 + (magnitude & 0x1FF);
  if (shift == 0) return static_cast<uint16_t>(sign | significand);
  const uint32_t even = (significand >> shift) & 1;
  return static_cast<uint16_t>(sign | ((significand + (1u << (shift - 1)) - 1 + even) >> shift));
}

// ---- SEN169 and bfloat16, as copies convert -----------------------------------------------------

/// Host copy in of torch.bfloat16: exact within range, finite overflow saturates, infinity becomes
/// 0x7E00.
inline uint16_t bf16_to_sen169(uint16_t bf16) {
  const uint16_t sign = bf16 & 0x8000;
  const uint32_t magnitude = bf16 & 0x7FFF;
  if (magnitude > 0x7F80) return sign | kSen169Nan;
  if (magnitude == 0x7F80) return sign | kSen169Infinity;
  if (magnitude >= 0x5000) return sign | kSen169Max;
  if (magnitude <= 0x3000) return sign;
  return static_cast<uint16_t>(sign | ((magnitude - 0x3000) << 2));
}

/// Host copy out to torch.bfloat16: nearest even; 0x7E00 becomes infinity.
inline uint16_t sen169_to_bf16(uint16_t code) {
  const uint16_t sign = code & 0x8000;
  const uint32_t magnitude = code & 0x7FFF;
  if (magnitude == 0) return sign;
  if (magnitude == kSen169Nan) return sign | 0x7FC0;
  if (magnitude == kSen169Infinity) return sign | 0x7F80;
  const uint32_t wide = magnitude + 0xC000;
  return static_cast<uint16_t>(sign | ((wide + 1 + ((wide >> 2) & 1)) >> 2));
}

// ---- IEEE half and bfloat16 ---------------------------------------------------------------------

inline float fp16_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = half & 0x7FFF;
  if (magnitude > 0x7C00) return bits_float(sign | 0x7FC00000u | ((magnitude & 0x3FF) << 13));
  if (magnitude == 0x7C00) return bits_float(sign | 0x7F800000u);
  if (magnitude >= 0x0400) return bits_float(sign | ((magnitude << 13) + 0x38000000u));
  return bits_float(sign | float_bits(static_cast<float>(magnitude) * 0x1p-24f));
}

/// Nearest even; overflow becomes infinity, NaN stays NaN (quiet).
inline uint16_t float_to_fp16(float value) {
  const uint32_t bits = float_bits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000u) {
    return static_cast<uint16_t>(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
  }
  if (magnitude >= 0x477FF000u) return sign | 0x7C00;
  if (magnitude >= 0x38800000u) {
    return static_cast<uint16_t>(
        sign | ((magnitude - 0x38000000u + 0xFFF + ((magnitude >> 13) & 1)) >> 13));
  }
  // Adding 0.5 puts units of 2^-24 at the end of the significand; the addition rounds.
  const float aligned = bits_float(magnitude) + 0.5f;
  return static_cast<uint16_t>(sign | (float_bits(aligned) - 0x3F000000u));
}

inline float bf16_to_float(uint16_t bf16) { return bits_float(static_cast<uint32_t>(bf16) << 16); }

/// Nearest even; NaN stays NaN (quiet).
inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// ---- 8-bit floats -------------------------------------------------------------------------------

/// float8_e4m3fn: nearest even, saturates at +-448, NaN stays NaN.
inline uint8_t float_to_sen143(float value) {
  const uint32_t bits = float_bits(value);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000u) return sign | 0x7F;
  if (magnitude >= 0x43E00000u) return sign | 0x7E;
  if (magnitude >= 0x3C800000u) {
    return static_cast<uint8_t>(
        sign | ((magnitude - 0x3C000000u + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20));
  }
  const float aligned = bits_float(magnitude) + 0x1p14f;  // units of 2^-9
  return static_cast<uint8_t>(sign | (float_bits(aligned) - float_bits(0x1p14f)));
}

inline float sen143_to_float(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t magnitude = code & 0x7F;
  if (magnitude == 0x7F) return bits_float(sign | 0x7FC00000u);
  if (magnitude >= 8) return bits_float(sign | ((magnitude << 20) + 0x3C000000u));
  return bits_float(sign | float_bits(static_cast<float>(magnitude) * 0x1p-9f));
}

/// float8_e5m2fnuz: nearest even; overflow and NaN become 0x80; there is no negative zero.
inline uint8_t float_to_sen152(float value) {
  const uint32_t bits = float_bits(value);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude >= 0x47700000u) return 0x80;  // 61440 and above, and NaN
  if (magnitude >= 0x38000000u) {
    return static_cast<uint8_t>(
        sign | ((magnitude - 0x37800000u + 0xFFFFF + ((magnitude >> 21) & 1)) >> 21));
  }
  const float aligned = bits_float(magnitude) + 0x1p6f;  // units of 2^-17
  const uint8_t code = static_cast<uint8_t>(float_bits(aligned) - float_bits(0x1p6f));
  return code == 0 ? 0 : static_cast<uint8_t>(sign | code);
}

/// As float_to_sen152, but finite overflow becomes +-57344.
inline uint8_t float_to_sen152_saturate(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude >= 0x47700000u && magnitude < 0x7F800000u) {
    return static_cast<uint8_t>(((bits >> 24) & 0x80) | 0x7F);
  }
  return float_to_sen152(value);
}

inline float sen152_to_float(uint8_t code) {
  if (code == 0x80) return bits_float(0x7FC00000u);
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t magnitude = code & 0x7F;
  if (magnitude >= 4) return bits_float(sign | ((magnitude << 21) + 0x37800000u));
  return bits_float(sign | float_bits(static_cast<float>(magnitude) * 0x1p-17f));
}

// ---- floats to integers -------------------------------------------------------------------------

/// Truncates a float or double and saturates to [low, high]; NaN becomes 0.
template <typename Float>
inline int64_t float_to_integer(Float value, int64_t low, int64_t high) {
  if (value != value) return 0;
  if (value <= static_cast<Float>(low)) return low;
  if (value >= static_cast<Float>(high)) return high;
  return static_cast<int64_t>(value);
}

// ---- arrays -------------------------------------------------------------------------------------

/// What becomes of a value beyond the range of a format: see encode().
enum class Overflow : int32_t { kDefault, kSaturate };

/// Encodes `count` float32 values to packed codes. Float formats round as said above for each;
/// integer formats truncate and saturate, NaN becomes 0; BOOL is "not zero". With kSaturate a float
/// format clamps finite overflow to its largest finite value; infinity is treated as by default.
/// Throws std::invalid_argument for formats without storage.
void encode(const float* values, DataFormat format, void* codes, int64_t count,
            Overflow overflow = Overflow::kDefault);

/// Encodes integers: to integer formats two's complement wraps, or clamps with kSaturate; to float
/// formats through float32.
void encode(const int64_t* values, DataFormat format, void* codes, int64_t count,
            Overflow overflow = Overflow::kDefault);

/// Decodes packed codes to float32 by value. Integers beyond 2^24 round to nearest even.
void decode(const void* codes, DataFormat format, float* values, int64_t count);

/// Decodes packed codes of an integer format (or BOOL) exactly.
void decode(const void* codes, DataFormat format, int64_t* values, int64_t count);

/// A host copy in: `count` contiguous elements of `dtype` become packed codes of `format`, by the
/// rules of copies where the pair is one that device_format() gives, and by value otherwise: to
/// float formats through float32, between integers through int64, from float64 to integers exactly.
/// Throws std::invalid_argument for a dtype or format that has no codec.
void encode_from(HostDtype dtype, const void* host, DataFormat format, void* codes, int64_t count,
                 Overflow overflow = Overflow::kDefault);

/// A host copy out, the other way round. To an integer dtype a float format truncates and
/// saturates.
void decode_to(HostDtype dtype, const void* codes, DataFormat format, void* host, int64_t count);

/// Throws std::invalid_argument unless encode_from and decode_to can convert this pair.
void require_codec(HostDtype dtype, DataFormat format);

}  // namespace spyre::layout
