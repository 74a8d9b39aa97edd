// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "spyre/layout/codec.h"
#include "spyre/layout/layout.h"
#include "spyre/layout/view.h"

/// Copies between host arrays and device memory, which convert format and layout in one pass.
namespace spyre::layout {

/// One loop of a transfer. Strides count elements of the respective side and may be negative; zero
/// only on the side that is read.
struct TransferLoop {
  int64_t extent;
  int64_t host_stride;
  int64_t device_stride;
};

/// A loop nest that moves elements. Offsets are those of the element at loop index zero.
struct TransferPiece {
  int64_t host_offset = 0;    ///< elements from the host array's first element (index zero)
  int64_t device_offset = 0;  ///< elements from the start of device memory
  std::vector<TransferLoop> loops;
};

/// Plan of a copy between a host array (size, host_strides) and the view (size, view_strides,
/// storage_offset) of a storage with `layout`. One piece whenever the view is affine; a few, cut at
/// the places where padding or tiling breaks it, otherwise. Loops are in decreasing order of device
/// stride; loops of extent 1 are left out. Throws as resolve_view() does.
std::vector<TransferPiece> transfer_plan(const Layout& layout, const std::vector<int64_t>& size,
                                         const std::vector<int64_t>& host_strides,
                                         const std::vector<int64_t>& view_strides,
                                         int64_t storage_offset, Access access = Access::kRead);

/// Calls body(begin, end) for parts of [0, count), perhaps from several threads at once, and
/// returns when all are done. `grain` is the least number worth a thread.
using ParallelFor = std::function<void(int64_t count, int64_t grain,
                                       const std::function<void(int64_t, int64_t)>& body)>;

/// Runs a loop nest at memory speed. `host` is the address of the element at loop index zero, and
/// `device_offset` counts device elements from `device`. Loops may come in any order. Works on the
/// calling thread alone unless `parallel` is given. The caller vouches for the bounds. Throws
/// std::invalid_argument for a pair without codec, negative extents and overlapping writes by a
/// zero stride.
void run_transfer(const TransferLoop* loops, size_t loop_count, HostDtype dtype, DataFormat format,
                  void* host, void* device, int64_t device_offset, bool to_device,
                  const ParallelFor& parallel = {});

/// A ParallelFor that starts up to `threads` threads (0: as many as the machine has) for each call
/// that is large enough to repay it.
ParallelFor thread_parallel_for(int threads = 0);

/// Copies a strided host array into device memory of `layout` (which holds layout.device_bytes()
/// bytes). `host` is the address of index zero, `size` the size of the array. If the layout knows
/// its host tensor the array is that tensor (equal sizes); otherwise it is laid out row-major.
/// Padding is not touched.
void to_device(const void* host, HostDtype dtype, const std::vector<int64_t>& size,
               const std::vector<int64_t>& host_strides, const Layout& layout, void* device,
               const ParallelFor& parallel = {});

/// Copies the view (size, view_strides, storage_offset) of device memory to a strided host array.
void from_device(const void* device, const Layout& layout, const std::vector<int64_t>& size,
                 const std::vector<int64_t>& view_strides, int64_t storage_offset, void* host,
                 HostDtype dtype, const std::vector<int64_t>& host_strides,
                 const ParallelFor& parallel = {});

/// Moves device bytes from one layout of a host tensor to another, both of one format. Both layouts
/// must have a position for each of the tensor's elements: those of (size, strides), or of `from`'s
/// host tensor in the short form.
void restickify(const Layout& from, const void* source, const Layout& to, void* target,
                const std::vector<int64_t>& size, const std::vector<int64_t>& strides,
                const ParallelFor& parallel = {});
void restickify(const Layout& from, const void* source, const Layout& to, void* target,
                const ParallelFor& parallel = {});

}  // namespace spyre::layout
