// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

#include "spyre/runtime/runtime.h"

/// Storages: PyTorch's DataPtr around a runtime allocation.
namespace spyre::aten {

/// The registered allocator of the device.
c10::DeviceAllocator* device_allocator();

/// Takes ownership; the DataPtr's address is the allocation's handle, its context the allocation.
c10::DataPtr wrap_allocation(runtime::Allocation* allocation);

/// A block for `size_bytes` bytes without a type so far, on the device's current stream. What lies
/// in it are bytes (SENINT8); locate() gives it a type and layout at the first typed use.
runtime::Allocation* allocate_raw(int device, int64_t size_bytes);

/// A typed block on the device's current stream.
runtime::Allocation* allocate_typed(int device, const layout::Layout& layout,
                                    layout::HostDtype dtype, int64_t size_bytes);

runtime::Allocation* allocate_interned(int device, const runtime::InternedLayout& layout,
                                       int64_t size_bytes);

/// The allocation that a storage's pointer lies in, and how many host bytes into it; {nullptr, 0}
/// for a storage without memory.
struct StorageLocation {
  runtime::Allocation* allocation = nullptr;
  int64_t byte_offset = 0;
};
StorageLocation locate_storage(const c10::StorageImpl& storage);

/// Host bytes [begin, begin + size) of an allocation, whatever its layout: the slow, general way.
/// Blocks. write_bytes changes no device element whose host bytes are unchanged, so values that the
/// host dtype cannot express survive beside it.
void read_bytes(const runtime::Allocation* allocation, int64_t begin, int64_t size, void* to);
void write_bytes(runtime::Allocation* allocation, int64_t begin, int64_t size, const void* from);

/// Gives a raw allocation a dtype and layout, keeping its bytes. Thread-safe.
void give_type(runtime::Allocation* allocation, const layout::Layout& layout,
               layout::HostDtype dtype);

/// Lays an allocation out anew, keeping the values of its elements.
void change_layout(runtime::Allocation* allocation, const layout::Layout& layout);

/// Makes `to` (same device, same logical size) hold the same device bytes under the same layout.
/// False if sizes or devices differ.
bool copy_whole(runtime::Allocation* to, const runtime::Allocation* from);

/// Grows or shrinks a storage, keeping the bytes that remain. `layout` (optional) is for the new
/// block.
void resize_storage(c10::StorageImpl& storage, int64_t size_bytes,
                    const layout::Layout* layout = nullptr,
                    const layout::HostDtype* dtype = nullptr);

/// Whether an address lies in memory of the pinning host allocator.
bool is_pinned_memory(const void* data);

}  // namespace spyre::aten
