// SPDX-License-Identifier: Apache-2.0
// Copies: host to device, device to host, and on or between devices as one-op programs.
#include "torch/copy.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/neg.h>

#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "torch/copy_program.h"
#include "torch/device.h"
#include "torch/errors.h"
#include "torch/launch.h"
#include "torch/memory.h"
#include "torch/tensor.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;
using layout::HostDtype;

// --- host memory that queued copies read or write
// --------------------------------------------------

struct PendingTransfer {
  runtime::Event done;
  at::Tensor host;
};

struct PendingTransfers {
  std::mutex mutex;
  std::list<PendingTransfer> list;
};

// Leaked: at exit the queue may still hold work, and the memory must outlive it.
PendingTransfers& pending() {
  static auto& instance = *new PendingTransfers;
  return instance;
}

void hold_until_done(runtime::StreamId stream, const at::Tensor& host) {
  runtime::Event event(stream.device);
  event.record(stream);
  const std::lock_guard lock(pending().mutex);
  pending().list.push_back({std::move(event), host});
}

// --- where a tensor's elements lie
// -----------------------------------------------------------------

bool is_byte(ScalarType dtype) { return dtype == ScalarType::Byte || dtype == ScalarType::Char; }

bool is_byte(HostDtype dtype) { return dtype == HostDtype::kUInt8 || dtype == HostDtype::kInt8; }

/// A one-dimensional look at all bytes of a storage: how storages are copied.
bool is_whole_storage_bytes(const at::Tensor& tensor) {
  return is_byte(tensor.scalar_type()) && tensor.dim() == 1 && tensor.is_contiguous() &&
         tensor.storage_offset() == 0 &&
         tensor.numel() == static_cast<int64_t>(tensor.storage().nbytes());
}

/// locate() for host copies: bytes of either sign are copied as what the allocation holds, so that
/// raw storages stay raw.
Location locate_for_transfer(const at::Tensor& tensor) {
  if (is_byte(tensor.scalar_type())) {
    const StorageLocation found = locate_storage(*tensor.storage().unsafeGetStorageImpl());
    if (found.allocation != nullptr && is_byte(found.allocation->dtype)) {
      return {found.allocation, found.byte_offset + tensor.storage_offset(), false};
    }
    if (found.allocation != nullptr) {
      return {found.allocation, found.byte_offset + tensor.storage_offset(), true};
    }
  }
  return locate(tensor);
}

int64_t span_of(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return last + 1;
}

/// Host bytes from the tensor's first to its last element, as a CPU tensor with the same strides.
at::Tensor read_span(const at::Tensor& tensor) {
  const Location location = locate_for_transfer(tensor);
  const auto item = static_cast<int64_t>(tensor.itemsize());
  at::Tensor buffer = at::empty({span_of(tensor)}, tensor.options().device(c10::kCPU));
  const StorageLocation storage = locate_storage(*tensor.storage().unsafeGetStorageImpl());
  read_bytes(location.allocation, storage.byte_offset + tensor.storage_offset() * item,
             span_of(tensor) * item, buffer.data_ptr());
  return buffer.as_strided(tensor.sizes(), tensor.strides());
}

void write_span(const at::Tensor& tensor, const at::Tensor& host) {
  const auto item = static_cast<int64_t>(tensor.itemsize());
  const StorageLocation storage = locate_storage(*tensor.storage().unsafeGetStorageImpl());
  write_bytes(storage.allocation, storage.byte_offset + tensor.storage_offset() * item,
              span_of(tensor) * item, host.data_ptr());
}

/// The tensor without its negative bit, whose memory holds the negated values.
at::Tensor without_negative_bit(const at::Tensor& tensor) {
  return tensor.is_neg() ? at::_neg_view(tensor) : tensor;
}

// --- the three directions
// --------------------------------------------------------------------------

void host_to_device(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  at::Tensor source = self.resolve_conj().resolve_neg();
  if (source.scalar_type() != dst.scalar_type()) source = source.to(dst.scalar_type());
  if (source.layout() != c10::kStrided) source = source.to_dense();
  source = source.expand(dst.sizes());
  const Location location = locate_for_transfer(dst);
  if (location.is_reinterpreted) {
    at::Tensor host = read_span(dst);
    host.copy_(source);
    write_span(dst, host);
    return;
  }
  const runtime::StreamId stream = runtime::current_stream(location.allocation->device);
  const bool is_async =
      non_blocking && source.data_ptr() != nullptr && is_pinned_memory(source.data_ptr());
  translated([&] {
    runtime::copy_to_device(stream, location.allocation, location.offset, dst.sizes().vec(),
                            dst.strides().vec(), {source.data_ptr(), source.strides().vec()},
                            !is_async);
    if (is_async) hold_until_done(stream, source);
  });
}

