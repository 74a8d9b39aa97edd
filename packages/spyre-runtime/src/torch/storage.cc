// SPDX-License-Identifier: Apache-2.0
// What storages do beyond holding tensors: bytes read and written whatever the layout, a type given
// to raw bytes, resizing, and laying values out anew.
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "torch/copy.h"
#include "torch/copy_program.h"
#include "torch/debug.h"
#include "torch/device.h"
#include "torch/errors.h"
#include "torch/memory.h"
#include "torch/tensor.h"

namespace spyre::aten {
namespace {

int64_t itemsize(const runtime::Allocation& allocation) {
  return layout::host_itemsize(allocation.dtype);
}

/// Elements [first, first + count) of an allocation as host elements of its own dtype. Blocks.
void read_elements(const runtime::Allocation* allocation, int64_t first, int64_t count, void* to) {
  if (count == 0) return;
  translated([&] {
    runtime::copy_to_host(runtime::current_stream(allocation->device), allocation, first, {count},
                          {1}, {to, {1}}, /*blocking=*/true);
  });
}

void write_elements(runtime::Allocation* allocation, int64_t first, int64_t count,
                    const void* from) {
  if (count == 0) return;
  translated([&] {
    runtime::copy_to_device(runtime::current_stream(allocation->device), allocation, first, {count},
                            {1}, {const_cast<void*>(from), {1}}, /*blocking=*/true);
  });
}

/// Elements [first, first + count) whose flag is set, in one pass on the device.
void write_where(runtime::Allocation* allocation, int64_t first, int64_t count, const char* flags,
                 const void* from) {
  const auto dense = [&](layout::HostDtype dtype) {
    return wrap_allocation(allocate_typed(
        allocation->device, translated([&] { return layout::Layout::row_major({count}, dtype); }),
        dtype, count * layout::host_itemsize(dtype)));
  };
  const c10::DataPtr mask_owner = dense(layout::HostDtype::kBool);
  const c10::DataPtr value_owner = dense(allocation->dtype);
  auto* mask = static_cast<runtime::Allocation*>(mask_owner.get_context());
  auto* values = static_cast<runtime::Allocation*>(value_owner.get_context());
  write_elements(mask, 0, count, flags);
  write_elements(values, 0, count, from);
  launch_masked_store(mask, values, {allocation, first}, count);
}

std::mutex& type_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

}  // namespace

void read_bytes(const runtime::Allocation* allocation, int64_t begin, int64_t size, void* to) {
  if (size == 0) return;
  const int64_t item = itemsize(*allocation);
  const int64_t first = begin / item;
  const int64_t last = std::min((begin + size + item - 1) / item, allocation->logical_bytes / item);
  std::vector<char> elements(static_cast<size_t>((last - first) * item));
  read_elements(allocation, first, last - first, elements.data());
  const int64_t skip = begin - first * item;
  const int64_t present = std::min<int64_t>(size, static_cast<int64_t>(elements.size()) - skip);
  if (present > 0) std::memcpy(to, elements.data() + skip, static_cast<size_t>(present));
  // Bytes after the last whole element of a storage of odd size have no place on the device.
  if (present < size) {
    std::memset(static_cast<char*>(to) + std::max<int64_t>(present, 0), 0,
                static_cast<size_t>(size - std::max<int64_t>(present, 0)));
  }
}

void write_bytes(runtime::Allocation* allocation, int64_t begin, int64_t size, const void* from) {
  if (size == 0) return;
  const int64_t item = itemsize(*allocation);
  if (item == 1) {
    write_elements(allocation, begin, size, from);
    return;
  }
  const int64_t first = begin / item;
  const int64_t last = std::min((begin + size + item - 1) / item, allocation->logical_bytes / item);
  const int64_t count = last - first;
  if (count <= 0) return;
  std::vector<char> former(static_cast<size_t>(count * item));
  read_elements(allocation, first, count, former.data());
  std::vector<char> changed = former;
  const int64_t skip = begin - first * item;
  std::memcpy(changed.data() + skip, from,
              static_cast<size_t>(std::min<int64_t>(size, count * item - skip)));
  // Changed elements only: another one may hold a value that its host dtype cannot express.
  std::vector<char> differs(static_cast<size_t>(count));
  int64_t runs = 0;
  for (int64_t i = 0; i < count; ++i) {
    differs[i] = std::memcmp(&former[i * item], &changed[i * item], static_cast<size_t>(item)) != 0;
    runs += differs[i] != 0 && (i == 0 || differs[i - 1] == 0);
  }
  constexpr int64_t kFewRuns = 16;
  if (runs > kFewRuns) {
    write_where(allocation, first, count, differs.data(), changed.data());
    return;
  }
  for (int64_t i = 0; i < count;) {
    if (differs[i] == 0) {
      ++i;
      continue;
    }
    int64_t end = i + 1;
    while (end < count && differs[end] != 0) ++end;
    write_elements(allocation, first + i, end - i, &changed[i * item]);
    i = end;
  }
}

void give_type(runtime::Allocation* allocation, const layout::Layout& layout,
               layout::HostDtype dtype) {
  const std::lock_guard lock(type_mutex());
  if (!allocation->raw || allocation->dtype == dtype) return;
  SPYRE_DEBUG(allocation->logical_bytes << " raw bytes become " << layout::host_dtype_name(dtype)
                                        << " in " << layout.repr());
  // Work on other streams may still read or write the bytes.
  translated([&] { runtime::synchronize_device(allocation->device); });
  const int64_t size = allocation->logical_bytes;
  std::vector<char> bytes(static_cast<size_t>(size));
  read_bytes(allocation, 0, size, bytes.data());
  translated([&] { runtime::relayout(allocation, layout, dtype); });
  write_elements(allocation, 0, size / layout::host_itemsize(dtype), bytes.data());
  // One-byte dtypes are how storages look at bytes: the final type may be yet to come.
  allocation->raw = layout::host_itemsize(dtype) == 1 && dtype != layout::HostDtype::kBool;
}

void change_layout(runtime::Allocation* allocation, const layout::Layout& layout) {
  const std::lock_guard lock(type_mutex());
  const int device = allocation->device;
  SPYRE_DEBUG("new layout: " << allocation->layout->repr() << " becomes " << layout.repr());
  translated([&] { runtime::synchronize_device(device); });
  const runtime::StreamId stream = runtime::current_stream(device);
  runtime::Allocation* former =
      allocate_typed(device, allocation->layout, allocation->dtype, allocation->logical_bytes);
  const c10::DataPtr owner = wrap_allocation(former);
  translated([&] {
    runtime::copy_bytes(stream, former, allocation);
    runtime::relayout(allocation, layout, allocation->dtype);
  });
  copy_elements(allocation, former, allocation->logical_bytes / itemsize(*allocation));
  allocation->raw = false;
}

bool copy_whole(runtime::Allocation* to, const runtime::Allocation* from) {
  if (to == from) return true;
  if (to->device != from->device || to->logical_bytes != from->logical_bytes) return false;
  if (to->layout_id != from->layout_id) {
    // Only bytes without a type may take on another's layout.
    if (!to->raw) return false;
    const std::lock_guard lock(type_mutex());
    translated([&] { runtime::relayout(to, from->layout, from->dtype); });
    to->raw = from->raw;
  }
  translated([&] { runtime::copy_bytes(runtime::current_stream(to->device), to, from); });
  return true;
}

void resize_storage(c10::StorageImpl& storage, int64_t size_bytes, const layout::Layout* layout,
                    const layout::HostDtype* dtype) {
  TORCH_CHECK_VALUE(storage.resizable(), "this spyre storage cannot be resized");
  TORCH_CHECK_VALUE(size_bytes >= 0, "a storage cannot be resized to ", size_bytes, " bytes");
  const int device = checked_device(storage.device());
  if (size_bytes == 0) {
    storage.set_data_ptr_noswap(
        c10::DataPtr(nullptr, nullptr, device_allocator()->raw_deleter(), storage.device()));
    storage.set_nbytes(0);
    return;
  }
  const StorageLocation former = locate_storage(storage);
  runtime::Allocation* grown = nullptr;
  if (former.allocation != nullptr && !former.allocation->raw &&
      size_bytes % itemsize(*former.allocation) == 0) {
    const layout::HostDtype kept = former.allocation->dtype;
    const bool given = layout != nullptr && dtype != nullptr && *dtype == kept;
    grown = allocate_typed(
        device,
        given ? *layout
              : layout::Layout::row_major({size_bytes / layout::host_itemsize(kept)}, kept),
        kept, size_bytes);
  } else if (former.allocation == nullptr && layout != nullptr && dtype != nullptr) {
    grown = allocate_typed(device, *layout, *dtype, size_bytes);
  } else {
    grown = allocate_raw(device, size_bytes);
  }
  c10::DataPtr data = wrap_allocation(grown);
  if (former.allocation != nullptr) {
    const int64_t kept_bytes =
        std::min<int64_t>(static_cast<int64_t>(storage.nbytes()), size_bytes);
    if (grown->dtype == former.allocation->dtype && former.byte_offset == 0) {
      copy_elements(grown, former.allocation, kept_bytes / itemsize(*grown));
    } else {
      std::vector<char> bytes(static_cast<size_t>(kept_bytes));
      read_bytes(former.allocation, former.byte_offset, kept_bytes, bytes.data());
      write_bytes(grown, 0, kept_bytes, bytes.data());
    }
  }
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(static_cast<size_t>(size_bytes));
}

}  // namespace spyre::aten
