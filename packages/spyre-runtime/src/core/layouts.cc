// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "spyre/runtime/runtime.h"

namespace spyre::runtime {
namespace {

/// All interned layouts of the process. Entries stay: ids are compared long after their tensors are gone.
struct Table {
  std::mutex mutex;
  std::deque<InternedLayout> entries;
  std::unordered_multimap<size_t, const InternedLayout*> by_hash;
};

Table& table() {
  static auto* instance = new Table;  // outlives static destructors
  return *instance;
}

/// Layouts that are equal on the device may still differ in how far the host tensor reaches.
bool is_same(const InternedLayout& entry, const layout::Layout& layout, layout::HostDtype dtype) {
  return entry.dtype == dtype && entry.layout == layout &&
         entry.layout.host_span() == layout.host_span() &&
         entry.layout.host_known() == layout.host_known();
}

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

/// A thread's recent row-major layouts, so that allocating a tensor of a usual shape takes no lock.
struct Recent {
  static constexpr size_t kMaxRank = 8;
  std::array<int64_t, kMaxRank> size;
  size_t rank = 0;
  const InternedLayout* layout = nullptr;
};
thread_local std::array<Recent, 64> recent{};

}  // namespace

const InternedLayout& intern(const layout::Layout& layout, layout::HostDtype dtype) {
  const size_t hash = mix(layout.hash(), static_cast<uint64_t>(dtype));
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto [first, last] = all.by_hash.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (is_same(*it->second, layout, dtype)) return *it->second;
  }
  const uint64_t id = all.entries.size() + 1;
  all.entries.push_back({layout, dtype, id, layout.device_bytes()});
  const InternedLayout& entry = all.entries.back();
  all.by_hash.emplace(hash, &entry);
  return entry;
}

const InternedLayout& intern_row_major(const int64_t* size, size_t rank, layout::HostDtype dtype) {
  if (rank > Recent::kMaxRank) {
    return intern(layout::Layout::row_major(std::vector<int64_t>(size, size + rank), dtype), dtype);
  }
  uint64_t hash = mix(rank, static_cast<uint64_t>(dtype));
  for (size_t i = 0; i < rank; ++i) hash = mix(hash, static_cast<uint64_t>(size[i]));
  Recent& slot = recent[hash % recent.size()];
  if (slot.layout != nullptr && slot.rank == rank && slot.layout->dtype == dtype &&
      std::equal(size, size + rank, slot.size.begin())) {
    return *slot.layout;
  }
  const InternedLayout& made =
      intern(layout::Layout::row_major(std::vector<int64_t>(size, size + rank), dtype), dtype);
  std::copy(size, size + rank, slot.size.begin());
  slot.rank = rank;
  slot.layout = &made;
  return made;
}

}  // namespace spyre::runtime
