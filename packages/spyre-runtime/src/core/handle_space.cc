// SPDX-License-Identifier: Apache-2.0
#include "core/handle_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>

#include "spyre/runtime/errors.h"

namespace spyre::runtime {
namespace {

// ThreadSanitizer keeps most of the address space to itself.
#if defined(__SANITIZE_THREAD__)
constexpr int kMaxRegionLog2 = 34;
#else
constexpr int kMaxRegionLog2 = 40;
#endif
constexpr int kMinRegionLog2 = 32;

}  // namespace

HandleSpace::HandleSpace(int64_t memory_bytes) {
  const int wanted = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(memory_bytes, 1))) + 1;
  // Where addresses are scarce (a 39-bit space, ulimit -v) a smaller space still serves small
  // tensors.
  for (int log2 = std::clamp(wanted, kMinRegionLog2, kMaxRegionLog2); log2 >= kMinLog2 + kChunkLog2;
       --log2) {
    const int regions =
        log2 - kMinLog2 + 1;  // the last one has a single slot, of the region's size
    const uint64_t bytes = static_cast<uint64_t>(regions) << log2;
    void* base =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) continue;
#ifdef MADV_DONTDUMP
    madvise(base, bytes, MADV_DONTDUMP);
#endif
    base_ = reinterpret_cast<uint64_t>(base);
    bytes_ = bytes;
    region_log2_ = log2;
    regions_ = regions;
    break;
  }
  if (base_ == 0) {
    throw OutOfMemoryError(
        "cannot reserve address space for spyre tensors; raise the limit on virtual memory (ulimit "
        "-v)");
  }
  tables_.reserve(static_cast<size_t>(regions_));
  for (int region = 0; region < regions_; ++region) {
    const uint64_t slots = uint64_t{1} << (region_log2_ - kMinLog2 - region);
    tables_.emplace_back(std::max<uint64_t>(1, slots >> kChunkLog2));
  }
  free_.resize(static_cast<size_t>(regions_));
  used_.resize(static_cast<size_t>(regions_));
}

HandleSpace::~HandleSpace() {
  for (auto& table : tables_) {
    for (auto& chunk : table) delete chunk.load();
  }
  if (base_ != 0) munmap(reinterpret_cast<void*>(base_), bytes_);
}

HandleSpace::Slot HandleSpace::acquire(int64_t bytes) {
  const int log2 = std::max<int>(kMinLog2, std::bit_width(static_cast<uint64_t>(bytes)));
  const auto region = static_cast<size_t>(log2 - kMinLog2);
  if (bytes < 0 || log2 > region_log2_) {
    throw OutOfMemoryError("a tensor of " + std::to_string(bytes) +
                           " host bytes is larger than the " +
                           std::to_string((uint64_t{1} << region_log2_) - 1) +
                           " bytes that one spyre tensor can address");
  }
  std::vector<uint32_t>& free = free_[region];
  if (!free.empty()) {
    const uint32_t index = free.back();
    free.pop_back();
    return {log2, index};
  }
  const uint32_t index = used_[region];
  if (index >= (uint64_t{1} << (region_log2_ - log2))) {
    throw OutOfMemoryError("too many spyre tensors of about " + std::to_string(bytes) +
                           " bytes: " + std::to_string(index) + " are alive");
  }
  std::atomic<Chunk*>& chunk = tables_[region][index >> kChunkLog2];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    chunk.store(new Chunk(), std::memory_order_release);
  }
  free.reserve(index + 1);  // release() must not fail
  ++used_[region];
  return {log2, index};
}

void HandleSpace::release(Slot slot) {
  publish(slot, nullptr);
  free_[static_cast<size_t>(slot.log2_bytes - kMinLog2)].push_back(slot.index);
}

}  // namespace spyre::runtime
