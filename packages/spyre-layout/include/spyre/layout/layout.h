// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "spyre/layout/formats.h"

/// Tiled layouts: where each element of a host tensor lies in device memory.
namespace spyre::layout {

/// One step of the way from a host offset to a device offset. See Layout::digits().
struct Digit {
  int64_t divisor;        ///< in host elements
  int64_t device_stride;  ///< in device elements
  int64_t limit;          ///< the quotient is below this wherever the layout has a position
};

/// Device offset of host offset `offset`: each digit takes its quotient off the remainder that the
/// one before it left. The caller vouches for 0 <= offset < host_span().
inline int64_t map_offset(const Digit* digits, size_t count, int64_t offset) {
  int64_t device = 0;
  for (size_t k = 0; k < count; ++k) {
    const int64_t quotient = offset / digits[k].divisor;
    offset -= quotient * digits[k].divisor;
    device += quotient * digits[k].device_stride;
  }
  return device;
}

/// How a tensor lies in device memory: a value, cheap to copy, safe to share between threads.
///
/// Device memory is row-major over device_size(), in whole sticks: the last device dimension is one
/// stick. stride_map() gives the host stride of each device dimension, or -1 for a dimension that
/// stands for no host dimension, and
///
///     host offset = sum over k of device coordinate[k] * stride_map[k]
///
/// for every device position that holds an element. Positions that hold none are padding, with
/// unspecified contents. Where several positions come to one host offset (the padding of a row
/// reaches into the next one) the element is at the position whose coordinates along the largest
/// strides are the largest, and the others are padding. Offsets count elements from the start of
/// the storage.
class Layout {
 public:
  /// The empty layout: no dimensions. Only good for being assigned to.
  Layout() = default;

  /// Row-major sticks, the default: the last host dimension is split into (sticks, elements per
  /// stick), the others keep their order. Throws std::invalid_argument.
  static Layout row_major(const std::vector<int64_t>& size, HostDtype dtype);

  /// The default layout of a storage allocated for (size, strides): row-major sticks with the
  /// dimensions in order of decreasing stride. Strides that are not dense (gaps or overlaps) give
  /// the layout of the flat tensor of all elements that they span, so that every host offset has a
  /// position.
  static Layout strided(const std::vector<int64_t>& size, const std::vector<int64_t>& strides,
                        HostDtype dtype);

  /// Generic sticks: device dimensions [dim_order[1:], dim_order[0]] followed by the stick, whose
  /// dimension is the last entry of dim_order. A trailing -1 makes the sparse layout, one element
  /// per stick. Throws std::invalid_argument.
  static Layout generic_stick(const std::vector<int64_t>& size, const std::vector<int64_t>& strides,
                              HostDtype dtype, const std::vector<int64_t>& dim_order);

  /// As given. Throws std::invalid_argument when the parts do not make a layout.
  static Layout make(const std::vector<int64_t>& device_size,
                     const std::vector<int64_t>& stride_map, DataFormat format);

  /// The same layout, knowing the host tensor that it is of (which tells padding apart exactly).
  /// Throws std::invalid_argument if some element of that tensor has no position, and for a dtype
  /// that no codec converts to the layout's format.
  Layout with_host(const std::vector<int64_t>& size, const std::vector<int64_t>& strides,
                   HostDtype dtype) const;

  const std::vector<int64_t>& device_size() const { return device_size_; }
  const std::vector<int64_t>& stride_map() const { return stride_map_; }
  DataFormat format() const { return format_; }
  int64_t elems_per_stick() const { return elems_per_stick_; }

  /// Elements on the device, padding included.
  int64_t device_numel() const { return device_numel_; }
  /// Bytes on the device: a multiple of kStickBytes.
  int64_t device_bytes() const { return device_numel_ / elems_per_stick_ * kStickBytes; }
  /// Device stride of each device dimension, in elements.
  std::vector<int64_t> device_strides() const;

  /// Whether the host tensor is known; explicit layouts know none.
  bool host_known() const { return host_known_; }
  const std::vector<int64_t>& host_size() const { return host_size_; }
  const std::vector<int64_t>& host_strides() const { return host_strides_; }
  /// Only meaningful if host_known().
  HostDtype host_dtype() const { return host_dtype_; }

  /// Elements of the host tensor; for an explicit layout, all that have a position.
  int64_t host_numel() const { return host_numel_; }
  /// One more than the largest host offset that has a position; 0 for an empty layout.
  int64_t host_span() const { return host_span_; }
  /// Whether every host offset below host_span() has a position.
  bool is_dense() const { return dense_; }

  /// The way from host to device offsets, for map_offset(). Steps that amount to one are merged.
  const std::vector<Digit>& digits() const { return digits_; }

  /// Device offset of an element. Throws std::out_of_range if the layout has no position for it.
  int64_t device_offset(int64_t host_offset) const;
  /// Host offset of a device position, -1 for padding. Throws std::out_of_range.
  int64_t host_offset(int64_t device_offset) const;

  /// Equal device size, stride map and format. What is known of the host plays no part.
  bool operator==(const Layout& other) const;
  bool operator!=(const Layout& other) const { return !(*this == other); }
  size_t hash() const;

  /// "SpyreTensorLayout(device_size=[4, 2, 64], stride_map=[128, 64, 1],
  /// device_dtype=DataFormats.SEN169_FP16)", on one line.
  std::string repr() const;

 private:
  void finish();
  void set_host(const std::vector<int64_t>& size, const std::vector<int64_t>& strides,
                HostDtype dtype);

  std::vector<int64_t> device_size_;
  std::vector<int64_t> stride_map_;
  std::vector<int64_t> host_size_;
  std::vector<int64_t> host_strides_;
  std::vector<Digit> digits_;
  DataFormat format_ = DataFormat::kInvalid;
  HostDtype host_dtype_ = HostDtype::kFloat16;
  int64_t elems_per_stick_ = 1;
  int64_t device_numel_ = 0;
  int64_t host_numel_ = 0;
  int64_t host_span_ = 0;
  bool host_known_ = false;
  bool dense_ = true;
};

/// Row-major strides of `size`, as PyTorch computes them (a dimension of size 0 counts as 1).
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& size);

}  // namespace spyre::layout
