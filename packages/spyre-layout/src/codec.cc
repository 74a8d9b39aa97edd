// SPDX-License-Identifier: Apache-2.0
#include "spyre/layout/codec.h"

#include <algorithm>
#include <stdexcept>

#include "convert.h"

namespace spyre::layout {
namespace {

using detail::Converter;
using detail::find_converter;

constexpr int64_t kChunk = 1024;  // a multiple of the codes in a byte

/// Encodes to packed codes; sub-byte codes go through a buffer of one code a byte.
void encode_packed(const Converter& converter, const void* host, void* codes, int64_t count) {
  if (converter.code_bits >= 8) {
    converter.encode(host, codes, count);
    return;
  }
  uint8_t wide[kChunk];
  const auto* source = static_cast<const char*>(host);
  auto* target = static_cast<uint8_t*>(codes);
  for (int64_t start = 0; start < count; start += kChunk) {
    const int64_t n = std::min(kChunk, count - start);
    converter.encode(source + start * converter.host_bytes, wide, n);
    uint8_t* bytes = target + start * converter.code_bits / 8;
    std::fill_n(bytes, (n * converter.code_bits + 7) / 8, uint8_t{0});
    for (int64_t i = 0; i < n; ++i) detail::write_packed(bytes, i, converter.code_bits, wide[i]);
  }
}

void decode_packed(const Converter& converter, const void* codes, void* host, int64_t count) {
  if (converter.code_bits >= 8) {
    converter.decode(codes, host, count);
    return;
  }
  uint8_t wide[kChunk];
  const auto* source = static_cast<const uint8_t*>(codes);
  auto* target = static_cast<char*>(host);
  for (int64_t start = 0; start < count; start += kChunk) {
    const int64_t n = std::min(kChunk, count - start);
    for (int64_t i = 0; i < n; ++i)
      wide[i] = detail::read_packed(source, start + i, converter.code_bits);
    converter.decode(wide, target + start * converter.host_bytes, n);
  }
}

}  // namespace

void encode(const float* values, DataFormat format, void* codes, int64_t count, Overflow overflow) {
  encode_from(HostDtype::kFloat32, values, format, codes, count, overflow);
}

void encode(const int64_t* values, DataFormat format, void* codes, int64_t count,
            Overflow overflow) {
  encode_from(HostDtype::kInt64, values, format, codes, count, overflow);
}

void decode(const void* codes, DataFormat format, float* values, int64_t count) {
  decode_to(HostDtype::kFloat32, codes, format, values, count);
}

void decode(const void* codes, DataFormat format, int64_t* values, int64_t count) {
  decode_to(HostDtype::kInt64, codes, format, values, count);
}

void encode_from(HostDtype dtype, const void* host, DataFormat format, void* codes, int64_t count,
                 Overflow overflow) {
  encode_packed(find_converter(dtype, format, overflow), host, codes, count);
}

void decode_to(HostDtype dtype, const void* codes, DataFormat format, void* host, int64_t count) {
  decode_packed(find_converter(dtype, format), codes, host, count);
}

void require_codec(HostDtype dtype, DataFormat format) { find_converter(dtype, format); }

}  // namespace spyre::layout