void device_to_host(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  const bool is_direct = self.scalar_type() == dst.scalar_type() && dst.device().is_cpu() &&
                         dst.layout() == c10::kStrided &&
                         at::has_internal_overlap(dst) == at::MemOverlap::No && !dst.is_neg();
  if (is_direct) {
    const at::Tensor source = self.expand(dst.sizes());
    const Location location = locate_for_transfer(source);
    if (!location.is_reinterpreted) {
      const runtime::StreamId stream = runtime::current_stream(location.allocation->device);
      const bool is_async = non_blocking && is_pinned_memory(dst.data_ptr());
      translated([&] {
        runtime::copy_to_host(stream, location.allocation, location.offset, source.sizes().vec(),
                              source.strides().vec(), {dst.data_ptr(), dst.strides().vec()},
                              !is_async);
        if (is_async) hold_until_done(stream, dst);
      });
      return;
    }
  }
  dst.copy_(to_cpu(self));
}

/// Same device. Returns false if the copy needs the host.
bool on_device(const at::Tensor& self, const at::Tensor& dst) {
  if (is_byte(self.scalar_type()) && is_byte(dst.scalar_type()) && is_whole_storage_bytes(self) &&
      is_whole_storage_bytes(dst)) {
    const StorageLocation from = locate_storage(*self.storage().unsafeGetStorageImpl());
    const StorageLocation to = locate_storage(*dst.storage().unsafeGetStorageImpl());
    if (from.byte_offset == 0 && to.byte_offset == 0 &&
        copy_whole(to.allocation, from.allocation)) {
      return true;
    }
  }
  const Location from = locate(self);
  const Location to = locate(dst);
  if (from.is_reinterpreted || to.is_reinterpreted) return false;
  const bool is_whole = self.scalar_type() == dst.scalar_type() && self.sizes() == dst.sizes() &&
                        self.strides() == dst.strides() && self.is_non_overlapping_and_dense() &&
                        from.offset == 0 && to.offset == 0 &&
                        from.allocation->layout_id == to.allocation->layout_id &&
                        static_cast<int64_t>(self.nbytes()) == from.allocation->logical_bytes &&
                        static_cast<int64_t>(dst.nbytes()) == to.allocation->logical_bytes;
  if (is_whole) {
    translated([&] {
      runtime::copy_bytes(runtime::current_stream(to.allocation->device), to.allocation,
                          from.allocation);
    });
    return true;
  }
  launch_copy({from.allocation, from.offset}, {to.allocation, to.offset}, dst.sizes(),
              self.strides(), dst.strides());
  return true;
}

/// Another device of the same kind, through the host. SEN169 values beyond float16's range would
/// not survive there, so they travel as float32.
void between_devices(const at::Tensor& self, const at::Tensor& dst) {
  if (is_whole_storage_bytes(self) && is_whole_storage_bytes(dst) &&
      !locate_for_transfer(self).is_reinterpreted) {
    copy_from(to_cpu(self), dst, /*non_blocking=*/false);
    return;
  }
  if (is_whole_storage_bytes(self) && is_whole_storage_bytes(dst)) {
    // A typed storage into raw bytes elsewhere: take on its dtype and layout, then copy values.
    const StorageLocation from = locate_storage(*self.storage().unsafeGetStorageImpl());
    const StorageLocation to = locate_storage(*dst.storage().unsafeGetStorageImpl());
    if (to.allocation->raw && from.byte_offset == 0 && to.byte_offset == 0) {
      give_type(to.allocation, from.allocation->layout, from.allocation->dtype);
    }
  }
  if (locate_for_transfer(self).is_reinterpreted) {
    copy_from(to_cpu(self), dst, /*non_blocking=*/false);
    return;
  }
  at::Tensor source = self;
  if (source.scalar_type() != dst.scalar_type()) source = source.to(dst.scalar_type());
  const ScalarType dtype = dst.scalar_type();
  if (dtype != ScalarType::Half && dtype != ScalarType::BFloat16) {
    copy_from(to_cpu(source), dst, /*non_blocking=*/false);
    return;
  }
  const auto widen = [](const at::Tensor& from, const at::Tensor& to) {
    const Location a = locate(from);
    const Location b = locate(to);
    launch_copy({a.allocation, a.offset}, {b.allocation, b.offset}, to.sizes(), from.strides(),
                to.strides(), /*keep_infinity_code=*/true);
  };
  const at::Tensor wide = empty(source.sizes(), ScalarType::Float, source.device());
  widen(source, wide);
  const at::Tensor there = empty(source.sizes(), ScalarType::Float, dst.device());
  host_to_device(to_cpu(wide), there, /*non_blocking=*/false);
  if (locate(dst).is_reinterpreted) {
    copy_from(to_cpu(source), dst, /*non_blocking=*/false);
    return;
  }
  widen(there.expand(dst.sizes()), dst);
}

}  // namespace

