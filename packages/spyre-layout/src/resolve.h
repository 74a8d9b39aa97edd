// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "spyre/layout/layout.h"

/// The core of view resolution, shared by resolve_view() and transfer_plan().
namespace spyre::layout::detail {

/// A loop on its way from host strides to device strides.
struct WorkLoop {
  int dim;  ///< the caller's tag: parts of a split loop keep it
  int64_t extent;
  int64_t stride;  ///< of what is left of the host offset
  int64_t other;   ///< stride in a host array that is walked along; scaled when the loop is split
  int64_t device;  ///< what has become device stride so far
  bool flipped;    ///< counts down: its direction was reversed to make the stride positive
};

/// A short vector that lives on the stack until it outgrows its inline part.
class WorkLoops {
 public:
  size_t size() const { return size_; }
  WorkLoop& operator[](size_t i) { return data()[i]; }
  const WorkLoop& operator[](size_t i) const { return data()[i]; }

  void push_back(const WorkLoop& loop) { insert(size_, loop); }

  void insert(size_t at, const WorkLoop& loop) {
    if (heap_.empty() && size_ < inline_.size()) {
      for (size_t k = size_; k > at; --k) inline_[k] = inline_[k - 1];
      inline_[at] = loop;
    } else {
      if (heap_.empty())
        heap_.assign(inline_.begin(), inline_.begin() + static_cast<std::ptrdiff_t>(size_));
      heap_.insert(heap_.begin() + static_cast<std::ptrdiff_t>(at), loop);
    }
    ++size_;
  }

 private:
  WorkLoop* data() { return heap_.empty() ? inline_.data() : heap_.data(); }
  const WorkLoop* data() const { return heap_.empty() ? inline_.data() : heap_.data(); }

  std::array<WorkLoop, 16> inline_{};
  std::vector<WorkLoop> heap_;
  size_t size_ = 0;
};

enum class Outcome {
  kAffine,   ///< every loop has its device stride
  kIndexed,  ///< no loop nest fits
  kGap,      ///< some element has no position
};

/// Where to cut a loop nest that is not affine, so that the parts are closer to being so.
struct Cut {
  size_t loop = 0;
  int64_t at = 0;  ///< 0 < at < extent
};

/// A loop nest part of whose host strides have become device strides.
struct Resolution {
  WorkLoops loops;
  int64_t rest = 0;    ///< what is left of the host offset of loop index zero
  int64_t device = 0;  ///< what has become device offset so far
  int64_t other = 0;   ///< offset in the host array that is walked along
  size_t level = 0;    ///< digits that are done
};

/// Takes a loop nest through the digits of the layout that are left, splitting loops where the
/// layout breaks a stride. The range must have been checked: every host offset that the loops reach
/// lies in [0, layout.host_span()).
///
/// On kAffine the device strides and the device offset are final; loops may have been reversed
/// (`flipped`, see unflip()). On kIndexed the state describes the same elements, stopped before the
/// digit that broke it, and `*cut` says where cutting helps.
Outcome resolve(const Layout& layout, Resolution* state, Cut* cut);

/// Turns reversed loops back to count as the caller's did.
void unflip(Resolution* state);

/// Cuts the loop nest in two; `*state` keeps the first part.
Resolution cut_off(Resolution* state, const Cut& cut);

}  // namespace spyre::layout::detail
