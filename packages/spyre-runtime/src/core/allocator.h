// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/handle_space.h"
#include "spyre/driver/driver.h"
#include "spyre/runtime/runtime.h"

namespace spyre::runtime {

class Device;

/// The stream-ordered caching allocator of one device.
///
/// Sizes are rounded up to size classes, eight to a doubling. Blocks of up to 256 KiB are cut from
/// slabs, larger ones are driver allocations of their own. A freed block goes to the free list of
/// its stream and class, and comes back from there without any wait: work of one stream is ordered.
/// If other streams used it, events of theirs must pass first. Memory returns to the driver when it
/// runs short, or by empty_cache().
class Allocator {
 public:
  explicit Allocator(Device& device);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  Allocation* allocate(StreamId stream, const InternedLayout& layout, int64_t logical_bytes);
  void free(Allocation* allocation);
  void relayout(Allocation* allocation, const InternedLayout& layout);
  void empty_cache();
  MemoryStats stats() const;
  void reset_peaks();
  void reset_totals();
  void memory_info(int64_t* free_bytes, int64_t* total_bytes) const;

  static void record_use(const Allocation* allocation, int stream);

 private:
  struct Slab;
  struct Block;
  struct Pending;
  /// Device memory of a block: changes owner as a whole in relayout().
  struct Memory {
    uint64_t address = 0;
    int64_t bytes = 0;
    int size_class = 0;
    Slab* slab = nullptr;
  };

  Block* take(int stream, int64_t bytes, int64_t logical_bytes);
  Block* take_cached(int stream, int size_class, bool is_large);
  Block* make_block(int stream, int size_class, int64_t asked);
  Memory carve(int size_class, int64_t bytes);
  uint64_t driver_alloc(int64_t bytes, int64_t asked);
  void give_back(Block* block);
  void push_free(Block* block);
  void poll_pending(bool wait);
  void release_cached();
  spyre_event* record_event(int stream);
  void wait_until_reached(spyre_event* event) const;
  void drain(int stream);

  Device& device_;
  mutable std::mutex mutex_;
  struct FreeLists;
  std::vector<std::unique_ptr<FreeLists>> free_;  ///< by stream, made on first use
  std::vector<Slab*> open_slabs_;                 ///< by size class: the one to carve from
  std::vector<Pending> pending_;
  std::vector<spyre_event*> spare_events_;
  MemoryStats stats_{};
};

}  // namespace spyre::runtime
