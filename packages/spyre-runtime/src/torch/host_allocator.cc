// SPDX-License-Identifier: Apache-2.0
// Pinned host memory. The software device gains nothing from pinning, but a card does, and programs
// that pin must run: blocks are page aligned, known by address, and held until work that reads them
// is done.
#include <ATen/core/CachingHostAllocator.h>

#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include "torch/device.h"
#include "torch/errors.h"
#include "torch/memory.h"
#include "torch/tensor.h"

namespace spyre::aten {
namespace {

constexpr size_t kPageBytes = 4096;

struct Block {
  size_t size_bytes = 0;
  std::vector<runtime::Event> uses;  ///< work on the device that may still touch the block
};

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t size_bytes) override {
    if (size_bytes == 0) return {nullptr, nullptr, &delete_block, c10::DeviceType::CPU};
    const size_t rounded = (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    void* data = std::aligned_alloc(kPageBytes, rounded);
    TORCH_CHECK_WITH(OutOfMemoryError, data != nullptr, "cannot allocate ", size_bytes,
                     " bytes of pinned host memory");
    const std::lock_guard lock(mutex_);
    free_finished();
    blocks_[reinterpret_cast<uintptr_t>(data)].size_bytes = size_bytes;
    stats_.active_requests.increase(1);
    stats_.active_bytes.increase(static_cast<int64_t>(size_bytes));
    stats_.allocations.increase(1);
    stats_.allocated_bytes.increase(static_cast<int64_t>(size_bytes));
    ++stats_.num_host_alloc;
    return {data, data, &delete_block, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
  void copy_data(void* to, const void* from, std::size_t size_bytes) const override {
    default_copy_data(to, from, size_bytes);
  }

  bool record_event(void* address, void*, c10::Stream stream) override {
    const runtime::StreamId id = to_stream_id(stream);
    const std::lock_guard lock(mutex_);
    auto found = find_block(reinterpret_cast<uintptr_t>(address));
    if (found == blocks_.end()) return false;
    translated([&] {
      runtime::Event event(id.device);
      event.record(id);
      found->second.uses.push_back(std::move(event));
    });
    return true;
  }
  void empty_cache() override {
    const std::lock_guard lock(mutex_);
    free_finished();
  }
  at::HostStats get_stats() override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_accumulated_stats() override {
    const std::lock_guard lock(mutex_);
    for (auto* stat : all_stats()) stat->reset_accumulated();
  }
  void reset_peak_stats() override {
    const std::lock_guard lock(mutex_);
    for (auto* stat : all_stats()) stat->reset_peak();
  }

  bool owns(const void* address) {
    const std::lock_guard lock(mutex_);
    return find_block(reinterpret_cast<uintptr_t>(address)) != blocks_.end();
  }

 private:
  static void delete_block(void* data);

  using Blocks = std::map<uintptr_t, Block>;

  Blocks::iterator find_block(uintptr_t address) {
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return blocks_.end();
    auto found = std::prev(after);
    return address < found->first + found->second.size_bytes ? found : blocks_.end();
  }

  void release(void* data) {
    if (data == nullptr) return;
    const std::lock_guard lock(mutex_);
    auto found = blocks_.find(reinterpret_cast<uintptr_t>(data));
    if (found == blocks_.end()) return;
    const auto size = static_cast<int64_t>(found->second.size_bytes);
    stats_.active_requests.decrease(1);
    stats_.active_bytes.decrease(size);
    freed_.push_back({found->first, std::move(found->second)});
    blocks_.erase(found);
    free_finished();
  }

  void free_finished() {
    for (auto it = freed_.begin(); it != freed_.end();) {
      auto& uses = it->second.uses;
      while (!uses.empty() && (runtime::in_bad_fork() || uses.back().query())) uses.pop_back();
      if (!uses.empty()) {
        ++it;
        continue;
      }
      stats_.allocations.decrease(1);
      stats_.allocated_bytes.decrease(static_cast<int64_t>(it->second.size_bytes));
      ++stats_.num_host_free;
      std::free(reinterpret_cast<void*>(it->first));
      it = freed_.erase(it);
    }
  }

  std::vector<c10::CachingAllocator::Stat*> all_stats() {
    return {&stats_.active_requests, &stats_.active_bytes, &stats_.allocations,
            &stats_.allocated_bytes};
  }

  std::mutex mutex_;
  Blocks blocks_;
  std::list<std::pair<uintptr_t, Block>> freed_;
  at::HostStats stats_;
};

// Leaked: tensors may be freed while static destructors run.
PinnedAllocator& pinned_allocator() {
  static auto& allocator = *new PinnedAllocator;
  return allocator;
}

void PinnedAllocator::delete_block(void* data) { pinned_allocator().release(data); }

const bool registered = [] {
  at::setHostAllocator(kSpyre, &pinned_allocator());
  return true;
}();

}  // namespace

bool is_pinned_memory(const void* data) { return pinned_allocator().owns(data); }

}  // namespace spyre::aten
