// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "spyre/layout/codec.h"
#include "vector_kernels.h"

/// The table of array converters that the codecs and transfers share.
namespace spyre::layout::detail {

/// How one pair of host dtype and device format converts. For sub-byte formats the functions work
/// on codes unpacked to one byte each.
struct Converter {
  ConvertFn encode;  ///< host elements -> codes
  ConvertFn decode;  ///< codes -> host elements
  int host_bytes;
  int code_bytes;  ///< 1 for sub-byte formats
  int code_bits;
  bool same_bytes;  ///< both functions copy
};

/// Throws std::invalid_argument for pairs without a codec.
Converter find_converter(HostDtype dtype, DataFormat format,
                         Overflow overflow = Overflow::kDefault);

/// A pair whose converter copies elements of that many bytes as they are.
inline std::pair<HostDtype, DataFormat> copying_pair(int bytes) {
  switch (bytes) {
    case 1: return {HostDtype::kInt8, DataFormat::kSenInt8};
    case 2: return {HostDtype::kInt16, DataFormat::kSenInt16};
    case 4: return {HostDtype::kInt32, DataFormat::kIeeeInt32};
    default: return {HostDtype::kInt64, DataFormat::kIeeeInt64};
  }
}

/// Reads one sub-byte code, number `index` of the packed array.
inline uint8_t read_packed(const uint8_t* codes, int64_t index, int bits) {
  const int64_t bit = index * bits;
  return static_cast<uint8_t>((codes[bit >> 3] >> (bit & 7)) & ((1 << bits) - 1));
}

/// Writes one sub-byte code, leaving its neighbours alone.
inline void write_packed(uint8_t* codes, int64_t index, int bits, uint8_t code) {
  const int64_t bit = index * bits;
  const int mask = ((1 << bits) - 1) << (bit & 7);
  codes[bit >> 3] = static_cast<uint8_t>((codes[bit >> 3] & ~mask) | ((code << (bit & 7)) & mask));
}

}  // namespace spyre::layout::detail
