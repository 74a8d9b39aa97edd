// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "spyre/layout/codec.h"

/// One element of each host dtype and device format, as templates that the array kernels loop over.
namespace spyre::layout::detail {

/// Elements of a dtype or format: T is how they lie in memory. Floating ones load as float or
/// double and store float, the others load and store int64_t. load_float() is the value as float32;
/// load_finite() and load_clamped() are what saturating stores start from.
template <HostDtype>
struct Host;
template <DataFormat>
struct Device;

template <typename Integer>
struct IntegerElement {
  using T = Integer;
  static constexpr bool kFloating = false;
  static int64_t load(T value) { return static_cast<int64_t>(value); }
  // uint64 reaches beyond int64: by value it must not become negative.
  static float load_float(T value) { return static_cast<float>(value); }
  static int64_t load_clamped(T value) {
    constexpr uint64_t kHigh = std::numeric_limits<int64_t>::max();
    return sizeof(T) == 8 && value > 0 && static_cast<uint64_t>(value) > kHigh
               ? static_cast<int64_t>(kHigh)
               : static_cast<int64_t>(value);
  }
  static T store(int64_t value) { return static_cast<T>(value); }
  static T store_saturate(int64_t value) {
    constexpr int64_t kLow = static_cast<int64_t>(std::numeric_limits<T>::min());
    constexpr int64_t kHigh = sizeof(T) == 8 ? std::numeric_limits<int64_t>::max()
                                             : static_cast<int64_t>(std::numeric_limits<T>::max());
    return static_cast<T>(value < kLow ? kLow : value > kHigh ? kHigh : value);
  }
  template <typename Float>
  static T store_float(Float value) {
    if (sizeof(T) == 8 && !std::numeric_limits<T>::is_signed) {  // the one type beyond int64_t
      if (!(value > 0)) return 0;
      if (value >= Float{0x1p64f}) return std::numeric_limits<T>::max();
      return static_cast<T>(value);
    }
    constexpr int64_t kLow = static_cast<int64_t>(std::numeric_limits<T>::min());
    constexpr int64_t kHigh = sizeof(T) == 8 ? std::numeric_limits<int64_t>::max()
                                             : static_cast<int64_t>(std::numeric_limits<T>::max());
    return static_cast<T>(float_to_integer(value, kLow, kHigh));
  }
};

struct BoolElement {
  using T = uint8_t;
  static constexpr bool kFloating = false;
  static int64_t load(T value) { return value != 0; }
  static float load_float(T value) { return value != 0; }
  static int64_t load_clamped(T value) { return value != 0; }
  static T store(int64_t value) { return value != 0; }
  static T store_saturate(int64_t value) { return value != 0; }
  template <typename Float>
  static T store_float(Float value) {
    return value != 0;
  }
};

template <typename Code, float (*kLoad)(Code), Code (*kStore)(float), Code (*kSaturate)(float)>
struct FloatElement {
  using T = Code;
  static constexpr bool kFloating = true;
  static float load(T code) { return kLoad(code); }
  static float load_float(T code) { return kLoad(code); }
  static float load_finite(T code) { return kLoad(code); }
  static T store(float value) { return kStore(value); }
  static T store_saturate(float value) { return kSaturate(value); }
};

/// Sub-byte integers, as codes unpacked to one byte each.
template <int kBits, bool kSigned>
struct SubByteElement {
  using T = uint8_t;
  static constexpr bool kFloating = false;
  static constexpr int64_t kLow = kSigned ? -(1 << (kBits - 1)) : 0;
  static constexpr int64_t kHigh = kSigned ? (1 << (kBits - 1)) - 1 : (1 << kBits) - 1;
  static constexpr int64_t kMask = (1 << kBits) - 1;
  static int64_t load(T code) { return kSigned && code > kHigh ? code - kMask - 1 : code; }
  static float load_float(T code) { return static_cast<float>(load(code)); }
  static int64_t load_clamped(T code) { return load(code); }
  static T store(int64_t value) { return static_cast<T>(value & kMask); }
  static T store_saturate(int64_t value) {
    return store(value < kLow ? kLow : value > kHigh ? kHigh : value);
  }
  template <typename Float>
  static T store_float(Float value) {
    return store(float_to_integer(value, kLow, kHigh));
  }
};

inline float same_float(float value) { return value; }

/// Finite values beyond +-kMax become that; infinity and NaN stay.
template <uint32_t kMaxBits>
inline float clamp_finite(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  return magnitude > kMaxBits && magnitude < 0x7F800000u
             ? bits_float((bits & 0x80000000u) | kMaxBits)
             : value;
}

inline uint16_t float_to_fp16_saturate(float value) {
  return float_to_fp16(clamp_finite<0x477FE000u>(value));  // 65504
}

inline uint16_t float_to_bf16_saturate(float value) {
  return float_to_bf16(clamp_finite<0x7F7F0000u>(value));
}

struct DoubleElement {
  using T = double;
  static constexpr bool kFloating = true;
  static double load(T value) { return value; }
  static float load_float(T value) { return static_cast<float>(value); }
  /// As float32, but what is finite stays finite.
  static float load_finite(T value) {
    constexpr double kHigh = std::numeric_limits<float>::max();
    const bool finite = std::numeric_limits<double>::lowest() <= value &&
                        value <= std::numeric_limits<double>::max();
    return static_cast<float>(!finite          ? value
                              : value > kHigh  ? kHigh
                              : value < -kHigh ? -kHigh
                                               : value);
  }
  static T store(float value) { return value; }
  static T store_saturate(float value) { return value; }
};

using Fp32Element = FloatElement<float, same_float, same_float, same_float>;
using Fp16Element = FloatElement<uint16_t, fp16_to_float, float_to_fp16, float_to_fp16_saturate>;
using Bf16Element = FloatElement<uint16_t, bf16_to_float, float_to_bf16, float_to_bf16_saturate>;
using Sen169Element =
    FloatElement<uint16_t, sen169_to_float, float_to_sen169, float_to_sen169_saturate>;
using Sen143Element = FloatElement<uint8_t, sen143_to_float, float_to_sen143, float_to_sen143>;
using Sen152Element =
    FloatElement<uint8_t, sen152_to_float, float_to_sen152, float_to_sen152_saturate>;

template <>
struct Host<HostDtype::kFloat16> : Fp16Element {};
template <>
struct Host<HostDtype::kBFloat16> : Bf16Element {};
template <>
struct Host<HostDtype::kFloat32> : Fp32Element {};
template <>
struct Host<HostDtype::kFloat64> : DoubleElement {};
template <>
struct Host<HostDtype::kBool> : BoolElement {};
template <>
struct Host<HostDtype::kInt8> : IntegerElement<int8_t> {};
template <>
struct Host<HostDtype::kInt16> : IntegerElement<int16_t> {};
template <>
struct Host<HostDtype::kInt32> : IntegerElement<int32_t> {};
template <>
struct Host<HostDtype::kInt64> : IntegerElement<int64_t> {};
template <>
struct Host<HostDtype::kUInt8> : IntegerElement<uint8_t> {};
template <>
struct Host<HostDtype::kUInt16> : IntegerElement<uint16_t> {};
template <>
struct Host<HostDtype::kUInt32> : IntegerElement<uint32_t> {};
template <>
struct Host<HostDtype::kUInt64> : IntegerElement<uint64_t> {};
template <>
struct Host<HostDtype::kFloat8E4M3FN> : Sen143Element {};
template <>
struct Host<HostDtype::kFloat8E5M2FNUZ> : Sen152Element {};

template <>
struct Device<DataFormat::kSen169Fp16> : Sen169Element {};
template <>
struct Device<DataFormat::kIeeeFp32> : Fp32Element {};
template <>
struct Device<DataFormat::kSen143Fp8> : Sen143Element {};
template <>
struct Device<DataFormat::kSen152Fp8> : Sen152Element {};
template <>
struct Device<DataFormat::kSenInt2> : SubByteElement<2, true> {};
template <>
struct Device<DataFormat::kSenInt4> : SubByteElement<4, true> {};
template <>
struct Device<DataFormat::kSenUInt2> : SubByteElement<2, false> {};
template <>
struct Device<DataFormat::kSenInt8> : IntegerElement<int8_t> {};
template <>
struct Device<DataFormat::kSenInt16> : IntegerElement<int16_t> {};
template <>
struct Device<DataFormat::kIeeeInt32> : IntegerElement<int32_t> {};
template <>
struct Device<DataFormat::kIeeeInt64> : IntegerElement<int64_t> {};
template <>
struct Device<DataFormat::kSenUInt32> : IntegerElement<uint32_t> {};
template <>
struct Device<DataFormat::kIeeeFp16> : Fp16Element {};
template <>
struct Device<DataFormat::kBFloat16> : Bf16Element {};
template <>
struct Device<DataFormat::kBool> : BoolElement {};

}  // namespace spyre::layout::detail
