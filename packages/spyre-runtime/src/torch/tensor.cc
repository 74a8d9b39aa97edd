// SPDX-License-Identifier: Apache-2.0
#include "torch/tensor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>

#include "torch/device.h"
#include "torch/errors.h"
#include "torch/memory.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;
using layout::HostDtype;

struct DtypeRow {
  ScalarType torch;
  HostDtype host;
};

constexpr DtypeRow kDtypes[] = {
    {ScalarType::Half, HostDtype::kFloat16},
    {ScalarType::BFloat16, HostDtype::kBFloat16},
    {ScalarType::Float, HostDtype::kFloat32},
    {ScalarType::Bool, HostDtype::kBool},
    {ScalarType::Char, HostDtype::kInt8},
    {ScalarType::Short, HostDtype::kInt16},
    {ScalarType::Int, HostDtype::kInt32},
    {ScalarType::Long, HostDtype::kInt64},
    {ScalarType::Byte, HostDtype::kUInt8},
    {ScalarType::Float8_e4m3fn, HostDtype::kFloat8E4M3FN},
    {ScalarType::Float8_e5m2fnuz, HostDtype::kFloat8E5M2FNUZ},
};

struct Advice {
  ScalarType torch;
  const char* name;
  const char* text;
};

constexpr Advice kAdvice[] = {
    {ScalarType::Double, "float64", "cast it to float32 with .float() or to float16 with .half()"},
    {ScalarType::Float8_e5m2, "float8_e5m2", "cast it to float8_e5m2fnuz, which the device stores"},
    {ScalarType::Float8_e4m3fnuz, "float8_e4m3fnuz",
     "cast it to float8_e4m3fn, which the device stores"},
    {ScalarType::ComplexHalf, "complex32", "split it with torch.view_as_real(x) on the CPU"},
    {ScalarType::ComplexFloat, "complex64", "split it with torch.view_as_real(x) on the CPU"},
    {ScalarType::ComplexDouble, "complex128",
     "split it with torch.view_as_real(x) on the CPU and cast the parts with .float()"},
    {ScalarType::UInt16, "uint16", "cast it to int32"},
    {ScalarType::UInt32, "uint32", "cast it to int64"},
    {ScalarType::UInt64, "uint64", "cast it to int64"},
};

std::optional<HostDtype> lookup(ScalarType dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.torch == dtype) return row.host;
  }
  return std::nullopt;
}

/// Whether the strides fill memory without gaps or overlaps, in some order of the dimensions.
bool is_dense(at::IntArrayRef size, at::IntArrayRef stride) {
  int64_t numel = 1;
  for (const int64_t extent : size) numel *= extent;
  if (numel == 0) return true;
  c10::SmallVector<int, 8> order(size.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return stride[a] < stride[b]; });
  int64_t expected = 1;
  for (const int d : order) {
    if (size[d] == 1) continue;
    if (stride[d] != expected) return false;
    expected *= size[d];
  }
  return true;
}

layout::Layout layout_for(at::IntArrayRef size, at::IntArrayRef stride, HostDtype dtype) {
  return layout::Layout::strided(size.vec(), stride.vec(), dtype);
}

/// Memory for arguments without any: programs never touch it, but want an allocation of the dtype.
runtime::Allocation* placeholder(int device, HostDtype dtype) {
  constexpr size_t kDevices = 128;
  static auto& made = *new std::array<std::array<runtime::Allocation*, 64>, kDevices>{};
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  runtime::Allocation*& entry = made.at(static_cast<size_t>(device)).at(static_cast<size_t>(dtype));
  if (entry == nullptr) {
    entry = allocate_typed(device, layout::Layout::row_major({1}, dtype), dtype,
                           layout::host_itemsize(dtype));
  }
  return entry;
}

c10::DataPtr no_memory(int device) {
  check_usable();
  return {nullptr, nullptr, device_allocator()->raw_deleter(),
          c10::Device(kSpyre, static_cast<c10::DeviceIndex>(device))};
}

/// Contiguous without `stride`.
at::Tensor make_tensor(c10::DataPtr data, int64_t size_bytes, at::IntArrayRef size,
                       at::OptionalIntArrayRef stride, ScalarType dtype) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(size_bytes), std::move(data),
      device_allocator(), /*resizable=*/true);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
  if (stride.has_value()) {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(size, *stride);
  } else {
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  }
  return tensor;
}

}  // namespace

std::optional<HostDtype> maybe_host_dtype(ScalarType dtype) { return lookup(dtype); }

HostDtype host_dtype(ScalarType dtype) {
  if (const auto found = lookup(dtype)) return *found;
  const char* advice = "cast it to float32 or float16";
  for (const Advice& row : kAdvice) {
    if (row.torch == dtype) advice = row.text;
  }
  throw_no_format("dtype " + dtype_name(dtype) + " has no format on device spyre; " + advice);
}

std::string dtype_name(ScalarType dtype) {
  if (const auto found = lookup(dtype)) return std::string(layout::host_dtype_name(*found));
  for (const Advice& row : kAdvice) {
    if (row.torch == dtype) return row.name;
  }
  return c10::toString(dtype);
}

ScalarType scalar_type(HostDtype dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.host == dtype) return row.torch;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "host dtype ", layout::host_dtype_name(dtype),
                              " has no PyTorch dtype");
}

bool is_sen169(ScalarType dtype) {
  return dtype == ScalarType::Half || dtype == ScalarType::BFloat16 || dtype == ScalarType::Bool;
}

