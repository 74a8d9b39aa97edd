// SPDX-License-Identifier: Apache-2.0
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "convert.h"
#include "host_array.h"
#include "spyre/layout/transfer.h"
#include "spyre/layout/version.h"

// The thin layer between Python values and the library: formats cross as integers, dtypes as names,
// arrays as borrowed memory. The Python modules of the package give it its shape.
namespace spyre::layout::bindings {
namespace {

using Ints = std::vector<int64_t>;
using Name = std::optional<std::string>;

std::optional<HostDtype> dtype_of(const Name& name) {
  if (!name) return std::nullopt;
  return host_dtype_by_name(*name);
}

/// A new array of the package's choice: NumPy's if there is NumPy, else a memoryview.
py::object new_array(HostDtype dtype, const Ints& size) {
  return py::module_::import("spyre_layout._arrays")
      .attr("empty")(std::string(host_dtype_name(dtype)), size);
}

void refuse_overlap(const HostArray& array, const char* name, const void* data, int64_t bytes,
                    const char* other) {
  if (!array.overlaps(data, bytes)) return;
  throw py::value_error(std::string(name) + " and " + other +
                        " share memory, so that elements would be overwritten before they are "
                        "read; give memory of its own");
}

HostDtype code_dtype(DataFormat format) {
  const int bits = format_info(format).bits;
  return bits <= 8    ? HostDtype::kUInt8
         : bits == 16 ? HostDtype::kUInt16
         : bits == 32 ? HostDtype::kUInt32
                      : HostDtype::kUInt64;
}

/// Dtypes that NumPy has no arrays of.
bool is_foreign(HostDtype dtype) {
  switch (dtype) {
    case HostDtype::kBFloat16:
    case HostDtype::kFloat8E4M3FN:
    case HostDtype::kFloat8E5M2FNUZ: return true;
    default: return false;
  }
}

/// Whether an array of dtype `own` may be filled with elements of `wanted`: their equal, or
/// integers that take their bits where plain arrays (a memoryview has no float16) cannot have them.
bool can_hold(HostDtype own, HostDtype wanted) {
  if (own == wanted) return true;
  return HostArray::is_integer(own) && host_itemsize(own) == host_itemsize(wanted) &&
         (is_foreign(wanted) || wanted == HostDtype::kFloat16);
}

/// Memory that a result is written to: the caller's `out`, checked, or a new array.
class Output {
 public:
  /// `codes`: bits, which integers of either sign may take.
  Output(const py::object& out, HostDtype dtype, const Ints& size, bool codes)
      : object_(out.is_none() ? new_array(dtype, size) : out),
        array_(HostArray::borrow(object_, std::nullopt, true, "out")) {
    const HostDtype own = array_.dtype();
    if (out.is_none()) return;
    const bool same_kind = can_hold(own, dtype) || (codes && HostArray::is_integer(own) &&
                                                    host_itemsize(own) == host_itemsize(dtype));
    const bool same_size =
        array_.size() == size || (array_.size().size() == 1 && array_.numel() == count(size));
    if (!same_kind || !same_size || !array_.is_contiguous()) {
      throw py::value_error(
          "out is an array of size " + format_list(array_.size()) + " of " +
          std::string(host_dtype_name(own)) + (array_.is_contiguous() ? "" : ", not contiguous") +
          "; expected a contiguous one of size " + format_list(size) + ", or a flat one of " +
          std::to_string(count(size)) + ", of " + std::string(host_dtype_name(dtype)));
    }
  }

  void* data() const { return array_.data(); }
  const py::object& object() const { return object_; }

  /// Throws if the elements of `source` would be overwritten before they are read.
  void check_overlap(const HostArray& source) const {
    if (!source.is_contiguous()) return;  // copied first
    const bool in_place = source.data() == array_.data() &&
                          host_itemsize(source.dtype()) == host_itemsize(array_.dtype());
    if (!in_place) refuse_overlap(source, "the array read", array_.data(), array_.bytes(), "out");
  }

 private:
  static int64_t count(const Ints& size) {
    int64_t count = 1;
    for (int64_t extent : size) count *= extent;
    return count;
  }

