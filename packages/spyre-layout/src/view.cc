// SPDX-License-Identifier: Apache-2.0
#include "spyre/layout/view.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "checked_math.h"
#include "resolve.h"

namespace spyre::layout {
namespace {

using detail::checked_add;
using detail::checked_mul;
using detail::WorkLoop;

std::string describe(const std::vector<int64_t>& size, const std::vector<int64_t>& stride,
                     int64_t storage_offset) {
  return "view of size " + format_list(size) + ", stride " + format_list(stride) +
         ", storage offset " + std::to_string(storage_offset);
}

/// Checks the shape and the range of a view. Returns false if it has no elements.
bool check_view(const Layout& layout, const std::vector<int64_t>& size,
                const std::vector<int64_t>& stride, int64_t storage_offset) {
  if (size.size() != stride.size()) {
    throw std::invalid_argument("view size " + format_list(size) + " has " +
                                std::to_string(size.size()) + " dimensions, but stride " +
                                format_list(stride) + " has " + std::to_string(stride.size()) +
                                "; give one stride per dimension");
  }
  bool empty = false;
  for (int64_t extent : size) {
    if (extent < 0) {
      throw std::invalid_argument("view size " + format_list(size) + " has the negative entry " +
                                  std::to_string(extent) + "; sizes must be at least 0");
    }
    empty = empty || extent == 0;
  }
  if (empty) return false;
  int64_t low = storage_offset;
  int64_t high = storage_offset;
  bool overflow = false;
  for (size_t d = 0; d < size.size(); ++d) {
    int64_t reach = 0;
    int64_t& end = stride[d] < 0 ? low : high;
    overflow =
        overflow || checked_mul(size[d] - 1, stride[d], &reach) || checked_add(end, reach, &end);
  }
  if (overflow || low < 0 || high >= layout.host_span()) {
    throw std::out_of_range(
        "the " + describe(size, stride, storage_offset) + " reaches host offsets " +
        (overflow ? std::string("beyond 64 bits")
                  : std::to_string(low) + " to " + std::to_string(high)) +
        ", but the storage has " +
        (layout.host_span() ? "elements at 0 to " + std::to_string(layout.host_span() - 1)
                            : std::string("no elements")) +
        " (" + layout.repr() + "); check the view against its storage");
  }
  return true;
}

/// Throws if an element of a view that is not affine falls between the positions of a layout with
/// gaps.
void check_positions(const Layout& layout, std::vector<int64_t> size,
                     const std::vector<int64_t>& stride, int64_t storage_offset) {
  for (size_t d = 0; d < size.size(); ++d) {
    if (stride[d] == 0) size[d] = 1;  // the same elements over again
  }
  std::vector<int64_t> index(size.size(), 0);
  int64_t offset = storage_offset;
  while (true) {
    layout.device_offset(offset);
    size_t d = size.size();
    while (d > 0) {
      --d;
      offset += stride[d];
      if (++index[d] < size[d]) break;
      offset -= stride[d] * size[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (size.empty()) return;
  }
}

/// Orders the loops by dimension and merges parts of one dimension that count on from each other.
void emit_loops(const detail::WorkLoops& work, size_t rank, DeviceView* view) {
  // Work loops of a dimension appear outermost first, but other dimensions may stand between them.
  view->loops.reserve(work.size());
  for (size_t dim = 0; dim < rank; ++dim) {
    bool first = true;
    for (size_t k = 0; k < work.size(); ++k) {
      const WorkLoop& loop = work[k];
      if (loop.dim != static_cast<int>(dim)) continue;
      if (!first) {
        ViewLoop& outer = view->loops.back();
        if (outer.device_stride == loop.device * loop.extent) {
          outer.extent *= loop.extent;
          outer.device_stride = loop.device;
          continue;
        }
      }
      view->loops.push_back({loop.dim, loop.extent, loop.device});
      first = false;
    }
  }
}

}  // namespace

DeviceView resolve_view(const Layout& layout, const std::vector<int64_t>& size,
                        const std::vector<int64_t>& stride, int64_t storage_offset, Access access) {
  DeviceView view;
  const size_t rank = size.size();
  if (!check_view(layout, size, stride, storage_offset)) {
    for (size_t d = 0; d < rank; ++d) view.loops.push_back({static_cast<int>(d), size[d], 0});
    view.digits = layout.digits();
    return view;
  }
  if (access == Access::kWrite && overlaps_itself(size, stride)) {
    throw std::invalid_argument(
        "cannot write to the " + describe(size, stride, storage_offset) +
        ": several of its elements share one address; write to a view without "
        "overlaps, or clone it first");
  }
  view.digits = layout.digits();
  view.host_offset = storage_offset;

  detail::Resolution state;
  state.rest = storage_offset;
  for (size_t d = 0; d < rank; ++d) {
    state.loops.push_back(
        {static_cast<int>(d), size[d], size[d] == 1 ? 0 : stride[d], 0, 0, false});
  }
  detail::Cut cut;
  switch (detail::resolve(layout, &state, &cut)) {
    case detail::Outcome::kAffine:
      detail::unflip(&state);
      view.device_offset = state.device;
      emit_loops(state.loops, rank, &view);
      return view;
    case detail::Outcome::kGap:
    case detail::Outcome::kIndexed:
      if (!layout.is_dense()) check_positions(layout, size, stride, storage_offset);
      break;
  }
  view.affine = false;
  for (size_t d = 0; d < rank; ++d) {
    view.loops.push_back({static_cast<int>(d), size[d], size[d] == 1 ? 0 : stride[d]});
  }
  return view;
}

std::vector<Run> contiguous_runs(const Layout& layout, const std::vector<int64_t>& size,
                                 const std::vector<int64_t>& stride, int64_t storage_offset) {
  const DeviceView view = resolve_view(layout, size, stride, storage_offset);
  std::vector<Run> runs;
  int64_t numel = 1;
  if (std::find(size.begin(), size.end(), 0) != size.end()) return runs;
  for (int64_t extent : size) {
    if (checked_mul(numel, extent, &numel)) {
      throw std::invalid_argument("the " + describe(size, stride, storage_offset) +
                                  " has more elements than a 64-bit integer counts; "
                                  "resolve_view() gives loops for it");
    }
  }

  // In steps of the innermost loop when that is contiguous, of single elements otherwise.
  std::vector<ViewLoop> loops = view.loops;
  int64_t step = 1;
  if (view.affine) {
    while (!loops.empty() && (loops.back().extent == 1 || loops.back().device_stride == step)) {
      step *= loops.back().extent;
      loops.pop_back();
    }
  }
  std::vector<int64_t> index(loops.size(), 0);
  int64_t position = view.affine ? view.device_offset : view.host_offset;
  for (int64_t element = 0; element < numel; element += step) {
    const int64_t device = view.affine ? position : view.map(position);
    if (!runs.empty() && runs.back().device_offset + runs.back().length == device) {
      runs.back().length += step;
    } else {
      runs.push_back({element, device, step});
    }
    for (size_t k = loops.size(); k-- > 0;) {
      position += loops[k].device_stride;
      if (++index[k] < loops[k].extent) break;
      position -= loops[k].device_stride * loops[k].extent;
      index[k] = 0;
    }
  }
  return runs;
}

bool overlaps_itself(const std::vector<int64_t>& size, const std::vector<int64_t>& stride) {
  // Signs do not matter: flipping a dimension permutes the elements.
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, extent
  int64_t numel = 1;
  if (std::find(size.begin(), size.end(), 0) != size.end()) return false;
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] == 1) continue;
    if (stride[d] == 0) return true;
    dims.emplace_back(stride[d] < 0 ? -stride[d] : stride[d], size[d]);
    if (checked_mul(numel, size[d], &numel)) return true;  // no storage has as many addresses
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  bool nested = true;
  for (const auto& [step, extent] : dims) {
    nested = nested && step > reach;
    int64_t part = 0;
    if (checked_mul(extent - 1, step, &part) || checked_add(reach, part, &reach)) {
      throw std::invalid_argument("a view of size " + format_list(size) + " with stride " +
                                  format_list(stride) +
                                  " reaches further than a 64-bit integer counts");
    }
  }
  if (nested) return false;
  if (numel > reach + 1) return true;  // more elements than addresses
  constexpr int64_t kMostExamined = int64_t{1} << 26;
  if (numel > kMostExamined) {
    throw std::invalid_argument(
        "cannot tell whether the view of size " + format_list(size) + " with stride " +
        format_list(stride) +
        " overlaps itself without looking at more than 2^26 elements; use a view "
        "whose strides nest");
  }
  std::vector<int64_t> offsets(1, 0);
  offsets.reserve(static_cast<size_t>(numel));
  for (const auto& [step, extent] : dims) {
    const size_t count = offsets.size();
    for (int64_t i = 1; i < extent; ++i) {
      for (size_t k = 0; k < count; ++k) offsets.push_back(offsets[k] + i * step);
    }
  }
  std::sort(offsets.begin(), offsets.end());
  return std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end();
}

}  // namespace spyre::layout