at::Tensor empty(at::IntArrayRef size, ScalarType dtype, c10::Device device) {
  at::detail::check_size_nonnegative(size);
  const HostDtype host = host_dtype(dtype);
  const int index = checked_device(device);
  const auto size_bytes = static_cast<int64_t>(at::detail::computeStorageNbytesContiguous(
      size, static_cast<size_t>(layout::host_itemsize(host))));
  if (size_bytes == 0) return make_tensor(no_memory(index), 0, size, std::nullopt, dtype);
  // The way of almost every tensor: the layout is looked up, not made.
  runtime::Allocation* allocation = translated([&] {
    return allocate_interned(index, runtime::intern_row_major(size.data(), size.size(), host),
                             size_bytes);
  });
  return make_tensor(wrap_allocation(allocation), size_bytes, size, std::nullopt, dtype);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, ScalarType dtype,
                         c10::Device device) {
  const HostDtype host = host_dtype(dtype);
  const int index = checked_device(device);
  const int64_t item = layout::host_itemsize(host);
  const auto size_bytes = static_cast<int64_t>(
      at::detail::computeStorageNbytes(size, stride, static_cast<size_t>(item)));
  if (size_bytes == 0) return make_tensor(no_memory(index), 0, size, stride, dtype);
  runtime::Allocation* allocation = translated([&] {
    return allocate_interned(
        index, runtime::intern_strided(size.data(), stride.data(), size.size(), host), size_bytes);
  });
  return make_tensor(wrap_allocation(allocation), size_bytes, size, stride, dtype);
}

at::Tensor empty_like(const at::Tensor& like) {
  const at::IntArrayRef size = like.sizes();
  if (like.is_non_overlapping_and_dense()) {
    return empty_strided(size, like.strides(), like.scalar_type(), like.device());
  }
  return empty_strided(size, at::infer_dense_strides(size, like.strides()), like.scalar_type(),
                       like.device());
}

Location locate(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const c10::StorageImpl& storage = *impl->unsafe_storage().unsafeGetStorageImpl();
  const StorageLocation found = locate_storage(storage);
  const ScalarType dtype = impl->dtype().toScalarType();
  if (found.allocation == nullptr) {
    TORCH_CHECK(tensor.numel() == 0, "a spyre tensor of size ", list_text(tensor.sizes()),
                " has no memory behind it; its storage was resized to 0 bytes");
    return {placeholder(checked_device(tensor.device()), host_dtype(dtype)), 0, false};
  }
  const auto item = static_cast<int64_t>(impl->itemsize());
  Location location{found.allocation, impl->storage_offset(), false};
  const HostDtype host = host_dtype(dtype);
  if (found.allocation->raw && found.allocation->dtype != host && found.byte_offset == 0 &&
      found.allocation->logical_bytes % item == 0) {
    const int64_t count = found.allocation->logical_bytes / item;
    const bool fills = impl->storage_offset() == 0 && tensor.numel() == count &&
                       is_dense(tensor.sizes(), tensor.strides());
    give_type(found.allocation, translated([&] {
                return fills ? layout::Layout::strided(tensor.sizes().vec(), tensor.strides().vec(),
                                                       host)
                             : layout::Layout::row_major({count}, host);
              }),
              host);
  }
  TORCH_CHECK_VALUE(found.byte_offset % item == 0, "a spyre tensor of dtype ", dtype,
                    " starts at byte ", found.byte_offset,
                    " of its memory, which is not a multiple of ", item);
  location.offset += found.byte_offset / item;
  location.is_reinterpreted |= found.allocation->dtype != host;
  return location;
}

layout::Layout layout_of(const at::Tensor& tensor) {
  const StorageLocation found = locate_storage(*tensor.storage().unsafeGetStorageImpl());
  if (found.allocation == nullptr) {
    const HostDtype host = host_dtype(tensor.scalar_type());
    return translated([&] { return layout_for(tensor.sizes(), tensor.strides(), host); });
  }
  return locate(tensor).allocation->layout;
}

void set_layout(const at::Tensor& tensor, const layout::Layout& layout) {
  const HostDtype host = host_dtype(tensor.scalar_type());
  const Location location = locate(tensor);
  const std::string what = "cannot lay out a spyre tensor of size " + list_text(tensor.sizes()) +
                           " and dtype " + std::string(layout::host_dtype_name(host)) +
                           " as device size " + list_text(layout.device_size()) + ", stride map " +
                           list_text(layout.stride_map());
  TORCH_CHECK_VALUE(layout.format() == layout::device_format(host), what, ": its format is ",
                    layout::format_info(layout.format()).name, ", the dtype needs ",
                    layout::format_info(layout::device_format(host)).name);
  TORCH_CHECK_VALUE(!location.is_reinterpreted, what, ": its storage holds elements of dtype ",
                    layout::host_dtype_name(location.allocation->dtype),
                    "; lay out the tensor that was viewed instead");
  if (tensor.storage().nbytes() == 0) return;
  const layout::Layout& former = location.allocation->layout;
  const int64_t count = location.allocation->logical_bytes / layout::host_itemsize(host);
  const bool knows_host = former.host_known() && former.host_numel() == count;
  layout::Layout fitted;
  try {
    fitted = knows_host ? layout.with_host(former.host_size(), former.host_strides(), host)
                        : layout.with_host({count}, {1}, host);
  } catch (const std::exception& error) {
    TORCH_CHECK_VALUE(false, what, ": it has no place for some of the ", count,
                      " elements that the storage holds (", error.what(), ")");
  }
  change_layout(location.allocation, fitted);
}

}  // namespace spyre::aten
