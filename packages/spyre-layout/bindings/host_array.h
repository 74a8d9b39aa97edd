// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlpack.h"
#include "spyre/layout/formats.h"

/// A strided array lent by a Python object: through the buffer protocol, or through DLPack on the
/// CPU.
namespace spyre::layout::bindings {

namespace py = pybind11;

class HostArray {
 public:
  /// Borrows the memory of `object`. `dtype` says what the elements are where the object cannot say
  /// it itself: bfloat16 in an array of 16-bit integers. Throws TypeError and ValueError.
  static HostArray borrow(py::handle object, std::optional<HostDtype> dtype, bool writable,
                          const char* what) {
    HostArray array;
    std::optional<std::string> own;
    if (array.get_buffer(object)) {
      array.read_buffer(writable, what);
    } else {
      // Lists of numbers, arrays of dtypes without a buffer: what Python can make one of.
      const auto lent = py::module_::import("spyre_layout._arrays")
                            .attr("lend")(object, writable, what)
                            .cast<std::pair<py::object, std::optional<std::string>>>();
      own = lent.second;
      array.from_lent(lent.first, writable, what);
    }
    if (own) array.dtype_ = host_dtype_by_name(*own);
    if (dtype) array.read_as(*dtype, what);
    const auto itemsize = static_cast<uintptr_t>(host_itemsize(array.dtype_));
    if (!array.is_empty() &&
        reinterpret_cast<uintptr_t>(array.data_) % std::min<uintptr_t>(itemsize, 8) != 0) {
      throw py::value_error(std::string(what) +
                            " lies at an address that is not a multiple of its " +
                            std::to_string(itemsize) + "-byte elements; copy it first");
    }
    return array;
  }

  /// Takes integers for the bits of elements of `dtype`.
  void read_as(HostDtype dtype, const char* what) {
    if (dtype == dtype_) return;
    if (!is_integer(dtype_) || host_itemsize(dtype) != host_itemsize(dtype_)) {
      throw py::value_error("cannot read the " + std::string(host_dtype_name(dtype_)) +
                            " elements of " + what + " as " + std::string(host_dtype_name(dtype)) +
                            ": only integers of that width are taken for its bits; convert the "
                            "array, or leave dtype out");
    }
    dtype_ = dtype;
  }

  HostArray(HostArray&& other) noexcept { *this = std::move(other); }
  HostArray& operator=(HostArray&& other) noexcept {
    std::swap(view_, other.view_);
    std::swap(has_view_, other.has_view_);
    std::swap(tensor_, other.tensor_);
    std::swap(versioned_, other.versioned_);
    std::swap(data_, other.data_);
    std::swap(dtype_, other.dtype_);
    std::swap(size_, other.size_);
    std::swap(strides_, other.strides_);
    return *this;
  }
  HostArray(const HostArray&) = delete;
  HostArray& operator=(const HostArray&) = delete;

  ~HostArray() {
    if (has_view_) PyBuffer_Release(&view_);
    if (tensor_ && tensor_->deleter) tensor_->deleter(tensor_);
    if (versioned_ && versioned_->deleter) versioned_->deleter(versioned_);
  }

  void* data() const { return data_; }
  HostDtype dtype() const { return dtype_; }
  const std::vector<int64_t>& size() const { return size_; }
  const std::vector<int64_t>& strides() const { return strides_; }  // in elements

  int64_t numel() const {
    int64_t count = 1;
    for (int64_t extent : size_) count *= extent;
    return count;
  }
  bool is_empty() const { return numel() == 0; }
  int64_t bytes() const { return numel() * host_itemsize(dtype_); }

  bool is_contiguous() const {
    int64_t expected = 1;
    for (size_t d = size_.size(); d-- > 0;) {
      if (size_[d] == 0) return true;
      if (size_[d] != 1 && strides_[d] != expected) return false;
      expected *= size_[d];
    }
    return true;
  }

  /// Whether some byte of the array, from its first to its last, lies in the `bytes` at `data`.
  bool overlaps(const void* data, int64_t bytes) const {
    if (is_empty() || bytes == 0) return false;
    int64_t low = 0;
    int64_t high = 1;
    for (size_t d = 0; d < size_.size(); ++d) {
      (strides_[d] < 0 ? low : high) += (size_[d] - 1) * strides_[d];
    }
    const auto start = reinterpret_cast<uintptr_t>(data_);
    const auto itemsize = static_cast<int64_t>(host_itemsize(dtype_));
    const auto other = reinterpret_cast<uintptr_t>(data);
    return start + static_cast<uintptr_t>(low * itemsize) < other + static_cast<uintptr_t>(bytes) &&
           other < start + static_cast<uintptr_t>(high * itemsize);
  }

