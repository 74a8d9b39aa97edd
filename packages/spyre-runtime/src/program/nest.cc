// SPDX-License-Identifier: Apache-2.0
#include "program/nest.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace spyre::program {
namespace {

/// Inner products of a split loop: where it is cut, counted from the inside.
std::vector<int64_t> cuts_of(const SplitLoop& split) {
  std::vector<int64_t> cuts{1};
  for (size_t i = split.size(); i-- > 1;) cuts.push_back(cuts.back() * split[i].extent);
  return cuts;
}

void reorder(BoundStage& stage, const std::vector<size_t>& order) {
  auto apply = [&](auto& values) {
    auto copy = values;
    for (size_t i = 0; i < order.size(); ++i) values[i] = copy[order[i]];
  };
  apply(stage.loops);
  for (BoundAccess& a : stage.accesses) apply(a.stride);
}

void erase_loop(BoundStage& stage, size_t loop) {
  stage.loops.erase(stage.loops.begin() + static_cast<ptrdiff_t>(loop));
  for (BoundAccess& a : stage.accesses)
    a.stride.erase(a.stride.begin() + static_cast<ptrdiff_t>(loop));
}

}  // namespace

Refiner::Refiner(std::vector<BoundLoop> loops)
    : loops_(std::move(loops)), cuts_(loops_.size(), {1}) {}

bool Refiner::accept(const std::vector<SplitLoop>& splits) {
  std::vector<std::vector<int64_t>> merged(loops_.size());
  for (size_t l = 0; l < loops_.size(); ++l) {
    const std::vector<int64_t> mine = cuts_of(splits[l]);
    std::set_union(cuts_[l].begin(), cuts_[l].end(), mine.begin(), mine.end(),
                   std::back_inserter(merged[l]));
    for (size_t i = 0; i < merged[l].size(); ++i) {
      const int64_t outer = i + 1 < merged[l].size() ? merged[l][i + 1] : loops_[l].extent;
      if (merged[l][i] == 0 || outer % merged[l][i] != 0) return false;
    }
  }
  cuts_ = std::move(merged);
  return true;
}

std::vector<BoundLoop> Refiner::loops() const {
  std::vector<BoundLoop> out;
  for (size_t l = 0; l < loops_.size(); ++l) {
    for (size_t i = cuts_[l].size(); i-- > 0;) {
      const int64_t outer = i + 1 < cuts_[l].size() ? cuts_[l][i + 1] : loops_[l].extent;
      out.push_back({outer / cuts_[l][i], loops_[l].reduce});
    }
  }
  return out;
}

std::vector<int64_t> Refiner::strides(const std::vector<SplitLoop>& splits) const {
  std::vector<int64_t> out;
  for (size_t l = 0; l < loops_.size(); ++l) {
    const std::vector<int64_t> mine = cuts_of(splits[l]);
    for (size_t i = cuts_[l].size(); i-- > 0;) {
      // The part of this access that the cut lies in, and how far inside it.
      size_t part = 0;
      while (part + 1 < mine.size() && mine[part + 1] <= cuts_[l][i]) ++part;
      out.push_back(splits[l][splits[l].size() - 1 - part].stride * (cuts_[l][i] / mine[part]));
    }
  }
  return out;
}

std::vector<int64_t> Refiner::strides(const std::vector<int64_t>& linear) const {
  std::vector<int64_t> out;
  for (size_t l = 0; l < loops_.size(); ++l) {
    for (size_t i = cuts_[l].size(); i-- > 0;) out.push_back(linear[l] * cuts_[l][i]);
  }
  return out;
}

void drop_unit_loops(BoundStage& stage) {
  for (size_t l = stage.loops.size(); l-- > 0;) {
    if (stage.loops[l].extent == 1) erase_loop(stage, l);
  }
}

void order_loops(BoundStage& stage, const std::vector<int>& priority) {
  const size_t count = stage.loops.size();
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  // Whether loop a belongs outside loop b: 1 yes, -1 no, 0 no access tells.
  auto outside = [&](size_t a, size_t b) {
    for (int access : priority) {
      const auto& stride = stage.accesses[static_cast<size_t>(access)].stride;
      const int64_t sa = std::abs(stride[a]), sb = std::abs(stride[b]);
      if (sa != 0 && sb != 0 && sa != sb) return sa > sb ? 1 : -1;
    }
    return 0;
  };
  // Insertion sort: the comparison is not a strict weak order, and ties keep the program's order.
  for (size_t i = 1; i < count; ++i) {
    for (size_t j = i, k = i; k-- > 0;) {
      if (stage.loops[order[j]].reduce != stage.loops[order[k]].reduce) break;
      const int verdict = outside(order[j], order[k]);
      if (verdict < 0) break;
      if (verdict > 0) {
        std::swap(order[j], order[k]);
        j = k;
      }
    }
  }
  reorder(stage, order);
}

void merge_loops(BoundStage& stage) {
  for (size_t l = stage.loops.size(); l-- > 1;) {
    BoundLoop& outer = stage.loops[l - 1];
    const BoundLoop& inner = stage.loops[l];
    if (outer.reduce != inner.reduce) continue;
    const bool mergeable = std::all_of(
        stage.accesses.begin(), stage.accesses.end(),
        [&](const BoundAccess& a) { return a.stride[l - 1] == a.stride[l] * inner.extent; });
    if (!mergeable) continue;
    outer.extent *= inner.extent;
    for (BoundAccess& a : stage.accesses) a.stride[l - 1] = a.stride[l];
    erase_loop(stage, l);
  }
}

}  // namespace spyre::program
