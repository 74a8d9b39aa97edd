// SPDX-License-Identifier: Apache-2.0
// The device's memory as c10 sees it: DataPtrs over runtime allocations, and
// torch.accelerator.memory_*.
#include <c10/core/CachingDeviceAllocator.h>

#include "torch/debug.h"
#include "torch/device.h"
#include "torch/errors.h"
#include "torch/memory.h"
#include "torch/tensor.h"

namespace spyre::aten {
namespace {

void delete_allocation(void* context) {
  // A forked child has no device behind its handles, and nothing to give back.
  if (context == nullptr || runtime::in_bad_fork()) return;
  runtime::free(static_cast<runtime::Allocation*>(context));
}

void set_stat(c10::CachingAllocator::StatArray& stat, const runtime::Gauge& gauge) {
  auto& total = stat[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  total.current = gauge.current;
  total.peak = gauge.peak;
  total.allocated = gauge.raised;
  total.freed = gauge.lowered;
}

class SpyreAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t size_bytes) override {
    const int device = runtime::current_device();
    if (size_bytes == 0) {
      return c10::DataPtr(nullptr, nullptr, &delete_allocation,
                          c10::Device(kSpyre, static_cast<c10::DeviceIndex>(device)));
    }
    return wrap_allocation(allocate_raw(device, static_cast<int64_t>(size_bytes)));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_allocation; }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    // Handles are not contexts, so a DataPtr of ours cannot be rebuilt from its address alone.
    return data.get_context() == nullptr;
  }
  void copy_data(void* to, const void* from, std::size_t size_bytes) const override {
    runtime::Allocation* target = runtime::find(to);
    const runtime::Allocation* source = runtime::find(from);
    TORCH_CHECK_VALUE(target != nullptr && source != nullptr,
                      "copy_data expects two addresses in spyre memory, found ", to, " and ", from);
    const auto begin = static_cast<int64_t>(reinterpret_cast<uint64_t>(to) - target->handle);
    const auto source_begin =
        static_cast<int64_t>(reinterpret_cast<uint64_t>(from) - source->handle);
    if (begin == 0 && source_begin == 0 &&
        static_cast<int64_t>(size_bytes) == source->logical_bytes && copy_whole(target, source)) {
      return;
    }
    std::vector<char> bytes(size_bytes);
    read_bytes(source, source_begin, static_cast<int64_t>(size_bytes), bytes.data());
    write_bytes(target, begin, static_cast<int64_t>(size_bytes), bytes.data());
  }

  bool initialized() override { return runtime::is_initialized(); }
  void emptyCache(c10::MempoolId_t) override {
    if (runtime::is_initialized()) translated([] { runtime::empty_cache(); });
  }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    record_use(data, to_stream_id(stream));
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const int index = checked_device(device);
    c10::CachingDeviceAllocator::DeviceStats stats;
    if (!runtime::is_initialized()) return stats;
    const runtime::MemoryStats own = translated([&] { return runtime::memory_stats(index); });
    set_stat(stats.allocation, own.blocks);
    set_stat(stats.active, own.blocks);
    set_stat(stats.allocated_bytes, own.allocated);
    set_stat(stats.active_bytes, own.allocated);
    set_stat(stats.requested_bytes, own.allocated);
    set_stat(stats.reserved_bytes, own.reserved);
    stats.num_alloc_retries = own.retries;
    stats.num_ooms = own.ooms;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    const int index = checked_device(device);
    if (runtime::is_initialized()) {
      translated([&] { runtime::reset_accumulated_memory_stats(index); });
    }
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    const int index = checked_device(device);
    if (runtime::is_initialized()) translated([&] { runtime::reset_peak_memory_stats(index); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const int index = checked_device(device);
    int64_t free_bytes = 0;
    int64_t total_bytes = 0;
    translated([&] { runtime::memory_info(index, &free_bytes, &total_bytes); });
    return {static_cast<size_t>(free_bytes), static_cast<size_t>(total_bytes)};
  }
};

// Leaked: storages may be freed while static destructors run.
SpyreAllocator& allocator() {
  static auto& instance = *new SpyreAllocator;
  return instance;
}

const bool registered = [] {
  c10::SetAllocator(c10::DeviceType::PrivateUse1, &allocator());
  return true;
}();

runtime::StreamId stream_of(int device) {
  check_usable();
  if (C10_UNLIKELY(!runtime::is_initialized())) {
    SPYRE_DEBUG("opening spyre:" << device);
  }
  runtime::ensure_open(device);
  return runtime::current_stream(device);
}

}  // namespace

c10::DeviceAllocator* device_allocator() { return &allocator(); }

c10::DataPtr wrap_allocation(runtime::Allocation* allocation) {
  return c10::DataPtr(reinterpret_cast<void*>(allocation->handle), allocation, &delete_allocation,
                      c10::Device(kSpyre, static_cast<c10::DeviceIndex>(allocation->device)));
}

runtime::Allocation* allocate_raw(int device, int64_t size_bytes) {
  runtime::Allocation* allocation =
      allocate_typed(device, layout::Layout::row_major({size_bytes}, layout::HostDtype::kInt8),
                     layout::HostDtype::kInt8, size_bytes);
  allocation->raw = true;
  return allocation;
}

runtime::Allocation* allocate_typed(int device, const layout::Layout& layout,
                                    layout::HostDtype dtype, int64_t size_bytes) {
  return translated(
      [&] { return runtime::allocate(stream_of(device), layout, dtype, size_bytes); });
}

runtime::Allocation* allocate_interned(int device, const runtime::InternedLayout& layout,
                                       int64_t size_bytes) {
  return translated([&] { return runtime::allocate(stream_of(device), layout, size_bytes); });
}

StorageLocation locate_storage(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get_deleter() == &delete_allocation && data.get_context() != nullptr) {
    return {static_cast<runtime::Allocation*>(data.get_context()), 0};
  }
  // Storages made of bare addresses (at::from_blob in pickling and in storage indexing).
  if (data.get() == nullptr) return {};
  runtime::Allocation* allocation = runtime::find(data.get());
  TORCH_CHECK_VALUE(allocation != nullptr, "address ", data.get(),
                    " does not lie in spyre memory, or its tensor was freed");
  return {allocation,
          static_cast<int64_t>(reinterpret_cast<uint64_t>(data.get()) - allocation->handle)};
}

}  // namespace spyre::aten