  py::object object_;
  HostArray array_;
};

/// Calls body(begin, end) for parts of [0, count), several at once if there is enough to do. Part
/// limits are multiples of 1024 elements, so that packed codes of different parts share no byte.
void for_parts(int64_t count, const std::function<void(int64_t, int64_t)>& body) {
  constexpr int64_t kUnit = 1024;
  const int64_t units = (count + kUnit - 1) / kUnit;
  thread_parallel_for()(units, 128, [&](int64_t begin, int64_t end) {
    body(begin * kUnit, std::min(count, end * kUnit));
  });
}

/// The elements of an array, contiguous: itself, or a copy.
class Contiguous {
 public:
  explicit Contiguous(const HostArray& array) : data_(static_cast<const char*>(array.data())) {
    if (array.is_contiguous()) return;
    copy_.resize(static_cast<size_t>(array.bytes()));
    const Ints& size = array.size();
    const Ints dense = contiguous_strides(size);
    std::vector<TransferLoop> loops;
    for (size_t d = 0; d < size.size(); ++d)
      loops.push_back({size[d], array.strides()[d], dense[d]});
    const auto [dtype, format] = detail::copying_pair(host_itemsize(array.dtype()));
    run_transfer(loops.data(), loops.size(), dtype, format, array.data(), copy_.data(), 0, true,
                 thread_parallel_for());
    data_ = copy_.data();
  }

  const char* data() const { return data_; }

