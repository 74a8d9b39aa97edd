// SPDX-License-Identifier: Apache-2.0
#include "spyre/layout/layout.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "checked_math.h"
#include "spyre/layout/codec.h"
#include "spyre/layout/view.h"

namespace spyre::layout {
namespace {

// Host offsets stay below this, so that sums of a few of them stay within 64 bits.
constexpr int64_t kLargestReach = int64_t{1} << 56;

using detail::checked_add;
using detail::checked_mul;

[[noreturn]] void fail(const std::string& message) { throw std::invalid_argument(message); }

void check_size(const std::vector<int64_t>& size, const char* what) {
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] < 0) {
      fail(std::string(what) + " " + format_list(size) + " has the negative entry " +
           std::to_string(size[d]) + " in dimension " + std::to_string(d) +
           "; sizes must be at least 0");
    }
  }
}

void check_host(const std::vector<int64_t>& size, const std::vector<int64_t>& strides) {
  check_size(size, "host size");
  if (size.size() != strides.size()) {
    fail("host size " + format_list(size) + " has " + std::to_string(size.size()) +
         " dimensions, but host strides " + format_list(strides) + " have " +
         std::to_string(strides.size()) + "; give one stride per dimension");
  }
}

int64_t product(const std::vector<int64_t>& values) {
  int64_t result = 1;
  if (std::find(values.begin(), values.end(), 0) != values.end()) return 0;
  for (int64_t value : values) {
    if (checked_mul(result, value, &result)) {
      fail("size " + format_list(values) + " has more elements than a 64-bit integer counts");
    }
  }
  return result;
}

/// One more than the largest offset of (size, strides), 0 if there is no element.
int64_t span_of(const std::vector<int64_t>& size, const std::vector<int64_t>& strides) {
  int64_t span = 1;
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] == 0) return 0;
    int64_t reach = 0;
    if (checked_mul(size[d] - 1, strides[d], &reach) || checked_add(span, reach, &span)) {
      fail("size " + format_list(size) + " with strides " + format_list(strides) +
           " reaches further than a 64-bit integer counts");
    }
  }
  return span;
}

/// Dimensions of more than one element, in order of decreasing stride.
std::vector<int> nest_order(const std::vector<int64_t>& size, const std::vector<int64_t>& strides) {
  std::vector<int> order;
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] > 1) order.push_back(static_cast<int>(d));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return strides[a] > strides[b]; });
  return order;
}

/// Whether each stride steps over everything that the smaller ones reach.
bool nests(const std::vector<int64_t>& size, const std::vector<int64_t>& strides) {
  // Most strides decrease already, and need no sorting.
  int64_t below = 0;
  size_t d = size.size();
  while (d > 0 && (size[d - 1] <= 1 || strides[d - 1] > below)) {
    --d;
    if (size[d] > 1) below += (size[d] - 1) * strides[d];
  }
  if (d == 0) return true;
  const std::vector<int> order = nest_order(size, strides);
  int64_t reach = 0;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (strides[*it] <= reach) return false;
    reach += (size[*it] - 1) * strides[*it];
  }
  return true;
}

/// How many host offsets a chain of digits has a position for.
int64_t count_positions(const std::vector<Digit>& digits) {
  // below(k, bound): the offsets below `bound` that digits k and on tell; full[k]: those below the
  // divisor of digit k - 1.
  std::vector<int64_t> full(digits.size() + 1, 1);
  const auto below = [&](size_t k, int64_t bound) {
    int64_t count = 1;
    for (; k < digits.size(); ++k) {
      const int64_t largest = std::min(digits[k].limit - 1, (bound - 1) / digits[k].divisor);
      count += largest * full[k + 1];
      bound = std::min(digits[k].divisor, bound - largest * digits[k].divisor);
    }
    return count;
  };
  for (size_t k = digits.size(); k-- > 1;) full[k] = below(k, digits[k - 1].divisor);
  return below(0, std::numeric_limits<int64_t>::max());
}

int64_t sticks_of(int64_t size, int64_t per_stick) {
  return size / per_stick + (size % per_stick != 0);
}

/// A host dimension on the device: what its device size and stride map entry are.
struct HostDim {
  int64_t size;
  int64_t stride;
};

