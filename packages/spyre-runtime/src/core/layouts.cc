// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "spyre/runtime/runtime.h"

namespace spyre::runtime {
namespace {

/// All interned layouts of the process. Entries stay: ids are compared long after their tensors are
/// gone.
struct Table {
  std::mutex mutex;
  std::deque<InternedLayout> entries;
  std::unordered_multimap<size_t, const InternedLayout*> by_hash;
};

Table& table() {
  static auto* instance = new Table;  // outlives static destructors
  return *instance;
}

/// Layouts that are equal on the device may still differ in what is known of the host tensor, and
/// so in what counts as padding.
bool is_same(const InternedLayout& entry, const layout::Layout& layout, layout::HostDtype dtype) {
  return entry.dtype == dtype && entry.layout == layout &&
         entry.layout.host_span() == layout.host_span() &&
         entry.layout.host_known() == layout.host_known() &&
         entry.layout.host_size() == layout.host_size() &&
         entry.layout.host_strides() == layout.host_strides();
}

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

/// A thread's recent layouts, so that allocating a tensor of a usual shape takes no lock and makes
/// no layout. `key` is what the layout was asked for by: sizes, and strides if there are any.
struct Recent {
  static constexpr size_t kMaxKey = 12;
  std::array<int64_t, kMaxKey> key;
  size_t key_size = 0;
  const InternedLayout* layout = nullptr;
};
using RecentTable = std::array<Recent, 64>;
thread_local RecentTable recent_row_major{};
thread_local RecentTable recent_strided{};

template <class Make>
const InternedLayout& find_recent(RecentTable& table, const int64_t* key, size_t key_size,
                                  layout::HostDtype dtype, Make&& make) {
  uint64_t hash = mix(key_size, static_cast<uint64_t>(dtype));
  for (size_t i = 0; i < key_size; ++i) hash = mix(hash, static_cast<uint64_t>(key[i]));
  Recent& slot = table[hash % table.size()];
  if (slot.layout != nullptr && slot.key_size == key_size && slot.layout->dtype == dtype &&
      std::equal(key, key + key_size, slot.key.begin())) {
    return *slot.layout;
  }
  const InternedLayout& made = intern(make(), dtype);
  std::copy(key, key + key_size, slot.key.begin());
  slot.key_size = key_size;
  slot.layout = &made;
  return made;
}

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
  const auto make = [&] {
    return layout::Layout::row_major(std::vector<int64_t>(size, size + rank), dtype);
  };
  if (rank > Recent::kMaxKey) return intern(make(), dtype);
  return find_recent(recent_row_major, size, rank, dtype, make);
}

const InternedLayout& intern_strided(const int64_t* size, const int64_t* stride, size_t rank,
                                     layout::HostDtype dtype) {
  const auto make = [&] {
    return layout::Layout::strided(std::vector<int64_t>(size, size + rank),
                                   std::vector<int64_t>(stride, stride + rank), dtype);
  };
  if (2 * rank > Recent::kMaxKey) return intern(make(), dtype);
  std::array<int64_t, Recent::kMaxKey> key;
  std::copy(stride, stride + rank, std::copy(size, size + rank, key.begin()));
  return find_recent(recent_strided, key.data(), 2 * rank, dtype, make);
}

}  // namespace spyre::runtime
