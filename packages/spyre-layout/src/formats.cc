// SPDX-License-Identifier: Apache-2.0
#include "spyre/layout/formats.h"

#include <stdexcept>

namespace spyre::layout {
namespace {

constexpr double kUnused = 0;

// Indexed by the value of the format.
constexpr FormatInfo kFormats[kDataFormatCount] = {
    {"SEN169_FP16", 16, 64, true, FormatKind::kFloat, -8573157376.0, 8573157376.0, 0x1.008p-31},
    {"IEEE_FP32", 32, 32, true, FormatKind::kFloat, -0x1.fffffep127, 0x1.fffffep127, 0x1p-149},
    {"INVALID", 0, 0, false, FormatKind::kNone, kUnused, kUnused, kUnused},
    {"SEN143_FP8", 8, 128, true, FormatKind::kFloat, -448, 448, 0x1p-9},
    {"SEN152_FP8", 8, 128, true, FormatKind::kFloat, -57344, 57344, 0x1p-17},
    {"SEN153_FP9", 9, 0, false, FormatKind::kFloat, kUnused, kUnused, kUnused},
    {"SENINT2", 2, 512, true, FormatKind::kSigned, -2, 1, 1},
    {"SENINT4", 4, 256, true, FormatKind::kSigned, -8, 7, 1},
    {"SENINT8", 8, 128, true, FormatKind::kSigned, -128, 127, 1},
    {"SENINT16", 16, 64, true, FormatKind::kSigned, -32768, 32767, 1},
    {"SENINT24", 24, 0, false, FormatKind::kSigned, -8388608, 8388607, 1},
    {"IEEE_INT64", 64, 16, true, FormatKind::kSigned, -0x1p63, 0x1p63, 1},
    {"IEEE_INT32", 32, 32, true, FormatKind::kSigned, -0x1p31, 2147483647, 1},
    {"SENUINT32", 32, 32, true, FormatKind::kUnsigned, 0, 4294967295, 1},
    {"SENUINT2", 2, 512, true, FormatKind::kUnsigned, 0, 3, 1},
    {"IEEE_FP16", 16, 64, true, FormatKind::kFloat, -65504, 65504, 0x1p-24},
    {"BOOL", 8, 128, true, FormatKind::kBool, 0, 1, 1},
    {"BFLOAT16", 16, 64, true, FormatKind::kFloat, -0x1.fep127, 0x1.fep127, 0x1p-133},
    {"SEN18F_FP24", 24, 0, false, FormatKind::kFloat, kUnused, kUnused, kUnused},
};

struct HostInfo {
  const char* name;
  int itemsize;
  DataFormat format;    // kInvalid: none
  const char* cast_to;  // advice where there is none
};

// Indexed by the value of the dtype.
constexpr HostInfo kHosts[kHostDtypeCount] = {
    {"float16", 2, DataFormat::kSen169Fp16, nullptr},
    {"bfloat16", 2, DataFormat::kSen169Fp16, nullptr},
    {"float32", 4, DataFormat::kIeeeFp32, nullptr},
    {"bool", 1, DataFormat::kSen169Fp16, nullptr},
    {"int8", 1, DataFormat::kSenInt8, nullptr},
    {"int16", 2, DataFormat::kSenInt16, nullptr},
    {"int32", 4, DataFormat::kIeeeInt32, nullptr},
    {"int64", 8, DataFormat::kIeeeInt64, nullptr},
    {"uint8", 1, DataFormat::kSenUInt32, nullptr},
    {"float8_e4m3fn", 1, DataFormat::kSen143Fp8, nullptr},
    {"float8_e5m2fnuz", 1, DataFormat::kSen152Fp8, nullptr},
    {"float64", 8, DataFormat::kInvalid, "float32"},
    {"uint16", 2, DataFormat::kInvalid, "int32"},
    {"uint32", 4, DataFormat::kInvalid, "int64"},
    {"uint64", 8, DataFormat::kInvalid, "int64"},
    {"float8_e5m2", 1, DataFormat::kInvalid, "float8_e5m2fnuz"},
    {"float8_e4m3fnuz", 1, DataFormat::kInvalid, "float8_e4m3fn"},
    {"float8_e8m0fnu", 1, DataFormat::kInvalid, "float32"},
    {"complex32", 4, DataFormat::kInvalid,
     "float16 (its real and imaginary parts, by view_as_real)"},
    {"complex64", 8, DataFormat::kInvalid,
     "float32 (its real and imaginary parts, by view_as_real)"},
    {"complex128", 16, DataFormat::kInvalid,
     "complex64 and then float32 (its real and imaginary parts, by view_as_real)"},
};

struct Alias {
  const char* name;
  HostDtype dtype;
};

constexpr Alias kAliases[] = {
    {"half", HostDtype::kFloat16},       {"float", HostDtype::kFloat32},
    {"double", HostDtype::kFloat64},     {"char", HostDtype::kInt8},
    {"short", HostDtype::kInt16},        {"int", HostDtype::kInt32},
    {"long", HostDtype::kInt64},         {"byte", HostDtype::kUInt8},
    {"bool_", HostDtype::kBool},         {"cfloat", HostDtype::kComplex64},
    {"cdouble", HostDtype::kComplex128},
};

const HostInfo& host_info(HostDtype dtype) {
  const auto index = static_cast<int32_t>(dtype);
  if (index < 0 || index >= kHostDtypeCount) {
    throw std::invalid_argument("no host dtype has the value " + std::to_string(index) +
                                "; expected 0 to " + std::to_string(kHostDtypeCount - 1));
  }
  return kHosts[index];
}

std::string supported_dtypes() {
  std::string names;
  for (const HostInfo& host : kHosts) {
    if (host.format == DataFormat::kInvalid) continue;
    if (!names.empty()) names += ", ";
    names += host.name;
  }
  return names;
}

}  // namespace

const FormatInfo& format_info(DataFormat format) {
  const auto index = static_cast<int32_t>(format);
  if (index < 0 || index >= kDataFormatCount) {
    throw std::invalid_argument("no data format has the value " + std::to_string(index) +
                                "; expected 0 to " + std::to_string(kDataFormatCount - 1));
  }
  return kFormats[index];
}

DataFormat data_format_by_name(std::string_view name) {
  for (int i = 0; i < kDataFormatCount; ++i) {
    if (name == kFormats[i].name) return static_cast<DataFormat>(i);
  }
  std::string names;
  for (const FormatInfo& info : kFormats)
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  throw std::invalid_argument("no data format is called '" + std::string(name) +
                              "'; expected one of " + names);
}

void require_storage(DataFormat format, const char* purpose) {
  const FormatInfo& info = format_info(format);
  if (info.has_storage) return;
  throw std::invalid_argument(
      std::string("cannot ") + purpose + " in format " + info.name + ": it is " +
      (format == DataFormat::kInvalid ? "the mark of dtypes without a device format"
                                      : "compute only and has no storage") +
      "; choose a format with storage, such as SEN169_FP16");
}

int64_t packed_bytes(DataFormat format, int64_t count) {
  require_storage(format, "store elements");
  const int64_t bits = format_info(format).bits;
  return bits >= 8 ? count * (bits / 8) : (count * bits + 7) / 8;
}

int host_itemsize(HostDtype dtype) { return host_info(dtype).itemsize; }

std::string_view host_dtype_name(HostDtype dtype) { return host_info(dtype).name; }

HostDtype host_dtype_by_name(std::string_view name) {
  std::string_view bare = name;
  if (bare.substr(0, 6) == "torch.") bare.remove_prefix(6);
  for (int i = 0; i < kHostDtypeCount; ++i) {
    if (bare == kHosts[i].name) return static_cast<HostDtype>(i);
  }
  for (const Alias& alias : kAliases) {
    if (bare == alias.name) return alias.dtype;
  }
  throw std::invalid_argument("unknown dtype '" + std::string(name) +
                              "'; dtypes with a device format are " + supported_dtypes());
}

bool has_device_format(HostDtype dtype) { return host_info(dtype).format != DataFormat::kInvalid; }

DataFormat device_format(HostDtype dtype) {
  const HostInfo& host = host_info(dtype);
  if (host.format != DataFormat::kInvalid) return host.format;
  throw std::invalid_argument(std::string("dtype ") + host.name +
                              " has no device format; cast the tensor to " + host.cast_to);
}

std::string format_list(const int64_t* values, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) {
    if (i) text += ", ";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

}  // namespace spyre::layout
