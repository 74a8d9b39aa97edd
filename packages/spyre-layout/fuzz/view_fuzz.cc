// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of layouts and view resolution: bytes become a layout and a view; whatever
// resolve_view() and transfer_plan() accept must equal the layout's own element-by-element answer.
// Built with libFuzzer by clang; elsewhere main() below feeds it files or, without any, random
// bytes.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <vector>

#include "spyre/layout/transfer.h"

namespace {

using namespace spyre::layout;
using Ints = std::vector<int64_t>;

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  int64_t byte() { return size_ == 0 ? 0 : (--size_, *data_++); }
  int64_t below(int64_t limit) { return byte() % limit; }
  /// Mostly small, sometimes about a stick, now and then absurd.
  int64_t number() {
    const int64_t kind = below(16);
    if (kind < 8) return below(8);
    if (kind < 14) return byte() + below(2) * 256;
    if (kind == 14) return -byte();
    int64_t value = 0;
    for (int i = 0; i < 8; ++i)
      value = static_cast<int64_t>(static_cast<uint64_t>(value) << 8 | byte());
    return value;
  }
  Ints numbers(int64_t count) {
    Ints values;
    for (int64_t i = 0; i < count; ++i) values.push_back(number());
    return values;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

Layout read_layout(Bytes& bytes) {
  const auto dtype = static_cast<HostDtype>(bytes.below(12));
  const int64_t rank = bytes.below(6);
  const Ints size = bytes.numbers(rank);
  switch (bytes.below(4)) {
    case 0: return Layout::row_major(size, dtype);
    case 1: return Layout::strided(size, bytes.numbers(rank), dtype);
    case 2: {
      Ints order;
      for (int64_t d = 0; d < rank; ++d) order.push_back(d);
      for (int64_t d = 1; d < rank; ++d)
        std::swap(order[static_cast<size_t>(d)], order[static_cast<size_t>(bytes.below(d + 1))]);
      if (bytes.below(4) == 0) order.push_back(-1);
      return Layout::generic_stick(
          size, bytes.below(2) ? contiguous_strides(size) : bytes.numbers(rank), dtype, order);
    }
    default: {
      const auto format = static_cast<DataFormat>(bytes.below(19));
      Ints device_size = size;
      device_size.push_back(format_info(format).elems_per_stick);
      Ints stride_map = bytes.numbers(rank + 1);
      for (int64_t& stride : stride_map) stride = stride == 0 ? -1 : stride;
      return Layout::make(device_size, stride_map, format);
    }
  }
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

template <typename Body>
void for_each_index(const Ints& size, const Body& body) {
  Ints index(size.size(), 0);
  for (int64_t extent : size) {
    if (extent == 0) return;
  }
  while (true) {
    body(index);
    size_t d = size.size();
    while (d > 0) {
      --d;
      if (++index[d] < size[d]) break;
      index[d] = 0;
      if (d == 0) return;
    }
    if (size.empty()) return;
  }
}

int64_t dot(const Ints& a, const Ints& b) {
  int64_t sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

void check_view(const Layout& layout, const Ints& size, const Ints& stride, int64_t offset) {
  const DeviceView view = resolve_view(layout, size, stride, offset);
  int64_t numel = 1;
  for (int64_t extent : size) {
    if (extent == 0) return;
    if (__builtin_mul_overflow(numel, extent, &numel) || numel > 4096) return;
  }
  Ints expected;
  for_each_index(size, [&](const Ints& index) {
    expected.push_back(layout.device_offset(offset + dot(index, stride)));
  });
  for (const int64_t device : expected) {
    require(device >= 0 && device < layout.device_numel(), "a position lies in device memory");
  }
  Ints extents;
  Ints strides;
  for (const ViewLoop& loop : view.loops) {
    extents.push_back(loop.extent);
    strides.push_back(loop.device_stride);
  }
  size_t k = 0;
  for_each_index(extents, [&](const Ints& index) {
    const int64_t at = dot(index, strides);
    require(k < expected.size(), "as many elements as the view");
    require(
        expected[k++] == (view.affine ? view.device_offset + at : view.map(view.host_offset + at)),
        "the resolved view equals the layout");
  });
  require(k == expected.size(), "all elements of the view");

  Ints planned(expected.size(), -1);
  for (const TransferPiece& piece :
       transfer_plan(layout, size, contiguous_strides(size), stride, offset)) {
    Ints range;
    Ints host;
    Ints device;
    for (const TransferLoop& loop : piece.loops) {
      range.push_back(loop.extent);
      host.push_back(loop.host_stride);
      device.push_back(loop.device_stride);
    }
    for_each_index(range, [&](const Ints& index) {
      const int64_t at = piece.host_offset + dot(index, host);
      require(at >= 0 && at < numel && planned[static_cast<size_t>(at)] == -1,
              "a plan moves elements once");
      planned[static_cast<size_t>(at)] = piece.device_offset + dot(index, device);
    });
  }
  require(planned == expected, "the plan equals the layout");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  try {
    const Layout layout = read_layout(bytes);
    const int64_t rank = bytes.below(6);
    const Ints view_size = bytes.numbers(rank);
    const Ints stride = bytes.numbers(rank);
    check_view(layout, view_size, stride, bytes.number());
  } catch (const std::invalid_argument&) {
  } catch (const std::out_of_range&) {
  }
  return 0;
}

#ifdef SPYRE_LAYOUT_FUZZ_MAIN
int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] != '-') {
    for (int i = 1; i < argc; ++i) {
      std::ifstream file(argv[i], std::ios::binary);
      const std::vector<char> content{std::istreambuf_iterator<char>(file), {}};
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(content.data()), content.size());
    }
    return 0;
  }
  const long runs = argc > 1 ? std::atol(argv[1] + 1) : 20000;  // e.g. -1000000
  std::mt19937 rng(1);
  std::vector<uint8_t> bytes(96);
  for (long run = 0; run < runs; ++run) {
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%ld runs\n", runs);
  return 0;
}
#endif