void release_finished_transfers() {
  const std::lock_guard lock(pending().mutex);
  auto& list = pending().list;
  while (!list.empty() && list.front().done.query()) list.pop_front();
}

at::Tensor to_cpu(const at::Tensor& tensor) {
  const at::Tensor plain = without_negative_bit(tensor);
  at::Tensor host;
  if (plain.numel() == 0) {
    host = at::empty_strided(plain.sizes(), plain.strides(), plain.options().device(c10::kCPU));
  } else if (locate_for_transfer(plain).is_reinterpreted) {
    host = read_span(plain);
  } else {
    host =
        plain.is_non_overlapping_and_dense()
            ? at::empty_strided(plain.sizes(), plain.strides(), plain.options().device(c10::kCPU))
            : at::empty(plain.sizes(), plain.options().device(c10::kCPU));
    const Location location = locate_for_transfer(plain);
    translated([&] {
      runtime::copy_to_host(runtime::current_stream(location.allocation->device),
                            location.allocation, location.offset, plain.sizes().vec(),
                            plain.strides().vec(), {host.data_ptr(), host.strides().vec()},
                            /*blocking=*/true);
    });
  }
  return tensor.is_neg() ? host.neg() : host;
}

void copy_elements(runtime::Allocation* to, const runtime::Allocation* from, int64_t count) {
  if (count == 0) return;
  launch_copy({const_cast<runtime::Allocation*>(from), 0}, {to, 0}, {count}, {1}, {1});
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  release_finished_transfers();
  TORCH_CHECK(self.defined() && dst.defined(), "cannot copy from or to an undefined tensor");
  if (self.is_same(dst)) return dst;
  if (dst.is_meta()) return dst;
  if (is_spyre(dst)) at::assert_no_internal_overlap(dst);
  if (dst.numel() == 0) {
    self.expand(dst.sizes());  // raises if the sizes do not broadcast
    return dst;
  }
  const bool from_spyre = is_spyre(self);
  const bool to_spyre = is_spyre(dst);
  if (to_spyre && dst.is_neg()) {
    const at::Tensor plain = without_negative_bit(dst);
    copy_from(self, plain, non_blocking);
    plain.neg_();
    return dst;
  }
  if (!from_spyre) {
    TORCH_CHECK(self.device().is_cpu(), "cannot copy from ", self.device(), " to ", dst.device(),
                " directly; copy to the CPU first");
    host_to_device(self, dst, non_blocking);
    return dst;
  }
  if (self.is_neg()) {
    const at::Tensor plain = without_negative_bit(self);
    return copy_from(plain.neg(), dst, non_blocking);
  }
  if (!to_spyre) {
    device_to_host(self, dst, non_blocking);
    return dst;
  }
  const at::Tensor source = self.expand(dst.sizes());
  if (self.device() != dst.device()) {
    between_devices(source, dst);
    return dst;
  }
  const bool is_same_view =
      source.storage().unsafeGetStorageImpl() == dst.storage().unsafeGetStorageImpl() &&
      source.storage_offset() == dst.storage_offset() && source.strides() == dst.strides() &&
      source.scalar_type() == dst.scalar_type();
  if (is_same_view) return dst;
  at::assert_no_partial_overlap(dst, source);
  if (!on_device(source, dst)) copy_from(to_cpu(source), dst, /*non_blocking=*/false);
  return dst;
}

}  // namespace spyre::aten
