# SPDX-License-Identifier: Apache-2.0
# Finds SpyreLayout::layout. Wheels take the installed spyre-layout, whose CMake package
# scikit-build-core puts on the search path. Development builds (editable, or plain CMake) of a checkout
# take the sibling sources, so that a change there needs no reinstall.
set(SPYRE_LAYOUT_SOURCE_DIR "" CACHE PATH "Sources of spyre-layout to build with; empty: find_package")
set(sibling "${PROJECT_SOURCE_DIR}/../spyre-layout")
if(NOT SPYRE_LAYOUT_SOURCE_DIR AND EXISTS "${sibling}/CMakeLists.txt"
   AND (NOT SKBUILD OR SKBUILD_STATE STREQUAL "editable"))
  set(SPYRE_LAYOUT_SOURCE_DIR "${sibling}")
endif()

if(SPYRE_LAYOUT_SOURCE_DIR)
  set(SPYRE_LAYOUT_BUILD_PYTHON OFF)
  add_subdirectory("${SPYRE_LAYOUT_SOURCE_DIR}" spyre-layout EXCLUDE_FROM_ALL)
  if(NOT TARGET SpyreLayout::layout)
    message(FATAL_ERROR "${SPYRE_LAYOUT_SOURCE_DIR} does not define SpyreLayout::layout")
  endif()
else()
  find_package(SpyreLayout CONFIG QUIET)
  if(NOT TARGET SpyreLayout::layout)
    message(WARNING "spyre-layout is not here yet: headers only")
    add_library(spyre_layout_headers INTERFACE)
    target_include_directories(spyre_layout_headers INTERFACE "${sibling}/include")
    add_library(SpyreLayout::layout ALIAS spyre_layout_headers)
  endif()
endif()