void push_dim(const HostDim& dim, std::vector<int64_t>* device_size,
              std::vector<int64_t>* stride_map) {
  device_size->push_back(dim.size);
  stride_map->push_back(dim.size == 1 ? -1 : dim.stride);
}

void push_sticks(const HostDim& dim, int64_t per_stick, std::vector<int64_t>* device_size,
                 std::vector<int64_t>* stride_map) {
  device_size->push_back(sticks_of(dim.size, per_stick));
  int64_t stride = -1;
  if (dim.size != 1 && checked_mul(dim.stride, per_stick, &stride)) {
    fail("host stride " + std::to_string(dim.stride) + " times the " + std::to_string(per_stick) +
         " elements of a stick is more than a 64-bit integer counts");
  }
  stride_map->push_back(stride);
}

void push_lanes(const HostDim& dim, int64_t per_stick, std::vector<int64_t>* device_size,
                std::vector<int64_t>* stride_map) {
  device_size->push_back(per_stick);
  stride_map->push_back(dim.size == 1 ? -1 : dim.stride);
}

}  // namespace

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& size) {
  std::vector<int64_t> strides(size.size());
  int64_t stride = 1;
  for (size_t d = size.size(); d-- > 0;) {
    strides[d] = stride;
    if (checked_mul(stride, std::max<int64_t>(size[d], 1), &stride)) {
      fail("size " + format_list(size) + " has more elements than a 64-bit integer counts");
    }
  }
  return strides;
}

Layout Layout::row_major(const std::vector<int64_t>& size, HostDtype dtype) {
  check_size(size, "host size");
  return strided(size, contiguous_strides(size), dtype);
}

Layout Layout::strided(const std::vector<int64_t>& size, const std::vector<int64_t>& strides,
                       HostDtype dtype) {
  check_host(size, strides);
  Layout layout;
  layout.format_ = device_format(dtype);
  const int64_t eps = format_info(layout.format_).elems_per_stick;

  std::vector<int64_t> host_size = size;
  std::vector<int64_t> host_strides = strides;
  const bool empty = std::find(size.begin(), size.end(), 0) != size.end();
  for (size_t d = 0; d < size.size(); ++d) {
    if (strides[d] < 0) {
      fail("host strides " + format_list(strides) + " have a negative entry in dimension " +
           std::to_string(d) + "; a storage is laid out with strides of at least 0");
    }
  }
  if (empty && std::find(strides.begin(), strides.end(), 0) != strides.end()) {
    host_strides = contiguous_strides(size);  // nothing is there for the zeros to repeat
  }
  const bool contiguous = strides == contiguous_strides(size);
  if (!empty && !contiguous) {
    const int64_t span = span_of(size, strides);
    if (!nests(size, strides) || span != product(size)) {
      host_size = {span};
      host_strides = {1};
    }
  }

  // Dimensions in order of decreasing stride; ties (size 1 and empty ones) keep their order, and
  // the dimension of stride 1 with more than one element comes last.
  std::vector<int> order(host_size.size());
  std::iota(order.begin(), order.end(), 0);
  if (!empty && !contiguous) {
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return host_strides[a] > host_strides[b]; });
    const auto stick = std::find_if(order.begin(), order.end(), [&](int d) {
      return host_strides[d] == 1 && host_size[d] > 1;
    });
    if (stick != order.end()) std::rotate(stick, stick + 1, order.end());
  }

  if (order.empty()) {
    layout.device_size_ = {1, eps};
    layout.stride_map_ = {-1, -1};
  } else {
    for (size_t k = 0; k + 1 < order.size(); ++k) {
      push_dim({host_size[order[k]], host_strides[order[k]]}, &layout.device_size_,
               &layout.stride_map_);
    }
    const HostDim last{host_size[order.back()], host_strides[order.back()]};
    push_sticks(last, eps, &layout.device_size_, &layout.stride_map_);
    push_lanes(last, eps, &layout.device_size_, &layout.stride_map_);
  }
  layout.finish();
  layout.set_host(host_size, host_strides, dtype);
  return layout;
}

