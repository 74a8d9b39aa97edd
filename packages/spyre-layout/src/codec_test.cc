// SPDX-License-Identifier: Apache-2.0
#include "spyre/layout/codec.h"

#include <cstring>
#include <random>
#include <vector>

#include "testing.h"
#include "vector_kernels.h"

namespace spyre::layout {
namespace {

using detail::ConvertFn;
using detail::VectorKernels;

/// Every 8- or 16-bit input, or a few million 32-bit patterns with all boundaries of the exponents.
template <typename T>
std::vector<T> inputs() {
  std::vector<T> values;
  if constexpr (sizeof(T) < 4) {
    for (uint32_t bits = 0; bits < (1u << (8 * sizeof(T))); ++bits)
      values.push_back(static_cast<T>(bits));
  } else {
    const auto push = [&](uint32_t bits) {
      T value;
      std::memcpy(&value, &bits, sizeof value);
      values.push_back(value);
    };
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 2053)
      push(static_cast<uint32_t>(bits));
    for (uint32_t top = 0; top < (1u << 19); ++top) {
      for (const uint32_t low : {0u, 1u, 0x1000u, 0x1FFFu}) push(top << 13 | low);
    }
  }
  return values;
}

/// A vector kernel and its scalar twin, on everything, also from odd addresses and in odd lengths.
template <typename From, typename To, typename Scalar>
void compare(ConvertFn kernel, Scalar scalar) {
  const std::vector<From> values = inputs<From>();
  for (const size_t skip : {size_t{0}, size_t{1}, size_t{7}}) {
    const size_t count = values.size() - skip;
    std::vector<To> codes(count);
    kernel(values.data() + skip, codes.data(), static_cast<int64_t>(count));
    for (size_t i = 0; i < count; ++i) {
      const To expected = scalar(values[i + skip]);
      CHECK(std::memcmp(&expected, &codes[i], sizeof expected) == 0);
    }
  }
}

template <typename Body>
void for_each_set(const Body& body) {
  int count = 0;
  const VectorKernels* const* sets = detail::runnable_vector_kernels(&count);
  CHECK(count >= 1);
  for (int k = 0; k < count; ++k) body(*sets[k]);
}

TEST(vector_kernels_equal_the_scalar_codecs_16_bit) {
  for_each_set([](const VectorKernels& set) {
    compare<uint16_t, uint16_t>(set.fp16_to_sen169, fp16_to_sen169);
    compare<uint16_t, uint16_t>(set.sen169_to_fp16, sen169_to_fp16);
    compare<uint16_t, uint16_t>(set.bf16_to_sen169, bf16_to_sen169);
    compare<uint16_t, uint16_t>(set.sen169_to_bf16, sen169_to_bf16);
    compare<uint16_t, float>(set.sen169_to_float, sen169_to_float);
    compare<uint16_t, float>(set.fp16_to_float, fp16_to_float);
    compare<uint16_t, float>(set.bf16_to_float, bf16_to_float);
    compare<uint8_t, float>(set.sen143_to_float, sen143_to_float);
    compare<uint8_t, float>(set.sen152_to_float, sen152_to_float);
    compare<uint8_t, uint16_t>(set.bool_to_sen169,
                               [](uint8_t b) -> uint16_t { return b ? 0x3E00 : 0; });
    compare<uint16_t, uint8_t>(set.sen169_to_bool,
                               [](uint16_t c) -> uint8_t { return (c & 0x7FFF) != 0; });
    compare<uint8_t, uint32_t>(set.uint8_to_uint32, [](uint8_t b) -> uint32_t { return b; });
  });
}

TEST(vector_kernels_equal_the_scalar_codecs_32_bit) {
  for_each_set([](const VectorKernels& set) {
    compare<float, uint16_t>(set.float_to_sen169, float_to_sen169);
    compare<float, uint16_t>(set.float_to_sen169_saturate, float_to_sen169_saturate);
    compare<float, uint16_t>(set.float_to_fp16, float_to_fp16);
    compare<float, uint16_t>(set.float_to_bf16, float_to_bf16);
    compare<float, uint8_t>(set.float_to_sen143, float_to_sen143);
    compare<float, uint8_t>(set.float_to_sen152, float_to_sen152);
    compare<float, uint8_t>(set.float_to_sen152_saturate, float_to_sen152_saturate);
    compare<uint32_t, uint8_t>(set.uint32_to_uint8,
                               [](uint32_t v) { return static_cast<uint8_t>(v); });
  });
}

TEST(transposes) {
  for_each_set([](const VectorKernels& set) {
    for (const int64_t rows : {1, 3, 8, 16, 37}) {
      for (const int64_t columns : {1, 4, 8, 59, 64}) {
        std::vector<uint16_t> narrow(static_cast<size_t>(rows * 70));
        std::vector<uint32_t> wide(narrow.size());
        for (size_t i = 0; i < narrow.size(); ++i) {
          narrow[i] = static_cast<uint16_t>(i);
          wide[i] = static_cast<uint32_t>(i * 65537);
        }
        std::vector<uint16_t> narrow_out(static_cast<size_t>(columns * 40));
        std::vector<uint32_t> wide_out(narrow_out.size());
        set.transpose_16(narrow.data(), 70, narrow_out.data(), 40, rows, columns);
        set.transpose_32(wide.data(), 70, wide_out.data(), 40, rows, columns);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < columns; ++c) {
            CHECK(narrow_out[static_cast<size_t>(c * 40 + r)] ==
                  narrow[static_cast<size_t>(r * 70 + c)]);
            CHECK(wide_out[static_cast<size_t>(c * 40 + r)] ==
                  wide[static_cast<size_t>(r * 70 + c)]);
          }
        }
      }
    }
  });
}

