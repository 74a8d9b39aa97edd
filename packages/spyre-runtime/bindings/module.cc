// SPDX-License-Identifier: Apache-2.0
#include <pybind11/pybind11.h>

#include "spyre/runtime/version.h"

PYBIND11_MODULE(_C, module) {
  module.doc() = "native part of spyre_runtime";
  module.attr("__version__") = SPYRE_RUNTIME_VERSION;
}
