// SPDX-License-Identifier: Apache-2.0
#include "softdev/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <mutex>
#include <string>

#include "softdev/status.h"

namespace spyre::softdev {
namespace {

constexpr uint64_t kHugePage = 2 << 20;
/// Left to the host when large allocations are checked against what it has.
uint64_t host_reserve() {
  static const uint64_t bytes = std::max<uint64_t>(256 << 20, Memory::host_total_bytes() / 16);
  return bytes;
}
/// Reading the host's state costs tens of microseconds: it is done once in so many bytes.
constexpr uint64_t kCheckedBytes = 16 << 20;
constexpr uint64_t kPopulateChunk = 4 << 20;

uint64_t page_bytes() {
  static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

/// A line "key   123 kB" of a file such as /proc/meminfo, in bytes (kB or plain); 0 if absent.
uint64_t read_field(const char* path, const std::string& key, uint64_t unit) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word == key) {
      uint64_t value = 0;
      return file >> value ? value * unit : 0;
    }
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

/// A file that holds one number; `none` if there is no such file or it says "max".
uint64_t read_number(const char* path, uint64_t none) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : none;
}

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

}  // namespace

uint64_t Memory::host_total_bytes() {
  uint64_t total = read_field("/proc/meminfo", "MemTotal:", 1024);
  if (total == 0) {
    total = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes();
  }
  total = std::min(total, read_number("/sys/fs/cgroup/memory.max", kNoLimit));
  return std::min(total, read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", kNoLimit));
}

uint64_t Memory::host_available_bytes() {
  uint64_t available = read_field("/proc/meminfo", "MemAvailable:", 1024);
  if (available == 0) available = static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * page_bytes();
  const uint64_t limit = read_number("/sys/fs/cgroup/memory.max", kNoLimit);
  if (limit != kNoLimit) {
    // Cached file pages count as used, but make room when asked.
    const uint64_t used = read_number("/sys/fs/cgroup/memory.current", 0);
    const uint64_t cached = read_field("/sys/fs/cgroup/memory.stat", "inactive_file", 1) +
                            read_field("/sys/fs/cgroup/memory.stat", "active_file", 1);
    const uint64_t kept = used > cached ? used - cached : 0;
    available = std::min(available, limit > kept ? limit - kept : 0);
  }
  return available;
}

Memory::Memory(uint64_t total_bytes, uint64_t max_allocation_bytes, ThreadPool& pool)
    : pool_(pool),
      total_bytes_(total_bytes),
      max_allocation_bytes_(std::min(max_allocation_bytes, total_bytes)) {}

Memory::~Memory() {
  for (const auto& [address, region] : regions_)
    munmap(reinterpret_cast<void*>(address), region.mapped);
}

uint64_t Memory::alloc(uint64_t bytes) {
  if (bytes == 0 || bytes % 128 != 0) {
    throw DriverError(SPYRE_INVALID_ARGUMENT,
                      "cannot allocate " + std::to_string(bytes) +
                          " bytes of device memory; ask for a positive multiple of 128");
  }
  if (bytes > max_allocation_bytes_) {
    throw DriverError(SPYRE_OUT_OF_MEMORY, "the largest segment of the device has " +
                                               std::to_string(max_allocation_bytes_) + " bytes");
  }
  const bool is_huge = bytes >= kHugePage;
  const uint64_t mapped = round_up(bytes, is_huge ? kHugePage : page_bytes());
  const std::unique_lock lock(mutex_);
  if (bytes > total_bytes_ - std::min(used_bytes_, total_bytes_)) {
    throw DriverError(SPYRE_OUT_OF_MEMORY, "device memory is full");
  }
  unchecked_bytes_ += bytes;
  if (unchecked_bytes_ >= kCheckedBytes) {
    unchecked_bytes_ = 0;
    const uint64_t available = host_available_bytes();
    if (mapped + host_reserve() > available) {
      throw DriverError(SPYRE_OUT_OF_MEMORY, "the host behind the software device has only " +
                                                 std::to_string(available >> 20) + " MiB left");
    }
  }
  // Room to align by, which is unmapped again.
  const uint64_t slack = is_huge ? kHugePage : 0;
  void* raw =
      mmap(nullptr, mapped + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    throw DriverError(SPYRE_OUT_OF_MEMORY,
                      "the host refused to map " + std::to_string(mapped) + " bytes");
  }
  auto address = reinterpret_cast<uint64_t>(raw);
  if (is_huge) {
    const uint64_t aligned = round_up(address, kHugePage);
    if (aligned != address) munmap(raw, aligned - address);
    const uint64_t end = address + mapped + slack;
    if (end != aligned + mapped)
      munmap(reinterpret_cast<void*>(aligned + mapped), end - aligned - mapped);
    address = aligned;
    madvise(reinterpret_cast<void*>(address), mapped,
            MADV_HUGEPAGE);  // advice: failure does no harm
  }
#ifdef MADV_DONTFORK
  // A forked child must not use the device; sparing it the page tables makes fork cheap.
  madvise(reinterpret_cast<void*>(address), mapped, MADV_DONTFORK);
#endif
  if (bytes >= kCheckedBytes) populate(address, mapped);
  try {
    regions_.emplace(address, Region{bytes, mapped});
  } catch (...) {
    munmap(reinterpret_cast<void*>(address), mapped);
    throw;
  }
  used_bytes_ += bytes;
  return address;
}

/// Faults all pages in, with the help of the pool.
void Memory::populate(uint64_t address, uint64_t bytes) {
  const auto chunks = static_cast<int64_t>((bytes + kPopulateChunk - 1) / kPopulateChunk);
  pool_.run(chunks, [&](int64_t chunk) {
    const uint64_t begin = static_cast<uint64_t>(chunk) * kPopulateChunk;
    const uint64_t size = std::min(kPopulateChunk, bytes - begin);
#ifdef MADV_POPULATE_WRITE
    if (madvise(reinterpret_cast<void*>(address + begin), size, MADV_POPULATE_WRITE) == 0) return;
#endif
    // Older kernels: by hand.
    for (uint64_t offset = 0; offset < size; offset += page_bytes()) {
      *reinterpret_cast<volatile char*>(address + begin + offset) = 0;
    }
  });
}

void Memory::free(uint64_t address) {
  const std::unique_lock lock(mutex_);
  const auto it = regions_.find(address);
  if (it == regions_.end()) return;
  packed_.drop({address, address + it->second.bytes});  // before others may get the address
  munmap(reinterpret_cast<void*>(address), it->second.mapped);
  used_bytes_ -= it->second.bytes;
  regions_.erase(it);
}

uint64_t Memory::bytes_from(uint64_t address) const {
  const std::shared_lock lock(mutex_);
  auto it = regions_.upper_bound(address);
  if (it == regions_.begin()) return 0;
  --it;
  const uint64_t offset = address - it->first;
  return offset < it->second.bytes ? it->second.bytes - offset : 0;
}

uint64_t Memory::free_bytes() const {
  const uint64_t available = host_available_bytes();
  const std::shared_lock lock(mutex_);
  const uint64_t left = total_bytes_ - std::min(used_bytes_, total_bytes_);
  return std::min(left, available > host_reserve() ? available - host_reserve() : uint64_t{0});
}

}  // namespace spyre::softdev
