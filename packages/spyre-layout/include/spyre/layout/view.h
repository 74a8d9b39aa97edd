// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "spyre/layout/layout.h"

/// From a PyTorch view of a storage to device addresses.
namespace spyre::layout {

/// One loop over device memory.
struct ViewLoop {
  int dim;  ///< dimension of the view that the loop is (a part) of
  int64_t extent;
  int64_t device_stride;  ///< in device elements; may be zero or negative
};

/// Where the elements of a view lie on the device.
struct DeviceView {
  /// True: element (i0, i1, ...) of the loop nest is at device_offset + sum(i * device_stride).
  /// False: `loops` holds one loop per view dimension whose `device_stride` is the *host* stride;
  /// the element's host offset h = host_offset + sum(i * stride) is mapped by map_offset(digits,
  /// h).
  bool affine = true;
  /// In the order of the view's dimensions. A dimension gives one or more loops, outermost part
  /// first, whose extents multiply to its size.
  std::vector<ViewLoop> loops;
  int64_t device_offset = 0;
  int64_t host_offset = 0;
  /// Layout::digits(): the mapping of host offsets, for indexed accesses.
  std::vector<Digit> digits;

  /// Device offset of host offset `offset`, which must lie in the layout.
  int64_t map(int64_t offset) const { return map_offset(digits.data(), digits.size(), offset); }
};

/// What a view is to be used for.
enum class Access : int32_t {
  kRead,
  kWrite,  ///< two elements at one address are an error
};

/// Device access of the view (size, stride, storage_offset) of a storage with `layout`; all in host
/// elements. Strides may be zero or negative. Throws std::out_of_range, with the numbers, when an
/// element of the view has no position in the layout, and std::invalid_argument for malformed views
/// and for kWrite of a view that overlaps itself. Costs about a microsecond.
DeviceView resolve_view(const Layout& layout, const std::vector<int64_t>& size,
                        const std::vector<int64_t>& stride, int64_t storage_offset,
                        Access access = Access::kRead);

/// A stretch of elements, consecutive in the view and on the device.
struct Run {
  int64_t view_index;     ///< row-major index of the first element in the view
  int64_t device_offset;  ///< of the first element
  int64_t length;
};

/// The view as the fewest contiguous runs, in row-major order of the view.
std::vector<Run> contiguous_runs(const Layout& layout, const std::vector<int64_t>& size,
                                 const std::vector<int64_t>& stride, int64_t storage_offset);

/// True if two different indices of (size, stride) give the same offset. Exact; throws
/// std::invalid_argument in the rare case that it would have to look at more than 2^26 elements.
bool overlaps_itself(const std::vector<int64_t>& size, const std::vector<int64_t>& stride);

}  // namespace spyre::layout