Layout Layout::generic_stick(const std::vector<int64_t>& size, const std::vector<int64_t>& strides,
                             HostDtype dtype, const std::vector<int64_t>& dim_order) {
  check_host(size, strides);
  Layout layout;
  layout.format_ = device_format(dtype);
  const int64_t eps = format_info(layout.format_).elems_per_stick;

  const auto rank = static_cast<int64_t>(size.size());
  const bool sparse = !dim_order.empty() && dim_order.back() == -1;
  std::vector<bool> seen(size.size(), false);
  const size_t named = dim_order.size() - (sparse ? 1 : 0);
  for (size_t k = 0; k < named; ++k) {
    const int64_t dim = dim_order[k];
    if (dim < 0 || dim >= rank || seen[dim]) {
      fail("dim_order " + format_list(dim_order) + " names dimension " + std::to_string(dim) +
           (dim >= 0 && dim < rank
                ? " twice"
                : ", which a host size of rank " + std::to_string(rank) + " has not") +
           "; expected each of the dimensions 0 to " + std::to_string(rank - 1) +
           " once, and perhaps a trailing -1 for the sparse layout");
    }
    seen[dim] = true;
  }
  if (static_cast<int64_t>(named) != rank) {
    fail("dim_order " + format_list(dim_order) + " names " + std::to_string(named) +
         " dimensions, but host size " + format_list(size) + " has " + std::to_string(rank) +
         "; name each once, and perhaps a trailing -1 for the sparse layout");
  }

  const bool empty = std::find(size.begin(), size.end(), 0) != size.end();
  std::vector<int64_t> host_strides = strides;
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] == 1 || strides[d] > 0) continue;
    if (empty) {  // nothing is there for the stride to lead to
      host_strides = contiguous_strides(size);
    } else {
      fail(
          "host strides " + format_list(strides) + " of size " + format_list(size) +
          " have the entry " + std::to_string(strides[d]) + " in dimension " + std::to_string(d) +
          "; a layout gives each element a place of its own, so strides must be positive: make the "
          "tensor contiguous");
    }
  }

  // The stick of a sparse layout, and of a tensor without dimensions, is along a dimension of one.
  const auto host_dim = [&](int64_t dim) {
    return dim < 0 ? HostDim{1, 1} : HostDim{size[dim], host_strides[dim]};
  };
  std::vector<int64_t> order = dim_order;
  if (order.empty()) order.push_back(-1);
  const HostDim stick = host_dim(order.back());
  for (size_t k = 1; k + 1 < order.size(); ++k) {
    push_dim(host_dim(order[k]), &layout.device_size_, &layout.stride_map_);
  }
  push_sticks(stick, eps, &layout.device_size_, &layout.stride_map_);
  if (order.size() > 1) push_dim(host_dim(order[0]), &layout.device_size_, &layout.stride_map_);
  push_lanes(stick, eps, &layout.device_size_, &layout.stride_map_);
  layout.finish();
  layout.set_host(size, host_strides, dtype);
  return layout;
}

Layout Layout::make(const std::vector<int64_t>& device_size, const std::vector<int64_t>& stride_map,
                    DataFormat format) {
  require_storage(format, "lay out a tensor");
  const int64_t eps = format_info(format).elems_per_stick;
  if (device_size.empty()) {
    fail("device_size is empty; expected at least one dimension, the last of which is a stick of " +
         std::to_string(eps) + " elements");
  }
  if (device_size.size() != stride_map.size()) {
    fail("device_size " + format_list(device_size) + " has " + std::to_string(device_size.size()) +
         " dimensions, but stride_map " + format_list(stride_map) + " has " +
         std::to_string(stride_map.size()) + "; give one host stride (or -1) per device dimension");
  }
  check_size(device_size, "device_size");
  if (device_size.back() != eps) {
    fail("the last entry of device_size " + format_list(device_size) + " is " +
         std::to_string(device_size.back()) + ", but a stick of " + format_info(format).name +
         " holds " + std::to_string(eps) + " elements; split the last dimension into sticks of " +
         std::to_string(eps));
  }
  for (size_t k = 0; k < stride_map.size(); ++k) {
    if (stride_map[k] < 1 && stride_map[k] != -1) {
      fail("stride_map " + format_list(stride_map) + " has the entry " +
           std::to_string(stride_map[k]) + " for device dimension " + std::to_string(k) +
           "; expected a host stride of at least 1, or -1 for a dimension without one");
    }
  }
  Layout layout;
  layout.format_ = format;
  layout.device_size_ = device_size;
  layout.stride_map_ = stride_map;
  layout.finish();
  return layout;
}

