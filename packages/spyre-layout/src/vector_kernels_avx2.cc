// SPDX-License-Identifier: Apache-2.0
#define SPYRE_LAYOUT_ISA kVectorKernelsAvx2
#define SPYRE_LAYOUT_ISA_NAME "avx2"
#define SPYRE_LAYOUT_VECTOR_BYTES 32
#include "vector_kernels_impl.h"
