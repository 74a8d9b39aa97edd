// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "softdev/vm/frame.h"

namespace spyre::softdev {

/// A range of device memory, by host address.
struct Range {
  uintptr_t begin = 0, end = 0;
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

/// Right operands of products, packed: weights, which many launches multiply by and nobody writes.
///
/// An operand is packed into the cache when it is used again with no write between, so what is
/// used once costs a note only. Every command that writes device memory says so when it is done,
/// and so does whoever frees it; that drops what was packed from there. A note is made before its
/// memory is read and a write is told after its last byte: whatever was read while the write ran is
/// dropped too, and a command ordered after the write finds nothing from before. Safe from any
/// thread; the lock is never held while memory is read or packed.
class PackedCache {
 public:
  /// Memory of a packed operand. Whoever gets it empty fills it, then says so.
  struct Operand {
    Workspace memory;
    std::atomic<bool> is_filled{false};
  };
  /// What find() gives: the operand, and whether the caller is to fill it. Null if the caller does
  /// without. If filling fails the operand stays empty, and is not used.
  struct Found {
    std::shared_ptr<Operand> operand;
    bool to_fill = false;
  };

  /// The operand that lies within `range` and is packed in `bytes` as `form` says, which with the
  /// range's beginning determines every byte that is packed.
  Found find(const Range& range, const std::vector<int64_t>& form, size_t bytes);

  /// Memory was written or is freed.
  void drop(const Range& range);

 private:
  // Less than half of what Memory leaves to the host.
  static constexpr size_t kMaxBytes = size_t{128} << 20;
  static constexpr size_t kMaxNotes = 1024;

  using Key = std::pair<uintptr_t, std::vector<int64_t>>;
  struct Note {
    uintptr_t end;
    uint64_t last_use;
    size_t bytes = 0;  ///< of the operand, if there is one
    std::shared_ptr<Operand> operand;
  };
  using Notes = std::map<Key, Note>;

  bool make_room(size_t bytes, uint64_t since);
  void erase(Notes::iterator note);

  std::mutex mutex_;
  Notes notes_;
  uintptr_t longest_ = 0;  ///< no noted range is longer
  uint64_t uses_ = 0;
  size_t bytes_ = 0;
};

/// The cache as one run of a program sees it: without what the program itself writes, which it
/// drops at the end.
class PackedInRun {
 public:
  PackedInRun(PackedCache& cache, std::vector<Range> written)
      : cache_(cache), written_(std::move(written)) {}
  ~PackedInRun() {
    for (const Range& range : written_) cache_.drop(range);
  }
  PackedInRun(const PackedInRun&) = delete;
  PackedInRun& operator=(const PackedInRun&) = delete;

  PackedCache::Found find(const Range& range, const std::vector<int64_t>& form, size_t bytes) {
    for (const Range& other : written_) {
      if (range.meets(other)) return {};
    }
    return cache_.find(range, form, bytes);
  }

 private:
  PackedCache& cache_;
  const std::vector<Range> written_;
};

}  // namespace spyre::softdev
