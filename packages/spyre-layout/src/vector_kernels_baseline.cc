// SPDX-License-Identifier: Apache-2.0
#define SPYRE_LAYOUT_ISA kVectorKernelsBaseline
#define SPYRE_LAYOUT_ISA_NAME "baseline"
#define SPYRE_LAYOUT_VECTOR_BYTES 16
#include "vector_kernels_impl.h"
