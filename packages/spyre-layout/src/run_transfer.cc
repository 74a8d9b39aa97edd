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

/// The loops around a unit of work, outermost first, numbered row-major.
class OuterLoops {
 public:
  explicit OuterLoops(std::vector<TransferLoop> loops) : loops_(std::move(loops)) {}

  int64_t count() const {
    int64_t count = 1;
    for (const TransferLoop& loop : loops_) count *= loop.extent;
    return count;
  }

  /// Calls body(host offset, device offset, indices) for numbers begin to end.
  template <typename Body>
  void run(int64_t begin, int64_t end, const Body& body) const {
    int64_t number = begin;
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
      body(host, device, index.data());
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
};

/// The loop over blocks of `block` iterations of a loop.
TransferLoop blocks_of(const TransferLoop& loop, int64_t block) {
  return {(loop.extent + block - 1) / block, loop.host_stride * block, loop.device_stride * block};
}

/// Iterations in block number `index`.
int64_t block_size(const TransferLoop& loop, int64_t block, int64_t index) {
  return std::min(block, loop.extent - index * block);
}

/// Runs all units, over threads if `parallel` is given. `elements` is the size of a unit.
template <typename Body>
void run_units(const OuterLoops& outer, int64_t elements, const ParallelFor& parallel,
               const Body& body) {
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

template <typename T>
void transpose_elements(const char* source, int64_t source_stride, char* target,
                        int64_t target_stride, int64_t rows, int64_t columns) {
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * target_stride + r] = from[r * source_stride + c];
  }
}

void transpose_bytes(const char* source, int64_t source_stride, char* target, int64_t target_stride,
                     int64_t rows, int64_t columns, int bytes) {
  const detail::VectorKernels& kernels = detail::vector_kernels();
  switch (bytes) {
    case 1:
      return transpose_elements<uint8_t>(source, source_stride, target, target_stride, rows,
                                         columns);
    case 2:
      return kernels.transpose_16(source, source_stride, target, target_stride, rows, columns);
    case 4:
      return kernels.transpose_32(source, source_stride, target, target_stride, rows, columns);
    default:
      return transpose_elements<uint64_t>(source, source_stride, target, target_stride, rows,
                                          columns);
  }
}

// How much of a loop is done before the next one advances. Where host and device disagree about
// which loop is the innermost, every step touches another page on one side or the other; blocks of
// both keep the number of pages in turn within the reach of the TLB.
constexpr int64_t kRunBlock = 16384;  // elements of one long contiguous run
constexpr int64_t kRowBlock = 16;     // short contiguous runs, consecutive on the device
constexpr int64_t kPatch = 256;       // rows and columns of a transposed patch
constexpr int64_t kTile = 64;         // rows and columns transposed at a time, in the L1 cache

/// Both sides contiguous along the innermost loop.
void run_contiguous(const Ends& ends, std::vector<TransferLoop> loops,
                    const ParallelFor& parallel) {
  const TransferLoop run = loops.back();
  loops.pop_back();
  const TransferLoop rows = loops.empty() ? TransferLoop{1, 0, 0} : loops.back();
  if (!loops.empty()) loops.pop_back();

  // Loops in the host's order, except that a block of rows which are neighbours on the device comes
  // last.
  const bool short_runs = run.extent <= kRunBlock / kRowBlock;
  const int64_t row_block = short_runs ? std::min(rows.extent, kRowBlock) : 1;
  const int64_t run_block = std::min(run.extent, kRunBlock);
  loops.push_back(blocks_of(rows, row_block));
  const auto magnitude = [](int64_t value) { return value < 0 ? -value : value; };
  size_t row_index = loops.size() - 1;
  while (row_index > 0 &&
         magnitude(loops[row_index - 1].host_stride) < magnitude(rows.host_stride)) {
    std::swap(loops[row_index], loops[row_index - 1]);
    --row_index;
  }
  loops.push_back(blocks_of(run, run_block));
  const size_t run_index = loops.size() - 1;
  const OuterLoops outer(std::move(loops));

  const auto convert = ends.to_device ? ends.converter.encode : ends.converter.decode;
  run_units(outer, row_block * run_block, parallel,
            [&](int64_t host, int64_t device, const int64_t* index) {
              const int64_t row_count = block_size(rows, row_block, index[row_index]);
              const int64_t count = block_size(run, run_block, index[run_index]);
              for (int64_t r = 0; r < row_count; ++r) {
                char* host_at = ends.host_at(host + r * rows.host_stride);
                char* device_at = ends.device_at(device + r * rows.device_stride);
                if (ends.to_device) {
                  convert(host_at, device_at, count);
                } else {
                  convert(device_at, host_at, count);
                }
              }
            });
}

/// A tile whose host is contiguous along rows and whose device is contiguous along columns:
/// transposed on the host's side, where elements still have the host's width.
void run_tile(const Ends& ends, int64_t host, int64_t device, int64_t row_count,
              int64_t column_count, int64_t row_device_stride, int64_t column_host_stride) {
  alignas(64) char tile[kTile * kTile * 8];
  const int bytes = ends.converter.host_bytes;
  if (ends.to_device) {
    transpose_bytes(ends.host_at(host), column_host_stride, tile, kTile, column_count, row_count,
                    bytes);
    for (int64_t r = 0; r < row_count; ++r) {
      ends.converter.encode(tile + r * kTile * bytes,
                            ends.device_at(device + r * row_device_stride), column_count);
    }
  } else {
    for (int64_t r = 0; r < row_count; ++r) {
      ends.converter.decode(ends.device_at(device + r * row_device_stride),
                            tile + r * kTile * bytes, column_count);
    }
    transpose_bytes(tile, kTile, ends.host_at(host), column_host_stride, row_count, column_count,
                    bytes);
  }
}

