// SPDX-License-Identifier: Apache-2.0
// aten operators that make and resize tensors, read one element and copy.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/fill.h>
#include <ATen/ops/set.h>
#include <torch/library.h>

#include <limits>

#include "torch/copy.h"
#include "torch/device.h"
#include "torch/errors.h"
#include "torch/memory.h"
#include "torch/tensor.h"

namespace spyre::aten {
namespace {

void check_options(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout.has_value() || *layout == c10::kStrided, "layout ",
                              layout.value_or(c10::kStrided),
                              " is not supported on device spyre; use torch.strided");
  TORCH_CHECK(!pin_memory.value_or(false), "only dense CPU tensors can be pinned");
}

c10::Device device_or_current(std::optional<c10::Device> device) {
  return device.value_or(c10::Device(kSpyre));
}

/// torch.use_deterministic_algorithms fills new memory with NaN or the largest value.
at::Tensor with_deterministic_fill(at::Tensor tensor) {
  const at::Context& context = at::globalContext();
  if (C10_LIKELY(!context.deterministicAlgorithms() ||
                 !context.deterministicFillUninitializedMemory())) {
    return tensor;
  }
  if (tensor.numel() == 0) return tensor;
  const c10::ScalarType dtype = tensor.scalar_type();
  if (c10::isFloatingType(dtype)) return tensor.fill_(std::numeric_limits<double>::quiet_NaN());
  switch (dtype) {
    case c10::ScalarType::Bool: return tensor.fill_(true);
    case c10::ScalarType::Byte: return tensor.fill_(std::numeric_limits<uint8_t>::max());
    case c10::ScalarType::Char: return tensor.fill_(std::numeric_limits<int8_t>::max());
    case c10::ScalarType::Short: return tensor.fill_(std::numeric_limits<int16_t>::max());
    case c10::ScalarType::Int: return tensor.fill_(std::numeric_limits<int32_t>::max());
    default: return tensor.fill_(std::numeric_limits<int64_t>::max());
  }
}

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                               std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                               std::optional<bool> pin_memory,
                               std::optional<c10::MemoryFormat> memory_format) {
  check_options(layout, pin_memory);
  const c10::ScalarType type = c10::dtype_or_default(dtype);
  const c10::MemoryFormat format = memory_format.value_or(c10::MemoryFormat::Contiguous);
  if (format == c10::MemoryFormat::Contiguous || format == c10::MemoryFormat::Preserve) {
    return with_deterministic_fill(empty(size, type, device_or_current(device)));
  }
  at::detail::check_size_nonnegative(size);
  const bool is_2d = format == c10::MemoryFormat::ChannelsLast;
  const size_t rank = is_2d ? 4 : 5;
  TORCH_CHECK(size.size() == rank, "required rank ", rank, " tensor to use ",
              is_2d ? "channels_last" : "channels_last_3d", " format, but got one of size ",
              list_text(size));
  const std::vector<int64_t> stride =
      is_2d ? c10::get_channels_last_strides_2d(size) : c10::get_channels_last_strides_3d(size);
  return with_deterministic_fill(empty_strided(size, stride, type, device_or_current(device)));
}

at::Tensor empty_strided_op(at::IntArrayRef size, at::IntArrayRef stride,
                            std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                            std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  TORCH_CHECK(size.size() == stride.size(), "dimensionality of sizes (", size.size(),
              ") must match dimensionality of strides (", stride.size(), ")");
  at::detail::check_size_nonnegative(size);
  for (const int64_t step : stride) {
    TORCH_CHECK(step >= 0, "strides of a new tensor must not be negative, found ",
                list_text(stride));
  }
  return with_deterministic_fill(
      empty_strided(size, stride, c10::dtype_or_default(dtype), device_or_current(device)));
}

/// Makes the storage of `self` hold `size_bytes`, in a layout that suits the tensor's new shape.
void grow_storage(const at::Tensor& self, int64_t size_bytes, at::IntArrayRef size,
                  at::IntArrayRef stride) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  c10::StorageImpl& storage = *impl->unsafe_storage().unsafeGetStorageImpl();
  if (size_bytes <= static_cast<int64_t>(storage.nbytes())) return;
  const layout::HostDtype dtype = host_dtype(self.scalar_type());
  const int64_t count = size_bytes / layout::host_itemsize(dtype);
  const bool fills = impl->storage_offset() == 0 && c10::multiply_integers(size) == count;
  const layout::Layout layout = translated([&] {
    return fills ? layout::Layout::strided(size.vec(), stride.vec(), dtype)
                 : layout::Layout::row_major({count}, dtype);
  });
  resize_storage(storage, size_bytes, &layout, &dtype);
}

void set_size_and_storage(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (impl->sizes() == size && impl->strides() == stride) return;
  if (c10::multiply_integers(size) > 0) {
    const auto needed = static_cast<int64_t>(at::detail::computeStorageNbytes(
        size, stride, impl->itemsize(), static_cast<size_t>(impl->storage_offset())));
    grow_storage(self, needed, size, stride);
  }
  impl->set_sizes_and_strides(size, stride);
}

const at::Tensor& resize_op(const at::Tensor& self, at::IntArrayRef size,
                            std::optional<c10::MemoryFormat> memory_format) {
  at::detail::check_size_nonnegative(size);
  const auto former_bytes = static_cast<int64_t>(self.storage().nbytes());
  if (self.sizes() != size) set_size_and_storage(self, size, c10::contiguous_strides(size));
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format != c10::MemoryFormat::Preserve, "unsupported memory format ",
                *memory_format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  const at::Context& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() &&
                   context.deterministicFillUninitializedMemory())) {
    const auto item = static_cast<int64_t>(self.itemsize());
    const int64_t former = former_bytes / item;
    const int64_t now = static_cast<int64_t>(self.storage().nbytes()) / item;
    if (now > former) with_deterministic_fill(self.as_strided({now - former}, {1}, former));
  }
  return self;
}

at::Tensor& set_storage_op(at::Tensor& self, at::Storage source, int64_t storage_offset,
                           at::IntArrayRef size, at::IntArrayRef stride) {
  const auto contiguous = c10::contiguous_strides(size);
  const at::IntArrayRef steps =
      stride.empty() && !size.empty() ? at::IntArrayRef(contiguous) : stride;
  at::native::checkSetStorage(self, std::move(source), storage_offset, size, steps);
  self.unsafeGetTensorImpl()->set_storage_offset(storage_offset);
  set_size_and_storage(self, size, steps);
  return self;
}

at::Tensor& set_storage_whole(at::Tensor& self, at::Storage source) {
  const int64_t count = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage_op(self, std::move(source), 0, {count}, {1});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return set_storage_op(self, source.storage(), source.storage_offset(), source.sizes(),
                        source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  at::Storage storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), 0,
      c10::DataPtr(nullptr, nullptr, device_allocator()->raw_deleter(), self.device()),
      device_allocator(), /*resizable=*/true));
  return set_storage_op(self, std::move(storage), 0, {0}, {1});
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "a tensor with ", self.numel(),
              " elements cannot be converted to a scalar");
  return to_cpu(self).item();
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  return copy_from(self, dst, /*non_blocking=*/false);
}

void record_stream(at::Tensor& self, at::Stream stream) {
  record_use(self.storage().data_ptr(), to_stream_id(stream));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_strided_op);
  m.impl("resize_", resize_op);
  m.impl("set_.source_Storage_storage_offset", set_storage_op);
  m.impl("set_.source_Storage", set_storage_whole);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_", set_nothing);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("record_stream", record_stream);
}

// The copy itself looks at these bits: without this, x.conj().cpu() would recurse without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace spyre::aten
