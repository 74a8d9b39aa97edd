# SPDX-License-Identifier: Apache-2.0
# Finds the libraries and headers of the installed PyTorch without importing it, and without Torch's
# own config file, which asks for more than is needed here. Makes the targets
#   SpyreTorch::cpu     libtorch_cpu, libc10 and their headers
#   SpyreTorch::python  libtorch_python on top of it
if(NOT SPYRE_TORCH_DIR)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env TORCH_DEVICE_BACKEND_AUTOLOAD=0 "${Python_EXECUTABLE}" -c
            "import importlib.util as u; s = u.find_spec('torch'); print(list(s.submodule_search_locations)[0] if s else '')"
    OUTPUT_VARIABLE spyre_torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(SPYRE_TORCH_DIR "${spyre_torch_dir}" CACHE PATH "Directory of the installed torch package" FORCE)
endif()

find_library(SPYRE_TORCH_CPU_LIBRARY torch_cpu PATHS "${SPYRE_TORCH_DIR}/lib" NO_DEFAULT_PATH)
find_library(SPYRE_TORCH_C10_LIBRARY c10 PATHS "${SPYRE_TORCH_DIR}/lib" NO_DEFAULT_PATH)
find_library(SPYRE_TORCH_PYTHON_LIBRARY torch_python PATHS "${SPYRE_TORCH_DIR}/lib" NO_DEFAULT_PATH)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SpyreTorch REQUIRED_VARS SPYRE_TORCH_CPU_LIBRARY
  SPYRE_TORCH_C10_LIBRARY SPYRE_TORCH_PYTHON_LIBRARY SPYRE_TORCH_DIR
  REASON_FAILURE_MESSAGE "no PyTorch found by ${Python_EXECUTABLE}: install torch>=2.13,<2.14 for it")

if(SpyreTorch_FOUND AND NOT TARGET SpyreTorch::cpu)
  add_library(SpyreTorch::c10 SHARED IMPORTED)
  set_target_properties(SpyreTorch::c10 PROPERTIES IMPORTED_LOCATION "${SPYRE_TORCH_C10_LIBRARY}")
  add_library(SpyreTorch::cpu SHARED IMPORTED)
  set_target_properties(SpyreTorch::cpu PROPERTIES
    IMPORTED_LOCATION "${SPYRE_TORCH_CPU_LIBRARY}"
    INTERFACE_LINK_LIBRARIES SpyreTorch::c10
    INTERFACE_INCLUDE_DIRECTORIES
      "${SPYRE_TORCH_DIR}/include;${SPYRE_TORCH_DIR}/include/torch/csrc/api/include")
  add_library(SpyreTorch::python SHARED IMPORTED)
  set_target_properties(SpyreTorch::python PROPERTIES
    IMPORTED_LOCATION "${SPYRE_TORCH_PYTHON_LIBRARY}"
    INTERFACE_LINK_LIBRARIES SpyreTorch::cpu)
endif()
