# SPDX-License-Identifier: Apache-2.0
# find_package(SpyreRuntime): SpyreRuntime::driver, the headers that a driver is written against, and
# SpyreRuntime::runtime, libspyre_runtime for C++ programs that use devices without Python.
get_filename_component(SPYRE_RUNTIME_PREFIX "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
include(CMakeFindDependencyMacro)

if(NOT TARGET SpyreRuntime::driver)
  add_library(SpyreRuntime::driver INTERFACE IMPORTED)
  set_target_properties(SpyreRuntime::driver PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${SPYRE_RUNTIME_PREFIX}/include")
endif()

# The runtime's headers use spyre-layout's; a driver's do not.
find_package(SpyreLayout CONFIG QUIET)
if(TARGET SpyreLayout::layout AND NOT TARGET SpyreRuntime::runtime)
  add_library(SpyreRuntime::runtime SHARED IMPORTED)
  set_target_properties(SpyreRuntime::runtime PROPERTIES
    IMPORTED_LOCATION "${SPYRE_RUNTIME_PREFIX}/libspyre_runtime.so"
    INTERFACE_INCLUDE_DIRECTORIES "${SPYRE_RUNTIME_PREFIX}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_20
    INTERFACE_LINK_LIBRARIES SpyreLayout::layout)
endif()
