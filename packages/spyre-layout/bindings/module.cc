// SPDX-License-Identifier: Apache-2.0
#include <pybind11/native_enum.h>
#include <pybind11/pybind11.h>

#include "spyre/layout/formats.h"
#include "spyre/layout/version.h"

namespace py = pybind11;
using namespace spyre::layout;

PYBIND11_MODULE(_core, module) {
  module.attr("__version__") = SPYRE_LAYOUT_VERSION;
  py::native_enum<DataFormat> formats(module, "DataFormats", "enum.IntEnum");
  for (int i = 0; i < kDataFormatCount; ++i) {
    const auto format = static_cast<DataFormat>(i);
    formats.value(format_info(format).name, format);
  }
  formats.finalize();
}