TEST(sen169_by_hand) {
  CHECK(float_to_sen169(1.0f) == 0x3E00);
  CHECK(float_to_sen169(-2.5f) == 0xC080);
  CHECK(sen169_to_float(0x7FFE) == 8573157376.0f);
  CHECK(float_to_sen169(0x1p-31f) == 0);
  CHECK(float_to_sen169(1e20f) == kSen169Nan);
  CHECK(float_to_sen169_saturate(1e20f) == kSen169Max);
  CHECK(fp16_to_sen169(0x7C00) == kSen169Infinity);
  CHECK(sen169_to_fp16(kSen169Infinity) == 0x7C00);
  CHECK(fp16_to_sen169(0x7BFF) == 0x5DFF);
  CHECK(float_to_integer(-1e30f, -8, 7) == -8);
  CHECK(float_to_integer(0x1p63f, INT64_MIN, INT64_MAX) == INT64_MAX);
}

TEST(every_pair_round_trips_small_numbers) {
  for (int f = 0; f < kDataFormatCount; ++f) {
    const auto format = static_cast<DataFormat>(f);
    if (!format_info(format).has_storage) {
      CHECK_THROWS(std::invalid_argument, "choose a format with storage",
                   require_codec(HostDtype::kFloat32, format));
      continue;
    }
    for (int d = 0; d < kHostDtypeCount; ++d) {
      const auto dtype = static_cast<HostDtype>(d);
      if (d >= static_cast<int>(HostDtype::kFloat8E5M2)) {
        CHECK_THROWS(std::invalid_argument, "cast the tensor to", require_codec(dtype, format));
        continue;
      }
      // 0 and 1 exist in every dtype and every format.
      std::vector<int64_t> numbers = {0, 1, 1, 0, 1};
      if (format == DataFormat::kSenInt2) numbers = {0, 1, 1, 0, 0};
      std::vector<char> host(5 * 8);
      std::vector<char> codes(5 * 8);
      std::vector<char> back(5 * 8);
      std::vector<int64_t> result(5);
      std::vector<char> wide(5 * 8);
      encode(numbers.data(), DataFormat::kIeeeInt64, wide.data(), 5);
      decode_to(dtype, wide.data(), DataFormat::kIeeeInt64, host.data(), 5);
      encode_from(dtype, host.data(), format, codes.data(), 5);
      decode_to(dtype, codes.data(), format, back.data(), 5);
      encode_from(dtype, back.data(), DataFormat::kIeeeInt64, wide.data(), 5);
      decode(wide.data(), DataFormat::kIeeeInt64, result.data(), 5);
      CHECK(result == numbers);
    }
  }
}

TEST(sub_byte_codes_are_packed_lowest_bits_first) {
  const int64_t values[] = {-1, 2, 3, -8, 7};
  uint8_t codes[3];
  encode(values, DataFormat::kSenInt4, codes, 5);
  CHECK(codes[0] == 0x2F && codes[1] == 0x83 && codes[2] == 0x07);
  int64_t back[5];
  decode(codes, DataFormat::kSenInt4, back, 5);
  CHECK(std::memcmp(values, back, sizeof values) == 0);
}

}  // namespace
}  // namespace spyre::layout

int main() { return spyre::layout::testing::run_all(); }