Layout Layout::with_host(const std::vector<int64_t>& size, const std::vector<int64_t>& strides,
                         HostDtype dtype) const {
  check_host(size, strides);
  require_codec(dtype, format_);
  Layout layout = *this;
  layout.finish();
  layout.set_host(size, strides, dtype);
  if (!layout.is_dense()) {
    try {
      resolve_view(layout, size, strides, 0);
    } catch (const std::out_of_range& error) {
      throw std::invalid_argument(error.what());
    }
  }
  return layout;
}

std::vector<int64_t> Layout::device_strides() const {
  std::vector<int64_t> strides(device_size_.size());
  int64_t stride = 1;
  for (size_t k = device_size_.size(); k-- > 0;) {
    strides[k] = stride;
    stride *= device_size_[k];
  }
  return strides;
}

/// Computes everything that follows from device_size_, stride_map_ and format_.
void Layout::finish() {
  elems_per_stick_ = format_info(format_).elems_per_stick;
  device_numel_ = product(device_size_);
  int64_t bytes = 0;
  if (checked_mul(device_numel_, kStickBytes / elems_per_stick_ + 1, &bytes)) {
    fail("device_size " + format_list(device_size_) +
         " takes more bytes than a 64-bit integer counts");
  }
  int64_t reach = 0;
  for (size_t k = 0; k < device_size_.size(); ++k) {
    int64_t part = 0;
    if (stride_map_[k] > 0 && device_size_[k] > 0 &&
        (checked_mul(device_size_[k] - 1, stride_map_[k], &part) ||
         checked_add(reach, part, &reach) || reach > kLargestReach)) {
      fail("stride_map " + format_list(stride_map_) + " of device_size " +
           format_list(device_size_) + " reaches further than 2^56 elements");
    }
  }
  digits_.clear();
  host_known_ = false;
  dense_ = true;
  host_span_ = host_numel_ = 0;
  if (device_numel_ == 0) return;

  const std::vector<int64_t> device = device_strides();
  std::vector<int> order;
  order.reserve(device_size_.size());
  digits_.reserve(device_size_.size());
  for (size_t k = 0; k < device_size_.size(); ++k) {
    if (device_size_[k] > 1 && stride_map_[k] > 0) order.push_back(static_cast<int>(k));
  }
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return stride_map_[a] > stride_map_[b]; });
  for (int k : order) {
    if (!digits_.empty() && digits_.back().divisor == stride_map_[k]) {
      fail("stride_map " + format_list(stride_map_) + " of device_size " +
           format_list(device_size_) + " gives two dimensions the host stride " +
           std::to_string(stride_map_[k]) +
           "; an element would have more than one place: strides of dimensions larger than 1 must "
           "differ");
    }
    digits_.push_back({stride_map_[k], device[k], device_size_[k]});
  }

  // The largest host offset with a position: the greatest digit at each step, below the step
  // before.
  int64_t bound = std::numeric_limits<int64_t>::max();  // exclusive, of the remainder
  int64_t largest = 0;
  for (const Digit& digit : digits_) {
    const int64_t quotient = std::min(digit.limit - 1, (bound - 1) / digit.divisor);
    const int64_t part = quotient * digit.divisor;
    largest += part;
    bound = std::min(digit.divisor, bound - part);
  }
  host_span_ = host_numel_ = largest + 1;

  // Merge steps that amount to one, innermost first.
  for (size_t k = digits_.size(); k-- > 1;) {
    Digit& outer = digits_[k - 1];
    const Digit& inner = digits_[k];
    const int64_t ratio = outer.divisor / inner.divisor;
    int64_t merged_stride = 0;
    int64_t merged_limit = 0;
    if (ratio * inner.divisor == outer.divisor && inner.limit >= ratio &&
        !checked_mul(ratio, inner.device_stride, &merged_stride) &&
        merged_stride == outer.device_stride && !checked_mul(outer.limit, ratio, &merged_limit)) {
      outer = {inner.divisor, inner.device_stride, merged_limit};
      digits_.erase(digits_.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  for (size_t k = 1; k < digits_.size(); ++k) {
    const Digit& digit = digits_[k];
    const int64_t needed = (digits_[k - 1].divisor - 1) / digit.divisor + 1;
    if (digit.limit < needed) dense_ = false;
  }
  if (!digits_.empty() && digits_.back().divisor != 1) dense_ = false;
  if (!dense_) host_numel_ = count_positions(digits_);
}

void Layout::set_host(const std::vector<int64_t>& size, const std::vector<int64_t>& strides,
                      HostDtype dtype) {
  const int64_t span = span_of(size, strides);
  for (size_t d = 0; d < size.size(); ++d) {
    if (span && size[d] > 1 && strides[d] <= 0) {
      fail("host strides " + format_list(strides) + " of size " + format_list(size) +
           " have the entry " + std::to_string(strides[d]) + " in dimension " + std::to_string(d) +
           "; a layout gives each element a place of its own, so strides must be positive");
    }
  }
  if (span && !nests(size, strides)) {
    fail("host strides " + format_list(strides) + " of size " + format_list(size) +
         " overlap or interleave; a layout needs each stride to step over everything that the "
         "smaller ones reach: make the tensor contiguous");
  }
  if (span > host_span_ && span > 0) {
    fail("device_size " + format_list(device_size_) + " with stride_map " +
         format_list(stride_map_) + " has positions for host offsets below " +
         std::to_string(host_span_) + ", but size " + format_list(size) + " with strides " +
         format_list(strides) + " needs " + std::to_string(span));
  }
  host_known_ = true;
  host_size_ = size;
  host_strides_ = strides;
  host_dtype_ = dtype;
  host_numel_ = product(size);
  host_span_ = span;
}

int64_t Layout::device_offset(int64_t host_offset) const {
  if (host_offset < 0 || host_offset >= host_span_) {
    throw std::out_of_range("host offset " + std::to_string(host_offset) +
                            " lies outside the layout, which has " +
                            (host_span_ ? "host offsets 0 to " + std::to_string(host_span_ - 1)
                                        : std::string("no elements")) +
                            ": " + repr());
  }
  int64_t rest = host_offset;
  int64_t device = 0;
  for (const Digit& digit : digits_) {
    const int64_t quotient = rest / digit.divisor;
    rest -= quotient * digit.divisor;
    device += quotient * digit.device_stride;
    if (quotient >= digit.limit) rest = -1;
    if (rest < 0) break;
  }
  if (rest != 0) {
    throw std::out_of_range("host offset " + std::to_string(host_offset) + " has no position in " +
                            repr() + "; it falls between the elements");
  }
  return device;
}

int64_t Layout::host_offset(int64_t device_offset) const {
  if (device_offset < 0 || device_offset >= device_numel_) {
    throw std::out_of_range("device offset " + std::to_string(device_offset) +
                            " lies outside the layout's " + std::to_string(device_numel_) +
                            " device elements: " + repr());
  }
  int64_t rest = device_offset;
  int64_t host = 0;
  for (size_t k = device_size_.size(); k-- > 0;) {
    const int64_t coordinate = rest % device_size_[k];
    rest /= device_size_[k];
    if (coordinate == 0) continue;
    if (stride_map_[k] < 0) return -1;
    host += coordinate * stride_map_[k];
  }
  if (host >= host_span_ || map_offset(digits_.data(), digits_.size(), host) != device_offset)
    return -1;
  if (host_known_ && host_span_ != host_numel_) {
    // An offset in a gap between the host's elements is padding too.
    int64_t remainder = host;
    for (int d : nest_order(host_size_, host_strides_)) {
      const int64_t quotient = remainder / host_strides_[d];
      if (quotient >= host_size_[d]) return -1;
      remainder -= quotient * host_strides_[d];
    }
    if (remainder != 0) return -1;
  }
  return host;
}

bool Layout::operator==(const Layout& other) const {
  return format_ == other.format_ && device_size_ == other.device_size_ &&
         stride_map_ == other.stride_map_;
}

size_t Layout::hash() const {
  uint64_t state = 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(format_);
  const auto mix = [&state](uint64_t value) {
    state = (state ^ value) * 0xFF51AFD7ED558CCDull;
    state ^= state >> 32;
  };
  mix(device_size_.size());
  for (int64_t value : device_size_) mix(static_cast<uint64_t>(value));
  for (int64_t value : stride_map_) mix(static_cast<uint64_t>(value));
  return static_cast<size_t>(state);
}

std::string Layout::repr() const {
  return "SpyreTensorLayout(device_size=" + format_list(device_size_) +
         ", stride_map=" + format_list(stride_map_) + ", device_dtype=DataFormats." +
         format_info(format_).name + ")";
}

}  // namespace spyre::layout
