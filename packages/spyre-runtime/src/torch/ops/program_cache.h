// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <string_view>

#include "spyre/runtime/runtime.h"

/// The programs that eager kernels have made so far, by everything their text depends on.
namespace spyre::aten {

class ProgramKey {
 public:
  /// `op` names the kind of program: an address that only this kind uses, such as that of a table
  /// row.
  explicit ProgramKey(const void* op) { add(reinterpret_cast<int64_t>(op)); }

  void add(int64_t value) {
    words_.push_back(value);
    hash_ = (std::rotl(hash_, 29) ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15ull;
  }
  void add(double value) { add(std::bit_cast<int64_t>(value)); }
  void add(c10::ArrayRef<int64_t> values) {
    add(static_cast<int64_t>(values.size()));
    for (int64_t value : values) add(value);
  }
  void add(std::string_view text) {
    add(static_cast<int64_t>(text.size()));
    for (char c : text) add(static_cast<int64_t>(c));
  }

  bool operator==(const ProgramKey& other) const {
    return hash_ == other.hash_ && words_ == other.words_;
  }
  size_t hash() const { return hash_ ^ (hash_ >> 32); }

 private:
  c10::SmallVector<int64_t, 48> words_;
  uint64_t hash_ = 0;
};

/// The program for `key`, made by `build` on first use. Keeps the most recently used ones, a
/// bounded number. Thread-safe; `build` runs without the lock, so two threads may both build.
std::shared_ptr<runtime::Executable> cached_program(const ProgramKey& key,
                                                    c10::function_ref<program::Program()> build);

struct ProgramCacheStats {
  int64_t hits = 0, misses = 0, evictions = 0, size = 0;
};
ProgramCacheStats program_cache_stats();

}  // namespace spyre::aten
