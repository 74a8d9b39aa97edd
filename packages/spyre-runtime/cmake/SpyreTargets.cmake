# SPDX-License-Identifier: Apache-2.0
# Settings that every target of this project shares, and two functions to make targets with.

# Applies the project's language level, warnings, visibility and run path to TARGET.
function(spyre_target target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${SPYRE_WERROR}>:-Werror>)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    INSTALL_RPATH "$ORIGIN;$ORIGIN/../torch/lib")
  if(SPYRE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${SPYRE_SANITIZE} -fno-omit-frame-pointer -g)
    target_link_options(${target} PRIVATE -fsanitize=${SPYRE_SANITIZE})
  endif()
endfunction()

# spyre_add_capability_kernels(TARGET SOURCES ... LIBRARIES ...)
#
# Compiles SOURCES once for each CPU capability, as ATen does, and adds the objects to TARGET. Each
# copy sees CPU_CAPABILITY (a bare word, to be used as a namespace: DEFAULT, AVX2 or AVX512) and
# CPU_CAPABILITY_<word>; TARGET itself sees SPYRE_HAVE_<word> for each one that was built. Code that is
# not inside `namespace CPU_CAPABILITY` or `static` would be defined several times: keep it elsewhere.
set(SPYRE_CAPABILITIES "AVX2;AVX512" CACHE STRING
    "CPU capabilities besides DEFAULT to compile kernels for, where the processor family has them")
function(spyre_add_capability_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;LIBRARIES")
  set(capabilities DEFAULT)
  set(flags_DEFAULT "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    list(APPEND capabilities ${SPYRE_CAPABILITIES})
    set(flags_AVX2 -mavx2 -mfma -mf16c)
    # gcc's own choice for these loops are vectors of 256 bits.
    set(flags_AVX512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c
                     -mprefer-vector-width=512)
  endif()
  foreach(capability IN LISTS capabilities)
    set(objects ${target}_${capability})
    add_library(${objects} OBJECT ${ARG_SOURCES})
    spyre_target(${objects})
    target_compile_definitions(${objects} PRIVATE
      CPU_CAPABILITY=${capability} CPU_CAPABILITY_${capability})
    # gcc 12 warns of its own intrinsics (GCC bug 105593).
    target_compile_options(${objects} PRIVATE -O3 ${flags_${capability}}
      $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-maybe-uninitialized>)
    target_link_libraries(${objects} PRIVATE ${ARG_LIBRARIES})
    target_include_directories(${objects} PRIVATE "${PROJECT_SOURCE_DIR}/include"
                                                  "${PROJECT_SOURCE_DIR}/src")
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
    target_compile_definitions(${target} PRIVATE SPYRE_HAVE_${capability}=1)
  endforeach()
endfunction()

# spyre_add_test(NAME SOURCES ... LIBRARIES ... ARGUMENTS ...): a test program that fails by exit code.
function(spyre_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;LIBRARIES;ARGUMENTS")
  if(NOT SPYRE_BUILD_TESTS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  spyre_target(${name})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/include"
                                             "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} Threads::Threads)
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300)
endfunction()
