// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "convert.h"
#include "spyre/layout/transfer.h"

namespace spyre::layout {
namespace {

using detail::Converter;

constexpr int64_t kBlock = 16384;      // elements of a contiguous run that are one unit of work
constexpr int64_t kGrain = 64 * 1024;  // elements that repay a thread

/// The addresses and the codec of a transfer.
struct Ends {
  Converter converter;
  char* host;
  char* device;  // byte-addressable formats: of loop index zero; others: of element zero
  int64_t device_offset;
  bool to_device;

  char* host_at(int64_t offset) const { return host + offset * converter.host_bytes; }
  char* device_at(int64_t offset) const { return device + offset * converter.code_bytes; }
};

/// The outer loops of a nest, numbered row-major, with `units` units of work in each iteration.
class OuterLoops {
 public:
  OuterLoops(std::vector<TransferLoop> loops, int64_t units) : loops_(std::move(loops)), units_(units) {}

  int64_t count() const {
    int64_t count = units_;
    for (const TransferLoop& loop : loops_) count *= loop.extent;
    return count;
  }

  /// Calls body(host offset, device offset, unit) for numbers begin to end.
  template <typename Body>
  void run(int64_t begin, int64_t end, const Body& body) const {
    int64_t unit = begin % units_;
    int64_t number = begin / units_;
    std::vector<int64_t> index(loops_.size());
    int64_t host = 0;
    int64_t device = 0;
    for (size_t k = loops_.size(); k-- > 0;) {
      index[k] = number % loops_[k].extent;
      number /= loops_[k].extent;
      host += index[k] * loops_[k].host_stride;
      device += index[k] * loops_[k].device_stride;
    }
    for (int64_t i = begin; i < end; ++i) {
      body(host, device, unit);
      if (++unit < units_) continue;
      unit = 0;
      for (size_t k = loops_.size(); k-- > 0;) {
        host += loops_[k].host_stride;
        device += loops_[k].device_stride;
        if (++index[k] < loops_[k].extent) break;
        host -= loops_[k].host_stride * loops_[k].extent;
        device -= loops_[k].device_stride * loops_[k].extent;
        index[k] = 0;
      }
    }
  }

 private:
  std::vector<TransferLoop> loops_;
  int64_t units_;
};

/// Runs all units, over threads if `parallel` is given. `elements` is the size of a unit.
template <typename Body>
void run_units(const OuterLoops& outer, int64_t elements, const ParallelFor& parallel, const Body& body) {
  const int64_t count = outer.count();
  if (!parallel || count * elements < 2 * kGrain) {
    outer.run(0, count, body);
    return;
  }
  parallel(count, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, elements)),
           [&](int64_t begin, int64_t end) { outer.run(begin, end, body); });
}

