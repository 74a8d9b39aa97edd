// SPDX-License-Identifier: Apache-2.0
#include "torch/ops/program_cache.h"

#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace spyre::aten {
namespace {

/// A program with its bound forms takes some kilobytes.
constexpr size_t kCapacity = 8192;

class ProgramCache {
 public:
  std::shared_ptr<runtime::Executable> find(const ProgramKey& key) {
    std::lock_guard lock(mutex_);
    auto it = index_.find(&key);
    if (it == index_.end()) {
      ++stats_.misses;
      return nullptr;
    }
    ++stats_.hits;
    entries_.splice(entries_.begin(), entries_, it->second);
    return it->second->second;
  }

  std::shared_ptr<runtime::Executable> insert(const ProgramKey& key,
                                              std::shared_ptr<runtime::Executable> executable) {
    std::lock_guard lock(mutex_);
    if (auto it = index_.find(&key); it != index_.end()) return it->second->second;
    entries_.emplace_front(key, std::move(executable));
    index_.emplace(&entries_.front().first, entries_.begin());
    if (entries_.size() > kCapacity) {
      index_.erase(&entries_.back().first);
      entries_.pop_back();
      ++stats_.evictions;
    }
    return entries_.front().second;
  }

  ProgramCacheStats stats() {
    std::lock_guard lock(mutex_);
    ProgramCacheStats stats = stats_;
    stats.size = static_cast<int64_t>(entries_.size());
    return stats;
  }

 private:
  using Entry = std::pair<ProgramKey, std::shared_ptr<runtime::Executable>>;
  struct Hash {
    size_t operator()(const ProgramKey* key) const { return key->hash(); }
  };
  struct Equal {
    bool operator()(const ProgramKey* a, const ProgramKey* b) const { return *a == *b; }
  };

  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<const ProgramKey*, std::list<Entry>::iterator, Hash, Equal> index_;
  ProgramCacheStats stats_;
};

/// Never destroyed: executables must not outlive the runtime's own statics.
ProgramCache& cache() {
  static ProgramCache* cache = new ProgramCache;
  return *cache;
}

}  // namespace

std::shared_ptr<runtime::Executable> cached_program(const ProgramKey& key,
                                                    c10::function_ref<program::Program()> build) {
  if (auto found = cache().find(key)) return found;
  return cache().insert(key, std::make_shared<runtime::Executable>(build()));
}

ProgramCacheStats program_cache_stats() { return cache().stats(); }

}  // namespace spyre::aten
