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
  set(SPYRE_LAYOUT_SANITIZE "${SPYRE_SANITIZE}")
  add_subdirectory("${SPYRE_LAYOUT_SOURCE_DIR}" spyre-layout EXCLUDE_FROM_ALL)
  if(NOT TARGET SpyreLayout::layout)
    message(FATAL_ERROR "${SPYRE_LAYOUT_SOURCE_DIR} does not define SpyreLayout::layout")
  endif()
else()
  find_package(SpyreLayout 0.1 CONFIG REQUIRED)
endif()