  static bool is_integer(HostDtype dtype) {
    switch (dtype) {
      case HostDtype::kInt8:
      case HostDtype::kInt16:
      case HostDtype::kInt32:
      case HostDtype::kInt64:
      case HostDtype::kUInt8:
      case HostDtype::kUInt16:
      case HostDtype::kUInt32:
      case HostDtype::kUInt64: return true;
      default: return false;
    }
  }

  static std::string type_name(py::handle object) {
    return py::str(py::type::handle_of(object).attr("__name__"));
  }

 private:
  HostArray() = default;

  /// False, without an error set, if the object gives no buffer.
  bool get_buffer(py::handle object) {
    has_view_ = PyObject_CheckBuffer(object.ptr()) &&
                PyObject_GetBuffer(object.ptr(), &view_, PyBUF_STRIDES | PyBUF_FORMAT) == 0;
    if (!has_view_) PyErr_Clear();
    return has_view_;
  }

  void from_lent(py::handle lent, bool writable, const char* what) {
    if (get_buffer(lent)) {
      read_buffer(writable, what);
    } else if (py::hasattr(lent, "__dlpack__")) {
      from_dlpack(lent, writable, what);
    } else {
      throw py::type_error(
          std::string(what) + " is a " + type_name(lent) +
          "; expected an object with the buffer protocol (a NumPy array, a memoryview) or "
          "with __dlpack__ (a CPU tensor)");
    }
  }

  void read_buffer(bool writable, const char* what) {
    if (writable && view_.readonly) throw read_only(what);
    dtype_ = dtype_of_format(view_.format, view_.itemsize, what);
    data_ = view_.buf;
    for (int d = 0; d < view_.ndim; ++d) {
      size_.push_back(view_.shape[d]);
      if (view_.strides[d] % view_.itemsize != 0 && view_.shape[d] > 1) {
        throw py::value_error("dimension " + std::to_string(d) + " of " + what +
                              " has a stride of " + std::to_string(view_.strides[d]) +
                              " bytes, which is not a multiple of its " +
                              std::to_string(view_.itemsize) + "-byte elements; copy it first");
      }
      strides_.push_back(view_.shape[d] > 1 ? view_.strides[d] / view_.itemsize : 1);
    }
  }

  void from_dlpack(py::handle object, bool writable, const char* what) {
    const auto device = py::cast<std::pair<int, int>>(object.attr("__dlpack_device__")());
    if (device.first != dlpack::kCpu && device.first != dlpack::kCudaHost) {
      throw py::value_error(std::string(what) + " is a " + type_name(object) +
                            " on DLPack device type " + std::to_string(device.first) +
                            "; move it to the CPU first");
    }
    const py::object capsule = dlpack_capsule(object);
    const dlpack::Tensor* tensor = nullptr;
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
      tensor_ =
          static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
      PyCapsule_SetName(capsule.ptr(), "used_dltensor");
      tensor = &tensor_->tensor;
    } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
      versioned_ = static_cast<dlpack::ManagedTensorVersioned*>(
          PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
      PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
      if (versioned_->major != 1) {
        throw py::value_error(
            std::string(what) + "'s __dlpack__ gave a capsule of DLPack version " +
            std::to_string(versioned_->major) + "." + std::to_string(versioned_->minor) +
            "; expected major version 1: convert it to a NumPy array");
      }
      tensor = &versioned_->tensor;
      if (writable && (versioned_->flags & dlpack::kReadOnly)) throw read_only(what);
    } else {
      throw py::type_error(std::string(what) + "'s __dlpack__ gave no DLPack capsule");
    }
    dtype_ = dtype_of_dlpack(tensor->dtype, what);
    data_ = static_cast<char*>(tensor->data) + tensor->byte_offset;
    size_.assign(tensor->shape, tensor->shape + tensor->ndim);
    if (tensor->strides) {
      strides_.assign(tensor->strides, tensor->strides + tensor->ndim);
    } else {
      strides_.resize(size_.size());
      int64_t stride = 1;
      for (size_t d = size_.size(); d-- > 0;) {
        strides_[d] = stride;
        stride *= size_[d];
      }
    }
  }

