// SPDX-License-Identifier: Apache-2.0
// The extension module spyre_runtime._C. Loading it registers the device's kernels with PyTorch.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "spyre/program/link.h"
#include "spyre/program/op_table.h"
#include "spyre/runtime/runtime.h"
#include "spyre/runtime/version.h"
#include "torch/device.h"
#include "torch/downcast.h"
#include "torch/errors.h"
#include "torch/fallback.h"
#include "torch/generator.h"
#include "torch/launch.h"
#include "torch/memory.h"
#include "torch/ops/kernels.h"
#include "torch/ops/program_cache.h"
#include "torch/tensor.h"

namespace py = pybind11;

namespace spyre::bindings {
namespace {

using aten::translated;

/// A device program that Python holds: portable text, and the executable made of it.
class Program {
 public:
  explicit Program(const std::string& text)
      : executable_(translated(
            [&] { return std::make_shared<runtime::Executable>(program::parse(text)); })) {}

  void launch(const std::vector<at::Tensor>& tensors, const std::vector<int64_t>& symbols) const {
    aten::launch(*executable_, tensors, symbols);
  }
  std::string text() const {
    return translated([&] { return program::print(executable_->program()); });
  }
  std::string bound_text(const std::vector<at::Tensor>& tensors,
                         const std::vector<int64_t>& symbols) const {
    return aten::bound_text(*executable_, tensors, symbols);
  }
  std::string name() const { return executable_->program().name; }

