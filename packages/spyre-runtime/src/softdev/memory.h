// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <shared_mutex>

#include "softdev/thread_pool.h"
#include "softdev/vm/packed.h"

namespace spyre::softdev {

/// The software device's memory: host pages. An address is the host address of the byte.
class Memory {
 public:
  /// `total_bytes` is what the device has; `max_allocation_bytes` its largest segment. `pool` must
  /// outlive the memory: it takes part in faulting pages in.
  Memory(uint64_t total_bytes, uint64_t max_allocation_bytes, ThreadPool& pool);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Throws DriverError(SPYRE_OUT_OF_MEMORY) when the device, or the host beneath it, has too
  /// little left: the host must never have to kill the process. So large allocations get their
  /// pages at once, and what the host says is left is true for the next one.
  uint64_t alloc(uint64_t bytes);
  void free(uint64_t address);

  /// Bytes from `address` to the end of the allocation that it lies in; 0 if it lies in none.
  uint64_t bytes_from(uint64_t address) const;

  /// What was packed from this memory. Commands that write memory tell it what they wrote.
  PackedCache& packed() { return packed_; }

  uint64_t free_bytes() const;
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t max_allocation_bytes() const { return max_allocation_bytes_; }

  /// What the host has for this process, and what is left of it now; by /proc/meminfo and the
  /// control group's limit.
  static uint64_t host_total_bytes();
  static uint64_t host_available_bytes();

 private:
  struct Region {
    uint64_t bytes;   ///< as asked for
    uint64_t mapped;  ///< whole pages, from the region's address
  };

  void populate(uint64_t address, uint64_t bytes);

  ThreadPool& pool_;
  PackedCache packed_;  // locked within mutex_, never the other way round
  const uint64_t total_bytes_;
  const uint64_t max_allocation_bytes_;
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Region> regions_;
  uint64_t used_bytes_ = 0;
  uint64_t unchecked_bytes_ = 0;  ///< allocated since the host was last asked what it has left
};

}  // namespace spyre::softdev