  /// The capsule that can say that memory is read-only, if the object knows that kind.
  static py::object dlpack_capsule(py::handle object) {
    const py::object export_array = object.attr("__dlpack__");
    try {
      return export_array(py::arg("max_version") = py::make_tuple(1, 0));
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_TypeError)) throw;
    }
    return export_array();  // an exporter from before DLPack 1.0
  }

  static py::value_error read_only(const char* what) {
    return py::value_error(std::string(what) + " is read-only; give a writable array");
  }

  static HostDtype dtype_of_format(const char* format, Py_ssize_t itemsize, const char* what) {
    std::string text = format ? format : "B";
    const std::string original = text;
    constexpr char kNativeOrder = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? '>' : '<';
    constexpr char kForeignOrder = kNativeOrder == '<' ? '>' : '<';
    if (itemsize > 1 && !text.empty() &&
        (text[0] == kForeignOrder || (text[0] == '!' && kForeignOrder == '>'))) {
      throw py::value_error(std::string(what) + " has elements of buffer format '" + original +
                            "', in the other byte order than this machine's; convert it first "
                            "(NumPy: array.astype(array.dtype.newbyteorder('=')))");
    }
    if (text.size() > 1 && std::string("@=<>!").find(text[0]) != std::string::npos)
      text.erase(0, 1);
    const auto integer = [&](bool is_signed) -> std::optional<HostDtype> {
      switch (itemsize) {
        case 1: return is_signed ? HostDtype::kInt8 : HostDtype::kUInt8;
        case 2: return is_signed ? HostDtype::kInt16 : HostDtype::kUInt16;
        case 4: return is_signed ? HostDtype::kInt32 : HostDtype::kUInt32;
        case 8: return is_signed ? HostDtype::kInt64 : HostDtype::kUInt64;
        default: return std::nullopt;
      }
    };
    std::optional<HostDtype> dtype;
    if (text == "e") dtype = HostDtype::kFloat16;
    if (text == "f") dtype = HostDtype::kFloat32;
    if (text == "d") dtype = HostDtype::kFloat64;
    if (text == "?") dtype = HostDtype::kBool;
    if (text == "Zf") dtype = HostDtype::kComplex64;
    if (text == "Zd") dtype = HostDtype::kComplex128;
    if (text.size() == 1 && std::string("bhilqn").find(text) != std::string::npos)
      dtype = integer(true);
    if (text.size() == 1 && std::string("BHILQNc").find(text) != std::string::npos)
      dtype = integer(false);
    if (dtype && host_itemsize(*dtype) == itemsize) return *dtype;
    throw py::value_error(
        std::string(what) + " has elements of buffer format '" + original + "' and " +
        std::to_string(itemsize) +
        " bytes; expected booleans, integers or floats of at most 8 bytes: convert it to one");
  }

  static HostDtype dtype_of_dlpack(const dlpack::DataType& type, const char* what) {
    struct Entry {
      uint8_t code;
      uint8_t bits;
      HostDtype dtype;
    };
    static constexpr Entry kEntries[] = {
        {dlpack::kInt, 8, HostDtype::kInt8},
        {dlpack::kInt, 16, HostDtype::kInt16},
        {dlpack::kInt, 32, HostDtype::kInt32},
        {dlpack::kInt, 64, HostDtype::kInt64},
        {dlpack::kUInt, 8, HostDtype::kUInt8},
        {dlpack::kUInt, 16, HostDtype::kUInt16},
        {dlpack::kUInt, 32, HostDtype::kUInt32},
        {dlpack::kUInt, 64, HostDtype::kUInt64},
        {dlpack::kFloat, 16, HostDtype::kFloat16},
        {dlpack::kFloat, 32, HostDtype::kFloat32},
        {dlpack::kFloat, 64, HostDtype::kFloat64},
        {dlpack::kBFloat, 16, HostDtype::kBFloat16},
        {dlpack::kBool, 8, HostDtype::kBool},
        {dlpack::kComplex, 32, HostDtype::kComplex32},
        {dlpack::kComplex, 64, HostDtype::kComplex64},
        {dlpack::kComplex, 128, HostDtype::kComplex128},
        {dlpack::kFloat8E4M3FN, 8, HostDtype::kFloat8E4M3FN},
        {dlpack::kFloat8E4M3FNUZ, 8, HostDtype::kFloat8E4M3FNUZ},
        {dlpack::kFloat8E5M2, 8, HostDtype::kFloat8E5M2},
        {dlpack::kFloat8E5M2FNUZ, 8, HostDtype::kFloat8E5M2FNUZ},
        {dlpack::kFloat8E8M0FNU, 8, HostDtype::kFloat8E8M0FNU},
    };
    for (const Entry& entry : kEntries) {
      if (entry.code == type.code && entry.bits == type.bits && type.lanes == 1) return entry.dtype;
    }
    throw py::value_error(std::string(what) + " has elements of DLPack type code " +
                          std::to_string(type.code) + ", " + std::to_string(type.bits) + " bits, " +
                          std::to_string(type.lanes) + " lanes, which is no dtype known here");
  }

  Py_buffer view_{};
  bool has_view_ = false;
  dlpack::ManagedTensor* tensor_ = nullptr;
  dlpack::ManagedTensorVersioned* versioned_ = nullptr;
  void* data_ = nullptr;
  HostDtype dtype_ = HostDtype::kUInt8;
  std::vector<int64_t> size_;
  std::vector<int64_t> strides_;
};

}  // namespace spyre::layout::bindings
