// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Formats of elements in device memory and dtypes of elements on the host.
namespace spyre::layout {

/// Bytes of a stick, the unit in which the device moves data.
inline constexpr int64_t kStickBytes = 128;

/// Encoding of an element on the device. The values are part of the ABI and of files.
enum class DataFormat : int32_t {
  kSen169Fp16 = 0,  ///< DLFloat16: sign, 6 exponent bits, 9 fraction bits
  kIeeeFp32 = 1,
  kInvalid = 2,
  kSen143Fp8 = 3,  ///< bytes of torch.float8_e4m3fn
  kSen152Fp8 = 4,  ///< bytes of torch.float8_e5m2fnuz
  kSen153Fp9 = 5,  ///< compute only
  kSenInt2 = 6,
  kSenInt4 = 7,
  kSenInt8 = 8,
  kSenInt16 = 9,
  kSenInt24 = 10,  ///< compute only
  kIeeeInt64 = 11,
  kIeeeInt32 = 12,
  kSenUInt32 = 13,
  kSenUInt2 = 14,
  kIeeeFp16 = 15,
  kBool = 16,
  kBFloat16 = 17,
  kSen18fFp24 = 18,  ///< compute only
};

/// Number of enumerators of DataFormat; their values are 0 .. kDataFormatCount - 1.
inline constexpr int kDataFormatCount = 19;

/// What the bits of a format stand for.
enum class FormatKind : int32_t { kNone, kFloat, kSigned, kUnsigned, kBool };

/// Properties of a format.
struct FormatInfo {
  const char* name;     ///< e.g. "SEN169_FP16"
  int bits;             ///< width of an element, 0 for INVALID
  int elems_per_stick;  ///< 0 for formats without storage
  bool has_storage;     ///< false for INVALID and compute-only formats
  FormatKind kind;
  double min;       ///< least finite value
  double max;       ///< largest finite value
  double smallest;  ///< smallest value above zero
};

/// Properties of `format`. Throws std::invalid_argument for a value that is no format.
const FormatInfo& format_info(DataFormat format);

/// The format called `name` ("SEN169_FP16"). Throws std::invalid_argument.
DataFormat data_format_by_name(std::string_view name);

/// Throws std::invalid_argument, naming `purpose`, unless elements of `format` can be stored.
void require_storage(DataFormat format, const char* purpose);

/// Bytes that `count` elements of `format` take, packed, without padding to sticks.
int64_t packed_bytes(DataFormat format, int64_t count);

/// Encoding of an element on the host, named as PyTorch names it. The values are part of the ABI.
enum class HostDtype : int32_t {
  kFloat16 = 0,
  kBFloat16 = 1,
  kFloat32 = 2,
  kBool = 3,
  kInt8 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kUInt8 = 8,
  kFloat8E4M3FN = 9,
  kFloat8E5M2FNUZ = 10,
  // Known by name, and some of them sources and targets of the codecs, but without a device format.
  kFloat64 = 11,
  kUInt16 = 12,
  kUInt32 = 13,
  kUInt64 = 14,
  kFloat8E5M2 = 15,
  kFloat8E4M3FNUZ = 16,
  kFloat8E8M0FNU = 17,
  kComplex32 = 18,
  kComplex64 = 19,
  kComplex128 = 20,
};

/// Number of enumerators of HostDtype; their values are 0 .. kHostDtypeCount - 1.
inline constexpr int kHostDtypeCount = 21;

/// Bytes of one element.
int host_itemsize(HostDtype dtype);

/// PyTorch's name of the dtype, without "torch.".
std::string_view host_dtype_name(HostDtype dtype);

/// The dtype called `name`; "torch." in front and the aliases half, float, double, char, short,
/// int, long and byte are understood. Throws std::invalid_argument.
HostDtype host_dtype_by_name(std::string_view name);

/// The format in which tensors of `dtype` are kept on the device. Throws std::invalid_argument for
/// a dtype without one; the message names a dtype to cast to.
DataFormat device_format(HostDtype dtype);

/// True if device_format() has an answer for `dtype`.
bool has_device_format(HostDtype dtype);

/// "[2, 3]", for messages.
std::string format_list(const int64_t* values, size_t count);
inline std::string format_list(const std::vector<int64_t>& values) {
  return format_list(values.data(), values.size());
}

}  // namespace spyre::layout
