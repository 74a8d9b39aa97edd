// SPDX-License-Identifier: Apache-2.0
#include "spyre/layout/layout.h"

#include <limits>
#include <random>

#include "spyre/layout/transfer.h"
#include "testing.h"

namespace spyre::layout {
namespace {

using Ints = std::vector<int64_t>;

/// Calls body(sum of index * first, sum of index * second) for each index of a loop nest,
/// row-major.
template <typename Body>
void for_each_index(const Ints& size, const Ints& first, const Ints& second, const Body& body) {
  Ints index(size.size(), 0);
  int64_t a = 0;
  int64_t b = 0;
  for (int64_t extent : size) {
    if (extent == 0) return;
  }
  while (true) {
    body(a, b);
    size_t d = size.size();
    while (d > 0) {
      --d;
      a += first[d];
      b += second[d];
      if (++index[d] < size[d]) break;
      a -= first[d] * size[d];
      b -= second[d] * size[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (size.empty()) return;
  }
}

TEST(the_layouts_of_the_documentation) {
  const Layout rows = Layout::row_major({4, 128}, HostDtype::kFloat16);
  CHECK(rows.device_size() == (Ints{4, 2, 64}));
  CHECK(rows.stride_map() == (Ints{128, 64, 1}));
  CHECK(rows.device_bytes() == 1024);
  const Layout generic = Layout::generic_stick({512, 256}, {256, 1}, HostDtype::kFloat16, {0, 1});
  CHECK(generic.device_size() == (Ints{4, 512, 64}));
  CHECK(generic.stride_map() == (Ints{64, 256, 1}));
  const Layout sparse =
      Layout::generic_stick({512, 256}, {256, 1}, HostDtype::kFloat16, {0, 1, -1});
  CHECK(sparse.device_size() == (Ints{256, 1, 512, 64}));
  CHECK(sparse.stride_map() == (Ints{1, -1, 256, -1}));
  const Layout scalar = Layout::row_major({}, HostDtype::kFloat16);
  CHECK(scalar.device_size() == (Ints{1, 64}));
  CHECK(scalar.stride_map() == (Ints{-1, -1}));
  CHECK(rows.repr() ==
        "SpyreTensorLayout(device_size=[4, 2, 64], stride_map=[128, 64, 1], "
        "device_dtype=DataFormats.SEN169_FP16)");
  CHECK(rows == Layout::make({4, 2, 64}, {128, 64, 1}, DataFormat::kSen169Fp16));
  CHECK(rows.hash() == Layout::make({4, 2, 64}, {128, 64, 1}, DataFormat::kSen169Fp16).hash());
  CHECK(rows != generic);
}

TEST(malformed_layouts) {
  CHECK_THROWS(std::invalid_argument, "cast the tensor to float32",
               Layout::row_major({4}, HostDtype::kFloat64));
  CHECK_THROWS(std::invalid_argument, "64-bit",
               Layout::row_major({int64_t{1} << 40, int64_t{1} << 40}, HostDtype::kFloat16));
  CHECK_THROWS(std::invalid_argument, "split the last dimension",
               Layout::make({4, 60}, {64, 1}, DataFormat::kSen169Fp16));
  CHECK_THROWS(std::invalid_argument, "no storage",
               Layout::make({4, 60}, {64, 1}, DataFormat::kSenInt24));
  CHECK_THROWS(std::invalid_argument, "no data format has the value 99",
               Layout::make({4, 64}, {64, 1}, static_cast<DataFormat>(99)));
  CHECK_THROWS(std::invalid_argument, "twice",
               Layout::generic_stick({2, 2}, {2, 1}, HostDtype::kFloat16, {1, 1}));
}

TEST(a_default_layout_is_empty) {
  const Layout layout;
  CHECK(layout.device_numel() == 0);
  CHECK(layout.device_bytes() == 0);
  CHECK_THROWS(std::out_of_range, "outside", layout.device_offset(0));
}

/// A random layout of a random tensor.
Layout random_layout(std::mt19937& rng, Ints* size) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
  };
  static constexpr HostDtype kDtypes[] = {HostDtype::kFloat16, HostDtype::kFloat32,
                                          HostDtype::kInt64, HostDtype::kInt8};
  const HostDtype dtype = kDtypes[pick(0, 3)];
  size->clear();
  int64_t numel = 1;
  for (int64_t rank = pick(0, 5); rank > 0; --rank) {
    int64_t extent = pick(0, 3) == 0 ? pick(1, 200) : pick(1, 6);
    if (numel * extent > 20000) extent = 1;
    numel *= extent;
    size->push_back(extent);
  }
  if (pick(0, 1)) return Layout::row_major(*size, dtype);
  Ints order(size->size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
  std::shuffle(order.begin(), order.end(), rng);
  if (pick(0, 3) == 0) order.push_back(-1);
  return Layout::generic_stick(*size, contiguous_strides(*size), dtype, order);
}

TEST(random_views_equal_brute_force) {
  std::mt19937 rng(12345);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
  };
  int affine = 0;
  for (int round = 0; round < 3000; ++round) {
    Ints size;
    const Layout layout = random_layout(rng, &size);
    Ints view_size = size;
    Ints stride = contiguous_strides(size);
    int64_t offset = 0;
    for (size_t d = 0; d < view_size.size(); ++d) {
      const int64_t start = pick(0, view_size[d] - 1);
      const int64_t step = pick(1, 3);
      if (pick(0, 1)) {
        offset += start * stride[d];
        view_size[d] = (view_size[d] - start + step - 1) / step;
        stride[d] *= step;
      }
      if (pick(0, 3) == 0) {
        offset += (view_size[d] - 1) * stride[d];
        stride[d] = -stride[d];
      }
    }
    for (size_t d = 0; d + 1 < view_size.size(); ++d) {
      if (pick(0, 1) && stride[d] == stride[d + 1] * view_size[d + 1]) {  // flatten
        view_size[d + 1] *= view_size[d];
        view_size.erase(view_size.begin() + static_cast<std::ptrdiff_t>(d));
        stride.erase(stride.begin() + static_cast<std::ptrdiff_t>(d));
      }
    }
    const DeviceView view = resolve_view(layout, view_size, stride, offset);
    Ints expected;
    for_each_index(view_size, stride, stride, [&](int64_t host, int64_t) {
      expected.push_back(layout.device_offset(offset + host));
    });
    Ints extents;
    Ints strides;
    for (const ViewLoop& loop : view.loops) {
      extents.push_back(loop.extent);
      strides.push_back(loop.device_stride);
    }
    Ints found;
    for_each_index(extents, strides, strides, [&](int64_t at, int64_t) {
      found.push_back(view.affine ? view.device_offset + at : view.map(view.host_offset + at));
    });
    CHECK(found == expected);
    for (const int64_t device : expected) CHECK(layout.host_offset(device) >= 0);
    affine += view.affine;

    Ints planned(expected.size(), -1);
    for (const TransferPiece& piece :
         transfer_plan(layout, view_size, contiguous_strides(view_size), stride, offset)) {
      Ints range;
      Ints host;
      Ints device;
      for (const TransferLoop& loop : piece.loops) {
        range.push_back(loop.extent);
        host.push_back(loop.host_stride);
        device.push_back(loop.device_stride);
      }
      for_each_index(range, host, device, [&](int64_t h, int64_t d) {
        planned[static_cast<size_t>(piece.host_offset + h)] = piece.device_offset + d;
      });
    }
    CHECK(planned == expected);
  }
  CHECK(affine > 1500);
}

TEST(copies_both_ways_with_and_without_threads) {
  for (const int64_t rows : {1, 5, 700}) {
    for (const int64_t columns : {1, 64, 100, 777}) {
      const Ints size = {rows, columns};
      std::vector<int32_t> values(static_cast<size_t>(rows * columns));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i * 2654435761u);
      for (const Ints& strides : {Ints{columns, 1}, Ints{1, rows}}) {
        for (const Layout& layout :
             {Layout::row_major(size, HostDtype::kInt32),
              Layout::generic_stick(size, contiguous_strides(size), HostDtype::kInt32, {0, 1}),
              Layout::generic_stick(size, contiguous_strides(size), HostDtype::kInt32,
                                    {0, 1, -1})}) {
          for (const int threads : {1, 3}) {
            std::vector<char> device(static_cast<size_t>(layout.device_bytes()));
            std::vector<int32_t> back(values.size());
            const ParallelFor parallel = thread_parallel_for(threads);
            to_device(values.data(), HostDtype::kInt32, size, strides, layout, device.data(),
                      parallel);
            from_device(device.data(), layout, size, contiguous_strides(size), 0, back.data(),
                        HostDtype::kInt32, strides, parallel);
            CHECK(back == values);
          }
        }
      }
    }
  }
}

TEST(transfers_refuse_what_makes_no_sense) {
  int32_t host[4] = {};
  int32_t device[32] = {};
  const TransferLoop repeat{4, 1, 0};
  CHECK_THROWS(
      std::invalid_argument, "writes with stride 0",
      run_transfer(&repeat, 1, HostDtype::kInt32, DataFormat::kIeeeInt32, host, device, 0, true));
  const TransferLoop negative{-1, 1, 1};
  CHECK_THROWS(
      std::invalid_argument, "negative extent",
      run_transfer(&negative, 1, HostDtype::kInt32, DataFormat::kIeeeInt32, host, device, 0, true));
  const TransferLoop nothing{0, 1, 1};
  run_transfer(&nothing, 1, HostDtype::kInt32, DataFormat::kIeeeInt32, host, device, 0, true);
}

TEST(a_parallel_for_passes_exceptions_on) {
  CHECK_THROWS(std::runtime_error, "from a part",
               thread_parallel_for(4)(4, 1, [](int64_t begin, int64_t) {
                 if (begin == 2) throw std::runtime_error("from a part");
               }));
}

}  // namespace
}  // namespace spyre::layout

int main() { return spyre::layout::testing::run_all(); }