template <typename T>
void gather(const char* source, int64_t stride, char* target, int64_t count) {
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

template <typename T>
void scatter(const char* source, char* target, int64_t stride, int64_t count) {
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  for (int64_t i = 0; i < count; ++i) to[i * stride] = from[i];
}

void gather_bytes(const char* source, int64_t stride, char* target, int64_t count, int bytes) {
  switch (bytes) {
    case 1: return gather<uint8_t>(source, stride, target, count);
    case 2: return gather<uint16_t>(source, stride, target, count);
    case 4: return gather<uint32_t>(source, stride, target, count);
    default: return gather<uint64_t>(source, stride, target, count);
  }
}

void scatter_bytes(const char* source, char* target, int64_t stride, int64_t count, int bytes) {
  switch (bytes) {
    case 1: return scatter<uint8_t>(source, target, stride, count);
    case 2: return scatter<uint16_t>(source, target, stride, count);
    case 4: return scatter<uint32_t>(source, target, stride, count);
    default: return scatter<uint64_t>(source, target, stride, count);
  }
}

/// Both sides contiguous along the innermost loop.
void run_contiguous(const Ends& ends, std::vector<TransferLoop> loops, const ParallelFor& parallel) {
  const int64_t extent = loops.back().extent;
  loops.pop_back();
  const int64_t block = std::min(extent, kBlock);
  const OuterLoops outer(std::move(loops), (extent + block - 1) / block);
  const auto convert = ends.to_device ? ends.converter.encode : ends.converter.decode;
  run_units(outer, block, parallel, [&](int64_t host, int64_t device, int64_t unit) {
    const int64_t start = unit * block;
    const int64_t count = std::min(block, extent - start);
    char* host_at = ends.host_at(host + start);
    char* device_at = ends.device_at(device + start);
    if (ends.to_device) {
      convert(host_at, device_at, count);
    } else {
      convert(device_at, host_at, count);
    }
  });
}

constexpr int64_t kTileRows = 32;
constexpr int64_t kTileColumns = 64;

/// The host is contiguous along loop `rows`, the device along loop `columns`: by tiles that are
/// transposed on the host's side, where the elements still have the host's width.
void run_transposed(const Ends& ends, const TransferLoop& rows, const TransferLoop& columns,
                    std::vector<TransferLoop> loops, const ParallelFor& parallel) {
  const int64_t row_tiles = (rows.extent + kTileRows - 1) / kTileRows;
  const OuterLoops outer(std::move(loops), row_tiles);
  const int bytes = ends.converter.host_bytes;
  run_units(outer, std::min(kTileRows, rows.extent) * columns.extent, parallel,
            [&](int64_t host, int64_t device, int64_t unit) {
    alignas(64) char tile[kTileRows * kTileColumns * 8];
    const int64_t row = unit * kTileRows;
    const int64_t row_count = std::min(kTileRows, rows.extent - row);
    host += row * rows.host_stride;
    device += row * rows.device_stride;
    for (int64_t column = 0; column < columns.extent; column += kTileColumns) {
      const int64_t count = std::min(kTileColumns, columns.extent - column);
      const int64_t host_tile = host + column * columns.host_stride;
      const int64_t device_tile = device + column;
      const auto tile_row = [&](int64_t r) { return tile + r * kTileColumns * bytes; };
      if (ends.to_device) {
        for (int64_t c = 0; c < count; ++c) {
          const char* source = ends.host_at(host_tile + c * columns.host_stride);
          if (rows.host_stride == 1) {
            scatter_bytes(source, tile + c * bytes, kTileColumns, row_count, bytes);
          } else {
            for (int64_t r = 0; r < row_count; ++r) {
              std::memcpy(tile_row(r) + c * bytes, source + r * rows.host_stride * bytes, bytes);
            }
          }
        }
        for (int64_t r = 0; r < row_count; ++r) {
          ends.converter.encode(tile_row(r), ends.device_at(device_tile + r * rows.device_stride), count);
        }
      } else {
        for (int64_t r = 0; r < row_count; ++r) {
          ends.converter.decode(ends.device_at(device_tile + r * rows.device_stride), tile_row(r), count);
        }
        for (int64_t c = 0; c < count; ++c) {
          gather_bytes(tile + c * bytes, kTileColumns, ends.host_at(host_tile + c * columns.host_stride),
                       row_count, bytes);
        }
      }
    }
  });
}

/// Any strides: gathers a block of the innermost loop, converts, scatters.
void run_strided(const Ends& ends, std::vector<TransferLoop> loops, const ParallelFor& parallel) {
  constexpr int64_t kRun = 256;
  const TransferLoop inner = loops.back();
  loops.pop_back();
  const OuterLoops outer(std::move(loops), (inner.extent + kRun - 1) / kRun);
  const Converter& converter = ends.converter;
  run_units(outer, std::min(inner.extent, kRun), parallel, [&](int64_t host, int64_t device, int64_t unit) {
    alignas(64) char values[kRun * 8];
    alignas(64) char codes[kRun * 8];
    const int64_t start = unit * kRun;
    const int64_t count = std::min(kRun, inner.extent - start);
    char* host_at = ends.host_at(host + start * inner.host_stride);
    char* device_at = ends.device_at(device + start * inner.device_stride);
    if (ends.to_device) {
      gather_bytes(host_at, inner.host_stride, values, count, converter.host_bytes);
      converter.encode(values, codes, count);
      scatter_bytes(codes, device_at, inner.device_stride, count, converter.code_bytes);
    } else {
      gather_bytes(device_at, inner.device_stride, codes, count, converter.code_bytes);
      converter.decode(codes, values, count);
      scatter_bytes(values, host_at, inner.host_stride, count, converter.host_bytes);
    }
  });
}

/// Sub-byte formats: one code at a time, since neighbours share bytes. On one thread when it writes them.
void run_packed(const Ends& ends, std::vector<TransferLoop> loops, const ParallelFor& parallel) {
  constexpr int64_t kRun = 256;
  const TransferLoop inner = loops.back();
  loops.pop_back();
  const OuterLoops outer(std::move(loops), (inner.extent + kRun - 1) / kRun);
  const Converter& converter = ends.converter;
  auto* packed = reinterpret_cast<uint8_t*>(ends.device);
  run_units(outer, std::min(inner.extent, kRun), ends.to_device ? ParallelFor{} : parallel,
            [&](int64_t host, int64_t device, int64_t unit) {
    alignas(64) char values[kRun * 8];
    uint8_t codes[kRun];
    const int64_t start = unit * kRun;
    const int64_t count = std::min(kRun, inner.extent - start);
    char* host_at = ends.host_at(host + start * inner.host_stride);
    const int64_t first = ends.device_offset + device + start * inner.device_stride;
    if (ends.to_device) {
      gather_bytes(host_at, inner.host_stride, values, count, converter.host_bytes);
      converter.encode(values, codes, count);
      for (int64_t i = 0; i < count; ++i) {
        detail::write_packed(packed, first + i * inner.device_stride, converter.code_bits, codes[i]);
      }
    } else {
      for (int64_t i = 0; i < count; ++i) {
        codes[i] = detail::read_packed(packed, first + i * inner.device_stride, converter.code_bits);
      }
      converter.decode(codes, values, count);
      scatter_bytes(values, host_at, inner.host_stride, count, converter.host_bytes);
    }
  });
}

/// Leaves out loops of extent 1, sorts by device stride, merges loops that are one on both sides.
std::vector<TransferLoop> normalise(const TransferLoop* loops, size_t count, int64_t* host, int64_t* device) {
  std::vector<TransferLoop> sorted;
  sorted.reserve(count + 1);
  for (size_t k = 0; k < count; ++k) {
    TransferLoop loop = loops[k];
    if (loop.extent == 1) continue;
    if (loop.device_stride < 0 || (loop.device_stride == 0 && loop.host_stride < 0)) {
      *host += (loop.extent - 1) * loop.host_stride;
      *device += (loop.extent - 1) * loop.device_stride;
      loop.host_stride = -loop.host_stride;
      loop.device_stride = -loop.device_stride;
    }
    sorted.push_back(loop);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const TransferLoop& a, const TransferLoop& b) {
    return a.device_stride != b.device_stride ? a.device_stride > b.device_stride
                                              : a.host_stride > b.host_stride;
  });
  std::vector<TransferLoop> merged;
  for (const TransferLoop& loop : sorted) {
    if (!merged.empty() && merged.back().device_stride == loop.device_stride * loop.extent &&
        merged.back().host_stride == loop.host_stride * loop.extent) {
      merged.back() = {merged.back().extent * loop.extent, loop.host_stride, loop.device_stride};
    } else {
      merged.push_back(loop);
    }
  }
  if (merged.empty()) merged.push_back({1, 1, 1});
  return merged;
}

}  // namespace