 private:
  std::shared_ptr<runtime::Executable> executable_;
};

const char* type_name(program::Type type) {
  switch (type) {
    case program::Type::F: return "F";
    case program::Type::I: return "I";
    case program::Type::B: return "B";
    case program::Type::N: break;
  }
  return "N";
}

/// [(name, result type, argument types)], a row for each op of the device.
std::vector<std::tuple<std::string, std::string, std::vector<std::string>>> op_table() {
  std::vector<std::tuple<std::string, std::string, std::vector<std::string>>> rows;
  for (int i = 0; i < static_cast<int>(program::Op::count_); ++i) {
    const program::OpInfo& info = program::op_info(static_cast<program::Op>(i));
    std::vector<std::string> args;
    for (int k = 0; k < info.arity; ++k) args.emplace_back(type_name(info.args[k]));
    rows.emplace_back(std::string(info.name), type_name(info.result), std::move(args));
  }
  return rows;
}

using LayoutParts = std::tuple<std::vector<int64_t>, std::vector<int64_t>, int>;

void check_spyre(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(aten::is_spyre(tensor), "expected a spyre tensor, found one on ",
                    tensor.defined() ? tensor.device().str() : std::string("no device"));
}

LayoutParts get_layout(const at::Tensor& tensor) {
  check_spyre(tensor);
  const layout::Layout layout = aten::layout_of(tensor);
  return {layout.device_size(), layout.stride_map(), static_cast<int>(layout.format())};
}

void set_layout(const at::Tensor& tensor, const std::vector<int64_t>& device_size,
                const std::vector<int64_t>& stride_map, int format) {
  check_spyre(tensor);
  translated([&] {
    aten::set_layout(tensor, layout::Layout::make(device_size, stride_map,
                                                  static_cast<layout::DataFormat>(format)));
  });
}

int checked(int device) { return aten::checked_device(device); }

py::dict gauge(const runtime::Gauge& own) {
  py::dict out;
  out["current"] = own.current;
  out["peak"] = own.peak;
  out["allocated"] = own.raised;
  out["freed"] = own.lowered;
  return out;
}

py::dict memory_stats(int device) {
  runtime::MemoryStats stats{};
  const int index = checked(device);
  // The devices of a forked child's parent are none of the child's.
  if (runtime::is_initialized()) stats = translated([&] { return runtime::memory_stats(index); });
  py::dict out;
  out["allocation"] = gauge(stats.blocks);
  out["allocated_bytes"] = gauge(stats.allocated);
  out["reserved_bytes"] = gauge(stats.reserved);
  out["num_alloc_retries"] = stats.retries;
  out["num_ooms"] = stats.ooms;
  return out;
}

py::dict properties(int device) {
  const int index = checked(device);
  const runtime::DeviceProperties own = translated([&] { return runtime::properties(index); });
  py::dict out;
  out["name"] = own.name;
  out["cores"] = own.cores;
  out["memory_bytes"] = own.memory_bytes;
  out["lx_bytes"] = own.lx_bytes;
  out["max_allocation_bytes"] = own.max_allocation_bytes;
  out["driver"] = own.driver;
  out["driver_version"] = own.driver_version;
  return out;
}

py::dict program_stats() {
  const runtime::ProgramStats stats = runtime::program_stats();
  py::dict out;
  out["programs"] = stats.programs;
  out["links"] = stats.links;
  out["launches"] = stats.launches;
  return out;
}

/// [(name, classes of dtypes, kind, overloads served)], a row for each native eager kernel.
std::vector<std::tuple<std::string, std::string, std::string, std::vector<std::string>>>
native_ops() {
  std::vector<std::tuple<std::string, std::string, std::string, std::vector<std::string>>> rows;
  for (const aten::CatalogEntry& entry : aten::catalog()) {
    rows.emplace_back(entry.name, entry.types, entry.kind, entry.variants);
  }
  return rows;
}

py::dict program_cache_stats() {
  const aten::ProgramCacheStats stats = aten::program_cache_stats();
  py::dict out;
  out["hits"] = stats.hits;
  out["misses"] = stats.misses;
  out["evictions"] = stats.evictions;
  out["size"] = stats.size;
  return out;
}

py::object default_generator(int device) {
  return py::reinterpret_steal<py::object>(
      THPGenerator_Wrap(aten::default_generator(static_cast<c10::DeviceIndex>(device))));
}

template <class Function>
auto held(Function&& function) {
  return torch::wrap_pybind_function(std::forward<Function>(function));
}

template <class Function>
auto freed(Function&& function) {
  return torch::wrap_pybind_function_no_gil(std::forward<Function>(function));
}

void bind_devices(py::module_& module) {
  module.def("device_count",
             freed([] { return translated([] { return runtime::device_count(); }); }));
  module.def("open_device", freed([](int device) {
               aten::check_usable();
               const int index = checked(device);
               translated([&] { runtime::ensure_open(index); });
             }),
             py::arg("device"));
  module.def("check_usable", held([] { aten::check_usable(); }));
  module.def("is_initialized", held([] { return runtime::is_initialized(); }));
  module.def("in_bad_fork", held([] { return runtime::in_bad_fork(); }));
  module.def("current_device", held([] { return runtime::current_device(); }));
  module.def("set_device", held([](int device) {
               const int index = checked(device);
               translated([&] { runtime::set_current_device(index); });
             }),
             py::arg("device"));
  module.def("synchronize_device", freed([](int device) {
               const int index = checked(device);
               translated([&] { runtime::synchronize_device(index); });
             }),
             py::arg("device"));
  module.def("elapsed_ms", freed([](uintptr_t start, uintptr_t end) {
               TORCH_CHECK_VALUE(
                   start != 0 && end != 0,
                   "both events must be recorded before the time between them is asked for");
               return translated([&] {
                 return static_cast<double>(reinterpret_cast<runtime::Event*>(start)->elapsed_ns(
                            *reinterpret_cast<runtime::Event*>(end))) /
                        1e6;
               });
             }),
             py::arg("start"), py::arg("end"));
  module.def("properties", held(properties), py::arg("device"));
  module.def("seed_default_generators",
             held([](uint64_t seed) { aten::seed_default_generators(seed); }), py::arg("seed"));
  module.def("default_generator", held(default_generator), py::arg("device"));
}

void bind_memory(py::module_& module) {
  module.def("memory_stats", held(memory_stats), py::arg("device"));
  module.def("reset_peak_memory_stats", held([](int device) {
               const int index = checked(device);
               if (runtime::is_initialized())
                 translated([&] { runtime::reset_peak_memory_stats(index); });
             }),
             py::arg("device"));
  module.def("reset_accumulated_memory_stats", held([](int device) {
               const int index = checked(device);
               if (runtime::is_initialized())
                 translated([&] { runtime::reset_accumulated_memory_stats(index); });
             }),
             py::arg("device"));
  module.def("memory_info", freed([](int device) {
               const int index = checked(device);
               int64_t free_bytes = 0;
               int64_t total_bytes = 0;
               translated([&] { runtime::memory_info(index, &free_bytes, &total_bytes); });
               return std::make_pair(free_bytes, total_bytes);
             }),
             py::arg("device"));
  module.def("empty_cache", freed([] {
               if (runtime::is_initialized()) translated([] { runtime::empty_cache(); });
             }));
}

void bind_layouts(py::module_& module) {
  module.def("get_layout", held(get_layout), py::arg("tensor"));
  module.def("set_layout", freed(set_layout), py::arg("tensor"), py::arg("device_size"),
             py::arg("stride_map"), py::arg("data_format"));
  module.def("get_downcast_warning", held([] { return aten::downcast_warning(); }));
  module.def("set_downcast_warning",
             held([](bool enabled) { aten::set_downcast_warning(enabled); }), py::arg("enabled"));
  module.def("warn_downcast", held([](const std::string& op) { aten::warn_downcast(op); }),
             py::arg("op"));
}

void bind_programs(py::module_& module) {
  py::class_<Program>(module, "Program", "A device program: what the device runs.")
      .def(py::init(held([](const std::string& text) { return std::make_unique<Program>(text); })),
           py::arg("text"))
      .def("launch",
           freed([](const Program& program, const std::vector<at::Tensor>& tensors,
                    const std::vector<int64_t>& symbols) { program.launch(tensors, symbols); }),
           py::arg("tensors"), py::arg("symbols") = std::vector<int64_t>())
      .def("bound_text",
           freed([](const Program& program, const std::vector<at::Tensor>& tensors,
                    const std::vector<int64_t>& symbols) {
             return program.bound_text(tensors, symbols);
           }),
           py::arg("tensors"), py::arg("symbols") = std::vector<int64_t>())
      .def_property_readonly("text", held([](const Program& program) { return program.text(); }))
      .def_property_readonly("name", held([](const Program& program) { return program.name(); }));
  module.def("op_table", held(op_table));
  module.def("native_ops", held(native_ops));
  module.def("program_cache_stats", held(program_cache_stats));
  module.def("program_stats", held(program_stats));
  module.def("fallback_counts", held([] { return aten::fallback_counts(); }));
  module.def("reset_fallback_counts", held([] { aten::reset_fallback_counts(); }));
}

}  // namespace
}  // namespace spyre::bindings

PYBIND11_MODULE(_C, module) {
  module.doc() = "native part of spyre_runtime";
  module.attr("__version__") = SPYRE_RUNTIME_VERSION;
  spyre::bindings::bind_devices(module);
  spyre::bindings::bind_memory(module);
  spyre::bindings::bind_layouts(module);
  spyre::bindings::bind_programs(module);
  // After the interpreter has ended and before exit() runs static destructors.
  if (Py_AtExit([] { spyre::runtime::shut_down(); }) != 0) {
    throw std::runtime_error("the interpreter has no room for another exit function");
  }
}
