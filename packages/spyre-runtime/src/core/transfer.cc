// SPDX-License-Identifier: Apache-2.0
#include "spyre/layout/transfer.h"

#include <algorithm>
#include <array>

#include "core/device.h"

namespace spyre::runtime {
namespace {

[[noreturn]] void raise_bad_stream(StreamId stream, const Allocation* allocation) {
  throw ValueError("memory of spyre:" + std::to_string(allocation->device) +
                   " cannot be copied on a stream of spyre:" + std::to_string(stream.device));
}

void queue_pieces(StreamId stream, const Allocation* allocation, int64_t storage_offset,
                  const std::vector<int64_t>& size, const std::vector<int64_t>& stride,
                  const HostView& host, bool to_device, bool blocking) {
  if (stream.device != allocation->device) raise_bad_stream(stream, allocation);
  if (size.size() != stride.size() || size.size() != host.stride.size()) {
    throw ValueError("a copy between host and spyre needs as many strides as sizes: " +
                     std::to_string(size.size()) + " sizes, " + std::to_string(stride.size()) +
                     " device strides, " + std::to_string(host.stride.size()) + " host strides");
  }
  Device& owner = device(stream.device);
  const bool is_empty = std::find(size.begin(), size.end(), 0) != size.end();
  if (!is_empty) {
    std::vector<layout::TransferPiece> pieces;
    try {
      pieces = layout::transfer_plan(*allocation->layout, size, host.stride, stride, storage_offset,
                                     to_device ? layout::Access::kWrite : layout::Access::kRead);
    } catch (const std::out_of_range& error) {
      throw ValueError(error.what());
    } catch (const std::invalid_argument& error) {
      throw ValueError(error.what());
    }
    const int item = layout::host_itemsize(allocation->dtype);
    spyre_stream* handle = owner.stream(stream.id);
    note_use(allocation, stream);
    std::vector<spyre_transfer_loop> loops;
    for (const layout::TransferPiece& piece : pieces) {
      loops.clear();
      for (const layout::TransferLoop& loop : piece.loops) {
        loops.push_back({loop.extent, loop.host_stride, loop.device_stride});
      }
      spyre_transfer transfer{};
      transfer.struct_size = sizeof(transfer);
      transfer.to_device = to_device ? 1 : 0;
      transfer.host_dtype = static_cast<int32_t>(allocation->dtype);
      transfer.device_format = static_cast<int32_t>(allocation->layout->format());
      transfer.loop_count = static_cast<uint32_t>(loops.size());
      transfer.loops = loops.data();
      transfer.host = static_cast<char*>(host.data) + piece.host_offset * item;
      transfer.device_address = allocation->device_address;
      transfer.device_offset = piece.device_offset;
      DriverCall call;
      call.check(owner.api.transfer(handle, &transfer, call));
    }
  }
  if (blocking) synchronize(stream);
}

}  // namespace

void copy_to_device(StreamId stream, Allocation* to, int64_t storage_offset,
                    const std::vector<int64_t>& size, const std::vector<int64_t>& stride,
                    const HostView& from, bool blocking) {
  queue_pieces(stream, to, storage_offset, size, stride, from, /*to_device=*/true, blocking);
}

void copy_to_host(StreamId stream, const Allocation* from, int64_t storage_offset,
                  const std::vector<int64_t>& size, const std::vector<int64_t>& stride,
                  const HostView& to, bool blocking) {
  queue_pieces(stream, from, storage_offset, size, stride, to, /*to_device=*/false, blocking);
}

void copy_bytes(StreamId stream, Allocation* to, const Allocation* from) {
  if (to->device != from->device || to->physical_bytes != from->physical_bytes) {
    throw ValueError("a copy of device bytes needs two allocations of one device and size: spyre:" +
                     std::to_string(from->device) + " with " +
                     std::to_string(from->physical_bytes) + " bytes to spyre:" +
                     std::to_string(to->device) + " with " + std::to_string(to->physical_bytes));
  }
  if (stream.device != to->device) raise_bad_stream(stream, to);
  if (to == from || to->physical_bytes == 0) return;
  Device& owner = device(stream.device);
  spyre_stream* handle = owner.stream(stream.id);
  note_use(to, stream);
  note_use(from, stream);
  DriverCall call;
  call.check(owner.api.memory_copy(handle, to->device_address, from->device_address,
                                   static_cast<uint64_t>(to->physical_bytes), call));
}

}  // namespace spyre::runtime
