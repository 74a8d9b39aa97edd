// SPDX-License-Identifier: Apache-2.0
#include "convert.h"

#include <stdexcept>
#include <string>
#include <type_traits>

#include "elements.h"

namespace spyre::layout::detail {
namespace {

// ---- by value: any dtype with any format
// ---------------------------------------------------------

template <typename Source, typename Target, bool kSaturate>
void convert_values(const void* source, void* target, int64_t count) {
  const auto* from = static_cast<const typename Source::T*>(source);
  auto* to = static_cast<typename Target::T*>(target);
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (Source::kFloating && !Target::kFloating) {
      to[i] = Target::store_float(Source::load(from[i]));
    } else if constexpr (Target::kFloating) {
      if constexpr (kSaturate && Source::kFloating) {
        to[i] = Target::store_saturate(Source::load_finite(from[i]));
      } else {
        const float value = Source::load_float(from[i]);
        to[i] = kSaturate ? Target::store_saturate(value) : Target::store(value);
      }
    } else {
      to[i] = kSaturate ? Target::store_saturate(Source::load_clamped(from[i]))
                        : Target::store(Source::load(from[i]));
    }
  }
}

// ---- copies by the rules of the device dtype
// -----------------------------------------------------

template <typename T>
void copy_elements(const void* source, void* target, int64_t count) {
  std::memcpy(target, source, static_cast<size_t>(count) * sizeof(T));
}

// ---- floats, by way of float32 and vectors
// -------------------------------------------------------

/// Vector kernels from an element type to float32 and back; null if float32 itself.
struct FloatKernels {
  ConvertFn VectorKernels::* to_float = nullptr;
  ConvertFn VectorKernels::* from_float = nullptr;
  ConvertFn VectorKernels::* from_float_saturate = nullptr;
};

template <typename Element>
constexpr FloatKernels float_kernels() {
  using K = VectorKernels;
  if constexpr (std::is_base_of_v<Fp16Element, Element>) {
    return {&K::fp16_to_float, &K::float_to_fp16, nullptr};
  } else if constexpr (std::is_base_of_v<Bf16Element, Element>) {
    return {&K::bf16_to_float, &K::float_to_bf16, nullptr};
  } else if constexpr (std::is_base_of_v<Sen169Element, Element>) {
    return {&K::sen169_to_float, &K::float_to_sen169, &K::float_to_sen169_saturate};
  } else if constexpr (std::is_base_of_v<Sen143Element, Element>) {
    return {&K::sen143_to_float, &K::float_to_sen143, &K::float_to_sen143};
  } else if constexpr (std::is_base_of_v<Sen152Element, Element>) {
    return {&K::sen152_to_float, &K::float_to_sen152, &K::float_to_sen152_saturate};
  } else {
    return {};
  }
}

template <typename Element>
constexpr bool kIsFloat32 = std::is_base_of_v<Fp32Element, Element>;

template <typename Element>
constexpr bool kHasFloatKernels =
    kIsFloat32<Element> || float_kernels<Element>().to_float != nullptr;

template <typename Source, typename Target, bool kSaturate>
void convert_floats(const void* source, void* target, int64_t count) {
  constexpr FloatKernels kSource = float_kernels<Source>();
  constexpr FloatKernels kTarget = float_kernels<Target>();
  constexpr auto kStore = kSaturate ? kTarget.from_float_saturate : kTarget.from_float;
  const VectorKernels& kernels = vector_kernels();
  if constexpr (kIsFloat32<Source> && kIsFloat32<Target>) {
    std::memcpy(target, source, static_cast<size_t>(count) * sizeof(float));
  } else if constexpr (kIsFloat32<Source>) {
    (kernels.*kStore)(source, target, count);
  } else if constexpr (kIsFloat32<Target>) {
    (kernels.*kSource.to_float)(source, target, count);
  } else {
    constexpr int64_t kChunk = 2048;
    alignas(64) float values[kChunk];
    const auto* from = static_cast<const typename Source::T*>(source);
    auto* to = static_cast<typename Target::T*>(target);
    for (int64_t start = 0; start < count; start += kChunk) {
      const int64_t n = count - start < kChunk ? count - start : kChunk;
      (kernels.*kSource.to_float)(from + start, values, n);
      (kernels.*kStore)(values, to + start, n);
    }
  }
}

template <typename Source, typename Target, bool kSaturate>
constexpr ConvertFn choose_converter() {
  if constexpr (Source::kFloating && Target::kFloating) {
    if constexpr (kHasFloatKernels<Source> && kHasFloatKernels<Target>) {
      constexpr bool kStores = !kSaturate || float_kernels<Target>().from_float_saturate != nullptr;
      if constexpr (kStores) return convert_floats<Source, Target, kSaturate>;
    }
  }
  return convert_values<Source, Target, kSaturate>;
}

template <HostDtype kDtype, DataFormat kFormat>
Converter make_converter(bool saturate) {
  using H = Host<kDtype>;
  using D = Device<kFormat>;
  Converter converter{};
  converter.encode = saturate ? choose_converter<H, D, true>() : choose_converter<H, D, false>();
  converter.decode = choose_converter<D, H, false>();
  converter.host_bytes = sizeof(typename H::T);
  converter.code_bytes = sizeof(typename D::T);
  converter.code_bits = format_info(kFormat).bits;
  return converter;
}

template <HostDtype kDtype>
Converter make_for_host(DataFormat format, bool saturate) {
  switch (format) {
#define SPYRE_LAYOUT_FORMAT(name) \
  case DataFormat::name: return make_converter<kDtype, DataFormat::name>(saturate);
    SPYRE_LAYOUT_FORMAT(kSen169Fp16)
    SPYRE_LAYOUT_FORMAT(kIeeeFp32)
    SPYRE_LAYOUT_FORMAT(kSen143Fp8)
    SPYRE_LAYOUT_FORMAT(kSen152Fp8)
    SPYRE_LAYOUT_FORMAT(kSenInt2)
    SPYRE_LAYOUT_FORMAT(kSenInt4)
    SPYRE_LAYOUT_FORMAT(kSenInt8)
    SPYRE_LAYOUT_FORMAT(kSenInt16)
    SPYRE_LAYOUT_FORMAT(kIeeeInt64)
    SPYRE_LAYOUT_FORMAT(kIeeeInt32)
    SPYRE_LAYOUT_FORMAT(kSenUInt32)
    SPYRE_LAYOUT_FORMAT(kSenUInt2)
    SPYRE_LAYOUT_FORMAT(kIeeeFp16)
    SPYRE_LAYOUT_FORMAT(kBool)
    SPYRE_LAYOUT_FORMAT(kBFloat16)
#undef SPYRE_LAYOUT_FORMAT
    default: break;
  }
  require_storage(format, "store elements");
  throw std::logic_error("a format with storage has no codec");
}

Converter by_value(HostDtype dtype, DataFormat format, bool saturate) {
  switch (dtype) {
#define SPYRE_LAYOUT_DTYPE(name) \
  case HostDtype::name: return make_for_host<HostDtype::name>(format, saturate);
    SPYRE_LAYOUT_DTYPE(kFloat16)
    SPYRE_LAYOUT_DTYPE(kBFloat16)
    SPYRE_LAYOUT_DTYPE(kFloat32)
    SPYRE_LAYOUT_DTYPE(kFloat64)
    SPYRE_LAYOUT_DTYPE(kBool)
    SPYRE_LAYOUT_DTYPE(kInt8)
    SPYRE_LAYOUT_DTYPE(kInt16)
    SPYRE_LAYOUT_DTYPE(kInt32)
    SPYRE_LAYOUT_DTYPE(kInt64)
    SPYRE_LAYOUT_DTYPE(kUInt8)
    SPYRE_LAYOUT_DTYPE(kUInt16)
    SPYRE_LAYOUT_DTYPE(kUInt32)
    SPYRE_LAYOUT_DTYPE(kUInt64)
    SPYRE_LAYOUT_DTYPE(kFloat8E4M3FN)
    SPYRE_LAYOUT_DTYPE(kFloat8E5M2FNUZ)
#undef SPYRE_LAYOUT_DTYPE
    default: break;
  }
  device_format(dtype);  // throws, with a dtype to cast to
  throw std::logic_error("a dtype with a device format has no codec");
}

template <typename T>
void make_copy(Converter* converter) {
  converter->encode = converter->decode = copy_elements<T>;
  converter->same_bytes = true;
}

}  // namespace

