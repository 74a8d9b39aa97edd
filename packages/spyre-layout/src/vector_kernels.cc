// SPDX-License-Identifier: Apache-2.0
#include "vector_kernels.h"

namespace spyre::layout::detail {

extern const VectorKernels kVectorKernelsBaseline;
#ifdef SPYRE_LAYOUT_X86_KERNELS
extern const VectorKernels kVectorKernelsAvx2;
extern const VectorKernels kVectorKernelsAvx512;
#endif

namespace {

struct Runnable {
  const VectorKernels* sets[3];
  int count = 0;

  Runnable() {
#ifdef SPYRE_LAYOUT_X86_KERNELS
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      sets[count++] = &kVectorKernelsAvx512;
    }
    if (avx2) sets[count++] = &kVectorKernelsAvx2;
#endif
    sets[count++] = &kVectorKernelsBaseline;
  }
};

const Runnable& runnable() {
  static const Runnable sets;
  return sets;
}

}  // namespace

const VectorKernels& vector_kernels() { return *runnable().sets[0]; }

const VectorKernels* const* runnable_vector_kernels(int* count) {
  *count = runnable().count;
  return runnable().sets;
}

}  // namespace spyre::layout::detail
