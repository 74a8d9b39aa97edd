// SPDX-License-Identifier: Apache-2.0
#define SPYRE_LAYOUT_ISA kVectorKernelsAvx512
#define SPYRE_LAYOUT_ISA_NAME "avx512"
#define SPYRE_LAYOUT_VECTOR_BYTES 64
#include "vector_kernels_impl.h"