 private:
  const char* data_;
  std::vector<char> copy_;
};

/// Codes of a format, borrowed: integers of its width.
HostArray borrow_codes(const py::object& codes, DataFormat format) {
  HostArray array = HostArray::borrow(codes, std::nullopt, false, "codes");
  const HostDtype wanted = code_dtype(format);
  const HostDtype own = array.dtype();
  const bool is_bool = own == HostDtype::kBool && format == DataFormat::kBool;
  if (host_itemsize(own) != host_itemsize(wanted) || !(HostArray::is_integer(own) || is_bool)) {
    throw py::type_error("codes are " + std::string(host_dtype_name(own)) + ", but those of " +
                         format_info(format).name +
                         (format_info(format).bits < 8 ? ", a byte each or packed," : "") +
                         " are " + std::string(host_dtype_name(wanted)) +
                         "; convert the array to that, or view its bits as that");
  }
  return array;
}

/// encode(): values by value, one code an element, also for sub-byte formats.
py::object encode_values(const py::object& values, int format_value, bool saturate,
                         const py::object& out) {
  const auto format = static_cast<DataFormat>(format_value);
  require_storage(format, "encode values");
  const HostArray array = HostArray::borrow(values, std::nullopt, false, "values");
  const HostDtype host = array.dtype();
  require_codec(host, format);
  const Output output(out, code_dtype(format), array.size(), true);
  output.check_overlap(array);
  const Overflow overflow = saturate ? Overflow::kSaturate : Overflow::kDefault;
  const int bits = format_info(format).bits;
  const int width = host_itemsize(code_dtype(format));
  const int itemsize = host_itemsize(host);
  // encode_from() would apply the rules of copies: values go through the widest type of their kind,
  // which has none. float64 and uint64 have none themselves, and are wider.
  const bool direct = host == HostDtype::kFloat64 || host == HostDtype::kUInt64;
  const bool integral = HostArray::is_integer(host) || host == HostDtype::kBool;
  {
    const py::gil_scoped_release release;
    const Contiguous source(array);
    for_parts(array.numel(), [&](int64_t begin, int64_t end) {
      constexpr int64_t kChunk = 1024;
      alignas(64) float floats[kChunk];
      alignas(64) int64_t integers[kChunk];
      uint8_t packed[kChunk];
      for (int64_t start = begin; start < end; start += kChunk) {
        const int64_t n = std::min(kChunk, end - start);
        char* codes = static_cast<char*>(output.data()) + start * width;
        void* target = bits < 8 ? static_cast<void*>(packed) : codes;
        const char* from = source.data() + start * itemsize;
        if (direct) {
          encode_from(host, from, format, target, n, overflow);
        } else if (integral) {
          encode_from(host, from, DataFormat::kIeeeInt64, integers, n);
          encode(integers, format, target, n, overflow);
        } else {
          encode_from(host, from, DataFormat::kIeeeFp32, floats, n);
          encode(floats, format, target, n, overflow);
        }
        if (bits < 8) {
          for (int64_t i = 0; i < n; ++i)
            codes[i] = static_cast<char>(detail::read_packed(packed, i, bits));
        }
      }
    });
  }
  return output.object();
}

/// decode(): one code an element to float32, int64 or bool.
py::object decode_values(const py::object& codes, int format_value, const py::object& out) {
  const auto format = static_cast<DataFormat>(format_value);
  require_storage(format, "decode codes");
  const HostArray array = borrow_codes(codes, format);
  const int bits = format_info(format).bits;
  const int width = host_itemsize(code_dtype(format));
  const FormatKind kind = format_info(format).kind;
  const HostDtype result = kind == FormatKind::kFloat  ? HostDtype::kFloat32
                           : kind == FormatKind::kBool ? HostDtype::kBool
                                                       : HostDtype::kInt64;
  const Output output(out, result, array.size(), false);
  output.check_overlap(array);
  {
    const py::gil_scoped_release release;
    const Contiguous source(array);
    for_parts(array.numel(), [&](int64_t begin, int64_t end) {
      constexpr int64_t kChunk = 1024;
      uint8_t packed[kChunk];
      for (int64_t start = begin; start < end; start += kChunk) {
        const int64_t n = std::min(kChunk, end - start);
        const char* from = source.data() + start * width;
        if (bits < 8) {
          for (int64_t i = 0; i < n; ++i) {
            const auto code = static_cast<uint8_t>(from[i]);
            if (code >> bits) {
              throw std::invalid_argument(std::to_string(code) + " is not a code of " +
                                          format_info(format).name + "; expected 0 to " +
                                          std::to_string((1 << bits) - 1));
            }
            detail::write_packed(packed, i, bits, code);
          }
          from = reinterpret_cast<const char*>(packed);
        }
        decode_to(result, from, format,
                  static_cast<char*>(output.data()) + start * host_itemsize(result), n);
      }
    });
  }
  return output.object();
}

/// encode_from(): a host copy in, to packed codes.
py::object encode_host(const py::object& values, const Name& dtype, int format_value, bool saturate,
                       const py::object& out) {
  const auto format = static_cast<DataFormat>(format_value);
  const HostArray array = HostArray::borrow(values, dtype_of(dtype), false, "array");
  require_codec(array.dtype(), format);
  const int bits = format_info(format).bits;
  const Ints size = bits < 8 ? Ints{packed_bytes(format, array.numel())} : array.size();
  const Output output(out, code_dtype(format), size, true);
  output.check_overlap(array);
  {
    const py::gil_scoped_release release;
    const Contiguous source(array);
    for_parts(array.numel(), [&](int64_t begin, int64_t end) {
      encode_from(array.dtype(), source.data() + begin * host_itemsize(array.dtype()), format,
                  static_cast<char*>(output.data()) + begin * bits / 8, end - begin,
                  saturate ? Overflow::kSaturate : Overflow::kDefault);
    });
  }
  return output.object();
}

/// decode_to(): a host copy out, from packed codes.
py::object decode_host(const py::object& codes, int format_value, const std::string& dtype,
                       const std::optional<int64_t>& count, const py::object& out) {
  const auto format = static_cast<DataFormat>(format_value);
  const HostDtype host = host_dtype_by_name(dtype);
  require_codec(host, format);
  const HostArray array = borrow_codes(codes, format);
  const int bits = format_info(format).bits;
  const int64_t available = bits < 8 ? array.numel() * (8 / bits) : array.numel();
  if (count && (*count < 0 || *count > available)) {
    throw py::value_error("cannot decode " + std::to_string(*count) + " elements: codes hold " +
                          std::to_string(available));
  }
  const int64_t wanted = count.value_or(available);
  const Ints size = count || bits < 8 ? Ints{wanted} : array.size();
  const Output output(out, host, size, false);
  output.check_overlap(array);
  {
    const py::gil_scoped_release release;
    const Contiguous source(array);
    for_parts(wanted, [&](int64_t begin, int64_t end) {
      decode_to(host, source.data() + begin * bits / 8, format,
                static_cast<char*>(output.data()) + begin * host_itemsize(host), end - begin);
    });
  }
  return output.object();
}

/// Device memory lent by a Python object: contiguous bytes, enough for the layout.
HostArray device_memory(const py::object& object, const Layout& layout, bool writable,
                        const char* what) {
  HostArray array = HostArray::borrow(object, std::nullopt, writable, what);
  if (!array.is_contiguous() || array.bytes() < layout.device_bytes()) {
    throw py::value_error(std::string(what) + " holds " + std::to_string(array.bytes()) + " bytes" +
                          (array.is_contiguous() ? "" : ", not contiguous") + ", but " +
                          layout.repr() + " takes " + std::to_string(layout.device_bytes()) +
                          " contiguous bytes");
  }
  const auto width = static_cast<uintptr_t>(std::max(1, format_info(layout.format()).bits / 8));
  if (!array.is_empty() && reinterpret_cast<uintptr_t>(array.data()) % width != 0) {
    throw py::value_error(std::string(what) + " lies at an address that is not a multiple of its " +
                          std::to_string(width) + "-byte elements; copy it first");
  }
  return array;
}

py::object zeroed_bytes(int64_t count) {
  return py::module_::import("builtins").attr("bytearray")(count);
}

/// What the elements of an array are that stands for (a view of) the layout's host tensor, where
/// the caller says nothing: its own dtype, unless NumPy has no arrays of the tensor's and it holds
/// integers of that width. Those are the bits that from_device() gives for such tensors.
HostDtype dtype_for(const Layout& layout, const HostArray& array) {
  const bool is_bits = layout.host_known() && is_foreign(layout.host_dtype()) &&
                       HostArray::is_integer(array.dtype()) &&
                       host_itemsize(array.dtype()) == host_itemsize(layout.host_dtype());
  return is_bits ? layout.host_dtype() : array.dtype();
}

py::object copy_in(const py::object& source, const Name& dtype, const Layout& layout,
                   const py::object& out) {
  HostArray array = HostArray::borrow(source, dtype_of(dtype), false, "values");
  if (!dtype) array.read_as(dtype_for(layout, array), "values");
  py::object object = out;
  if (out.is_none()) object = zeroed_bytes(layout.device_bytes());
  const HostArray device = device_memory(object, layout, true, "out");
  refuse_overlap(array, "values", device.data(), layout.device_bytes(), "out");
  {
    const py::gil_scoped_release release;
    to_device(array.data(), array.dtype(), array.size(), array.strides(), layout, device.data(),
              thread_parallel_for());
  }
  return object;
}

py::object copy_out(const py::object& data, const Layout& layout, const Ints& size,
                    const Ints& stride, int64_t storage_offset, const Name& dtype,
                    const py::object& out) {
  std::optional<HostDtype> wanted = dtype_of(dtype);
  if (out.is_none() && !wanted) {
    if (!layout.host_known()) {
      throw py::value_error("from_device needs a dtype, which " + layout.repr() +
                            " does not know; give dtype= or out=");
    }
    wanted = layout.host_dtype();
  }
  if (wanted) require_codec(*wanted, layout.format());
  resolve_view(layout, size, stride, storage_offset);
  const HostArray device = device_memory(data, layout, false, "data");
  const py::object object = out.is_none() ? new_array(*wanted, size) : out;
  const HostArray array = HostArray::borrow(object, std::nullopt, true, "out");
  if (!wanted) wanted = dtype_for(layout, array);
  if (!can_hold(array.dtype(), *wanted)) {
    throw py::value_error("out holds " + std::string(host_dtype_name(array.dtype())) +
                          " elements; expected " + std::string(host_dtype_name(*wanted)) +
                          ": leave dtype out to convert to the dtype of out");
  }
  require_codec(*wanted, layout.format());
  if (!out.is_none() && array.size() != size) {
    throw py::value_error("out has size " + format_list(array.size()) + "; expected " +
                          format_list(size));
  }
  const Ints strides = array.size() == size ? array.strides() : contiguous_strides(size);
  refuse_overlap(array, "out", device.data(), layout.device_bytes(), "data");
  {
    const py::gil_scoped_release release;
    from_device(device.data(), layout, size, stride, storage_offset, array.data(), *wanted, strides,
                thread_parallel_for());
  }
  return object;
}

py::object move_sticks(const py::object& data, const Layout& from, const Layout& to,
                       const Ints& size, const Ints& strides, const py::object& out) {
  const HostArray source = device_memory(data, from, false, "data");
  py::object object = out;
  if (out.is_none()) object = zeroed_bytes(to.device_bytes());
  const HostArray target = device_memory(object, to, true, "out");
  refuse_overlap(source, "data", target.data(), to.device_bytes(), "out");
  {
    const py::gil_scoped_release release;
    restickify(from, source.data(), to, target.data(), size, strides, thread_parallel_for());
  }
  return object;
}

py::tuple resolve(const Layout& layout, const Ints& size, const Ints& stride,
                  int64_t storage_offset, bool write) {
  const DeviceView view =
      resolve_view(layout, size, stride, storage_offset, write ? Access::kWrite : Access::kRead);
  py::list loops;
  for (const ViewLoop& loop : view.loops) {
    loops.append(py::make_tuple(loop.dim, loop.extent, loop.device_stride));
  }
  py::list digits;
  for (const Digit& digit : view.digits) {
    digits.append(py::make_tuple(digit.divisor, digit.device_stride, digit.limit));
  }
  return py::make_tuple(view.affine, loops, view.device_offset, view.host_offset, digits);
}

py::list plan(const Layout& layout, const Ints& size, const Ints& host_strides,
              const Ints& view_strides, int64_t storage_offset) {
  py::list pieces;
  for (const TransferPiece& piece :
       transfer_plan(layout, size, host_strides, view_strides, storage_offset)) {
    py::list ranges;
    py::list host;
    py::list device;
    for (const TransferLoop& loop : piece.loops) {
      ranges.append(loop.extent);
      host.append(loop.host_stride);
      device.append(loop.device_stride);
    }
    pieces.append(py::make_tuple(py::tuple(ranges), py::tuple(host), py::tuple(device),
                                 piece.host_offset, piece.device_offset));
  }
  return pieces;
}

py::list runs(const Layout& layout, const Ints& size, const Ints& stride, int64_t storage_offset) {
  py::list result;
  for (const Run& run : contiguous_runs(layout, size, stride, storage_offset)) {
    result.append(py::make_tuple(run.view_index, run.device_offset, run.length));
  }
  return result;
}

py::tuple format_properties(int format_value) {
  const FormatInfo& info = format_info(static_cast<DataFormat>(format_value));
  return py::make_tuple(info.name, info.bits, info.elems_per_stick, info.has_storage,
                        static_cast<int>(info.kind), info.min, info.max, info.smallest);
}

void bind_layout(py::module_& module) {
  py::class_<Layout>(module, "Layout")
      .def_static("row_major",
                  [](const Ints& size, const std::string& dtype) {
                    return Layout::row_major(size, host_dtype_by_name(dtype));
                  })
      .def_static("strided",
                  [](const Ints& size, const Ints& strides, const std::string& dtype) {
                    return Layout::strided(size, strides, host_dtype_by_name(dtype));
                  })
      .def_static("generic_stick",
                  [](const Ints& size, const Ints& strides, const std::string& dtype,
                     const Ints& dim_order) {
                    return Layout::generic_stick(size, strides, host_dtype_by_name(dtype),
                                                 dim_order);
                  })
      .def_static("make",
                  [](const Ints& device_size, const Ints& stride_map, int format) {
                    return Layout::make(device_size, stride_map, static_cast<DataFormat>(format));
                  })
      .def("with_host",
           [](const Layout& self, const Ints& size, const Ints& strides, const std::string& dtype) {
             return self.with_host(size, strides, host_dtype_by_name(dtype));
           })
      .def_property_readonly("device_size", [](const Layout& self) { return self.device_size(); })
      .def_property_readonly("stride_map", [](const Layout& self) { return self.stride_map(); })
      .def_property_readonly("device_strides", &Layout::device_strides)
      .def_property_readonly("format",
                             [](const Layout& self) { return static_cast<int>(self.format()); })
      .def_property_readonly("elems_per_stick", &Layout::elems_per_stick)
      .def_property_readonly("device_numel", &Layout::device_numel)
      .def_property_readonly("device_bytes", &Layout::device_bytes)
      .def_property_readonly("host_known", &Layout::host_known)
      .def_property_readonly("host_size", [](const Layout& self) { return self.host_size(); })
      .def_property_readonly("host_strides", [](const Layout& self) { return self.host_strides(); })
      .def_property_readonly(
          "host_dtype",
          [](const Layout& self) { return std::string(host_dtype_name(self.host_dtype())); })
      .def_property_readonly("host_numel", &Layout::host_numel)
      .def_property_readonly("host_span", &Layout::host_span)
      .def("device_offset", &Layout::device_offset)
      .def("host_offset", &Layout::host_offset)
      .def("hash", [](const Layout& self) { return static_cast<int64_t>(self.hash() >> 2); })
      .def("equals", [](const Layout& self, const Layout& other) { return self == other; })
      .def("repr", &Layout::repr);
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled part of spyre_layout. Use the package's own names instead.";
  module.attr("version") = SPYRE_LAYOUT_VERSION;
  bind_layout(module);
  module.def("format_properties", &format_properties);
  module.def("device_format", [](const std::string& dtype) {
    return static_cast<int>(device_format(host_dtype_by_name(dtype)));
  });
  module.def("dtype_name", [](const std::string& name) {
    return std::string(host_dtype_name(host_dtype_by_name(name)));
  });
  module.def("itemsize",
             [](const std::string& dtype) { return host_itemsize(host_dtype_by_name(dtype)); });
  module.def("encode", &encode_values);
  module.def("decode", &decode_values);
  module.def("encode_from", &encode_host);
  module.def("decode_to", &decode_host);
  module.def("to_device", &copy_in);
  module.def("from_device", &copy_out);
  module.def("restickify", &move_sticks);
  module.def("resolve_view", &resolve);
  module.def("transfer_plan", &plan);
  module.def("contiguous_runs", &runs);
  module.def("contiguous_strides", &contiguous_strides);
}

}  // namespace spyre::layout::bindings
