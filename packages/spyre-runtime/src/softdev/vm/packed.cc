// SPDX-License-Identifier: Apache-2.0
#include "softdev/vm/packed.h"

#include <algorithm>

namespace spyre::softdev {

PackedCache::Found PackedCache::find(const Range& range, const std::vector<int64_t>& form,
                                     size_t bytes) {
  if (bytes > kMaxBytes) return {};
  const std::lock_guard lock(mutex_);
  const uint64_t now = ++uses_;
  const auto it = notes_.find({range.begin, form});
  if (it == notes_.end()) {
    if (notes_.size() >= kMaxNotes) {
      erase(std::min_element(notes_.begin(), notes_.end(), [](const auto& a, const auto& b) {
        return a.second.last_use < b.second.last_use;
      }));
    }
    notes_.emplace(Key{range.begin, form}, Note{range.end, now, 0, nullptr});
    longest_ = std::max(longest_, range.end - range.begin);
    return {};
  }
  Note& note = it->second;
  const uint64_t before = std::exchange(note.last_use, now);
  if (note.operand != nullptr) {
    // Another thread may be filling it still.
    return note.operand->is_filled.load(std::memory_order_acquire) ? Found{note.operand, false}
                                                                   : Found{};
  }
  if (!make_room(bytes, before)) return {};
  note.operand = std::make_shared<Operand>();
  note.bytes = bytes;
  bytes_ += bytes;
  return {note.operand, true};
}

/// Makes room for an operand of `bytes` that was used at `since` before. Only what was not used
/// from then on gives way: operands that are used in turn, and are too many, do not chase one
/// another out.
bool PackedCache::make_room(size_t bytes, uint64_t since) {
  while (bytes_ + bytes > kMaxBytes) {
    auto oldest = notes_.end();
    for (auto it = notes_.begin(); it != notes_.end(); ++it) {
      if (it->second.operand != nullptr &&
          it->second.last_use < (oldest == notes_.end() ? since : oldest->second.last_use))
        oldest = it;
    }
    if (oldest == notes_.end()) return false;
    erase(oldest);
  }
  return true;
}

void PackedCache::drop(const Range& range) {
  const std::lock_guard lock(mutex_);
  // Notes are in order of their beginnings.
  auto it = notes_.lower_bound({range.begin - std::min(range.begin, longest_), {}});
  while (it != notes_.end() && it->first.first < range.end) {
    const auto next = std::next(it);
    if (range.meets({it->first.first, it->second.end})) erase(it);
    it = next;
  }
}

void PackedCache::erase(Notes::iterator note) {
  bytes_ -= note->second.bytes;
  notes_.erase(note);
  if (notes_.empty()) longest_ = 0;
}

}  // namespace spyre::softdev
