// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

namespace spyre::runtime {

struct Allocation;

/// The addresses that stand for host bytes of one device's allocations: one reservation without
/// access rights, cut into equal regions, one for each power-of-two slot size. So the slot of an
/// address is found by shifts, and one table load gives the allocation, without a lock.
///
/// A slot is always larger than the bytes it stands for, so that the address just past the end,
/// which empty slices have, still finds its own allocation.
class HandleSpace {
 public:
  struct Slot {
    int log2_bytes = 0;
    uint32_t index = 0;
  };

  /// Reserves room for at least twice `memory_bytes` in slots of each size. Throws OutOfMemoryError
  /// if the process may not reserve that many addresses.
  explicit HandleSpace(int64_t memory_bytes);
  ~HandleSpace();
  HandleSpace(const HandleSpace&) = delete;
  HandleSpace& operator=(const HandleSpace&) = delete;

  /// acquire and release need the allocator's lock; publish and find do not.
  Slot acquire(int64_t bytes);
  void release(Slot slot);

  uint64_t address(Slot slot) const {
    return base_ + (static_cast<uint64_t>(slot.log2_bytes - kMinLog2) << region_log2_) +
           (static_cast<uint64_t>(slot.index) << slot.log2_bytes);
  }
  static bool fits(Slot slot, int64_t bytes) { return bytes < (int64_t{1} << slot.log2_bytes); }

  /// Makes find() return `allocation` (or nothing, if nullptr) for addresses in the slot.
  void publish(Slot slot, Allocation* allocation) {
    entry(slot.log2_bytes - kMinLog2, slot.index).store(allocation, std::memory_order_release);
  }

  bool contains(uint64_t address) const { return address - base_ < bytes_; }

  /// `address` must be contained.
  Allocation* find(uint64_t address) const {
    const uint64_t offset = address - base_;
    const auto region = static_cast<int>(offset >> region_log2_);
    const uint64_t index = (offset & ((uint64_t{1} << region_log2_) - 1)) >> (region + kMinLog2);
    const Chunk* chunk = tables_[region][index >> kChunkLog2].load(std::memory_order_acquire);
    if (chunk == nullptr) return nullptr;
    return (*chunk)[index & (kChunkSlots - 1)].load(std::memory_order_acquire);
  }

 private:
  static constexpr int kMinLog2 = 8;
  static constexpr int kChunkLog2 = 12;
  static constexpr uint64_t kChunkSlots = uint64_t{1} << kChunkLog2;
  using Chunk = std::array<std::atomic<Allocation*>, kChunkSlots>;

  std::atomic<Allocation*>& entry(int region, uint32_t index) {
    return (*tables_[region][index >> kChunkLog2].load(
        std::memory_order_acquire))[index & (kChunkSlots - 1)];
  }

  uint64_t base_ = 0;
  uint64_t bytes_ = 0;
  int region_log2_ = 0;
  int regions_ = 0;
  std::vector<std::vector<std::atomic<Chunk*>>>
      tables_;                               ///< by region, then by index / kChunkSlots
  std::vector<std::vector<uint32_t>> free_;  ///< by region: released slots, last in first out
  std::vector<uint32_t> used_;               ///< by region: slots ever handed out
};

}  // namespace spyre::runtime