void run_transfer(const TransferLoop* loops, size_t loop_count, HostDtype dtype, DataFormat format, void* host,
                  void* device, int64_t device_offset, bool to_device, const ParallelFor& parallel) {
  Ends ends{detail::find_converter(dtype, format), static_cast<char*>(host), static_cast<char*>(device),
            device_offset, to_device};
  for (size_t k = 0; k < loop_count; ++k) {
    const TransferLoop& loop = loops[k];
    if (loop.extent < 0) {
      throw std::invalid_argument("loop " + std::to_string(k) + " of a transfer has the negative extent " +
                                  std::to_string(loop.extent));
    }
    if (loop.extent > 1 && (to_device ? loop.device_stride : loop.host_stride) == 0) {
      throw std::invalid_argument("loop " + std::to_string(k) + " of a transfer of extent " +
                                  std::to_string(loop.extent) + " writes with stride 0; " +
                                  "only the side that is read may repeat elements");
    }
  }
  for (size_t k = 0; k < loop_count; ++k) {
    if (loops[k].extent == 0) return;
  }
  int64_t host_start = 0;
  int64_t device_start = 0;
  std::vector<TransferLoop> nest = normalise(loops, loop_count, &host_start, &device_start);
  ends.host = ends.host_at(host_start);
  if (ends.converter.code_bits < 8) {
    ends.device_offset += device_start;
    return run_packed(ends, std::move(nest), parallel);
  }
  ends.device = ends.device_at(device_offset + device_start);
  if (nest.back().device_stride == 1 && nest.back().host_stride == 1) {
    return run_contiguous(ends, std::move(nest), parallel);
  }
  if (nest.back().device_stride == 1) {
    for (size_t k = 0; k + 1 < nest.size(); ++k) {
      if (nest[k].host_stride != 1 && nest[k].host_stride != -1) continue;
      const TransferLoop rows = nest[k];
      const TransferLoop columns = nest.back();
      nest.pop_back();
      nest.erase(nest.begin() + static_cast<std::ptrdiff_t>(k));
      if (rows.host_stride == 1) return run_transposed(ends, rows, columns, std::move(nest), parallel);
      // Count up on the host; the device does not mind.
      TransferLoop turned = {rows.extent, 1, -rows.device_stride};
      ends.host = ends.host_at((rows.extent - 1) * rows.host_stride);
      ends.device = ends.device_at((rows.extent - 1) * rows.device_stride);
      return run_transposed(ends, turned, columns, std::move(nest), parallel);
    }
  }
  run_strided(ends, std::move(nest), parallel);
}

}  // namespace spyre::layout