Converter find_converter(HostDtype dtype, DataFormat format, Overflow overflow) {
  const bool saturate = overflow == Overflow::kSaturate;
  Converter converter = by_value(dtype, format, saturate);
  if (saturate) return converter;
  const VectorKernels& kernels = vector_kernels();
  const auto is = [&](HostDtype d, DataFormat f) { return dtype == d && format == f; };
  if (is(HostDtype::kFloat16, DataFormat::kSen169Fp16)) {
    converter.encode = kernels.fp16_to_sen169;
    converter.decode = kernels.sen169_to_fp16;
  } else if (is(HostDtype::kBFloat16, DataFormat::kSen169Fp16)) {
    converter.encode = kernels.bf16_to_sen169;
    converter.decode = kernels.sen169_to_bf16;
  } else if (is(HostDtype::kBool, DataFormat::kSen169Fp16)) {
    converter.encode = kernels.bool_to_sen169;
    converter.decode = kernels.sen169_to_bool;
  } else if (is(HostDtype::kUInt8, DataFormat::kSenUInt32)) {
    converter.encode = kernels.uint8_to_uint32;
    converter.decode = kernels.uint32_to_uint8;
  } else if (is(HostDtype::kFloat32, DataFormat::kIeeeFp32) ||
             is(HostDtype::kInt32, DataFormat::kIeeeInt32) ||
             is(HostDtype::kUInt32, DataFormat::kSenUInt32)) {
    make_copy<uint32_t>(&converter);
  } else if (is(HostDtype::kInt64, DataFormat::kIeeeInt64)) {
    make_copy<uint64_t>(&converter);
  } else if (is(HostDtype::kInt16, DataFormat::kSenInt16) ||
             is(HostDtype::kFloat16, DataFormat::kIeeeFp16) ||
             is(HostDtype::kBFloat16, DataFormat::kBFloat16)) {
    make_copy<uint16_t>(&converter);
  } else if (is(HostDtype::kInt8, DataFormat::kSenInt8) ||
             is(HostDtype::kFloat8E4M3FN, DataFormat::kSen143Fp8) ||
             is(HostDtype::kFloat8E5M2FNUZ, DataFormat::kSen152Fp8)) {
    make_copy<uint8_t>(&converter);
  }
  return converter;
}

}  // namespace spyre::layout::detail