/// The host is contiguous along loop `rows`, the device along loop `columns`.
void run_transposed(const Ends& ends, const TransferLoop& rows, const TransferLoop& columns,
                    std::vector<TransferLoop> loops, const ParallelFor& parallel) {
  const size_t row_index = loops.size();
  const size_t column_index = loops.size() + 1;
  loops.push_back(blocks_of(rows, kPatch));
  loops.push_back(blocks_of(columns, kPatch));
  const OuterLoops outer(std::move(loops));
  const int64_t elements = std::min(kPatch, rows.extent) * std::min(kPatch, columns.extent);
  run_units(outer, elements, parallel, [&](int64_t host, int64_t device, const int64_t* index) {
    const int64_t row_count = block_size(rows, kPatch, index[row_index]);
    const int64_t column_count = block_size(columns, kPatch, index[column_index]);
    for (int64_t r = 0; r < row_count; r += kTile) {
      for (int64_t c = 0; c < column_count; c += kTile) {
        run_tile(ends, host + r + c * columns.host_stride, device + r * rows.device_stride + c,
                 std::min(kTile, row_count - r), std::min(kTile, column_count - c),
                 rows.device_stride, columns.host_stride);
      }
    }
  });
}

/// Any strides: gathers a block of the innermost loop, converts, scatters.
void run_strided(const Ends& ends, std::vector<TransferLoop> loops, const ParallelFor& parallel) {
  constexpr int64_t kRun = 256;
  const TransferLoop inner = loops.back();
  loops.pop_back();
  loops.push_back(blocks_of(inner, kRun));
  const size_t run_index = loops.size() - 1;
  const OuterLoops outer(std::move(loops));
  const Converter& converter = ends.converter;
  run_units(outer, std::min(inner.extent, kRun), parallel,
            [&](int64_t host, int64_t device, const int64_t* index) {
              alignas(64) char values[kRun * 8];
              alignas(64) char codes[kRun * 8];
              const int64_t count = block_size(inner, kRun, index[run_index]);
              char* host_at = ends.host_at(host);
              char* device_at = ends.device_at(device);
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

/// Sub-byte formats: one code at a time, since neighbours share bytes. On one thread when it writes
/// them.
void run_packed(const Ends& ends, std::vector<TransferLoop> loops, const ParallelFor& parallel) {
  constexpr int64_t kRun = 256;
  const TransferLoop inner = loops.back();
  loops.pop_back();
  loops.push_back(blocks_of(inner, kRun));
  const size_t run_index = loops.size() - 1;
  const OuterLoops outer(std::move(loops));
  const Converter& converter = ends.converter;
  auto* packed = reinterpret_cast<uint8_t*>(ends.device);
  run_units(outer, std::min(inner.extent, kRun), ends.to_device ? ParallelFor{} : parallel,
            [&](int64_t host, int64_t device, const int64_t* index) {
              alignas(64) char values[kRun * 8];
              uint8_t codes[kRun];
              const int64_t count = block_size(inner, kRun, index[run_index]);
              char* host_at = ends.host_at(host);
              const int64_t first = ends.device_offset + device;
              if (ends.to_device) {
                gather_bytes(host_at, inner.host_stride, values, count, converter.host_bytes);
                converter.encode(values, codes, count);
                for (int64_t i = 0; i < count; ++i) {
                  detail::write_packed(packed, first + i * inner.device_stride, converter.code_bits,
                                       codes[i]);
                }
              } else {
                for (int64_t i = 0; i < count; ++i) {
                  codes[i] = detail::read_packed(packed, first + i * inner.device_stride,
                                                 converter.code_bits);
                }
                converter.decode(codes, values, count);
                scatter_bytes(values, host_at, inner.host_stride, count, converter.host_bytes);
              }
            });
}

/// Leaves out loops of extent 1, sorts by device stride, merges loops that are one on both sides.
std::vector<TransferLoop> normalise(const TransferLoop* loops, size_t count, int64_t* host,
                                    int64_t* device) {
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

void run_transfer(const TransferLoop* loops, size_t loop_count, HostDtype dtype, DataFormat format,
                  void* host, void* device, int64_t device_offset, bool to_device,
                  const ParallelFor& parallel) {
  Ends ends{detail::find_converter(dtype, format), static_cast<char*>(host),
            static_cast<char*>(device), device_offset, to_device};
  for (size_t k = 0; k < loop_count; ++k) {
    const TransferLoop& loop = loops[k];
    if (loop.extent < 0) {
      throw std::invalid_argument("loop " + std::to_string(k) +
                                  " of a transfer has the negative extent " +
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
      if (rows.host_stride == 1)
        return run_transposed(ends, rows, columns, std::move(nest), parallel);
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
