// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The array kernels that are worth vectors, compiled once per instruction set and chosen at run
/// time. Each gives the same bits as the scalar codec of the same name in codec.h, on every code.
namespace spyre::layout::detail {

/// Converts `count` contiguous elements.
using ConvertFn = void (*)(const void* source, void* target, int64_t count);

/// Writes the transpose of rows x columns elements; strides count elements between rows.
using TransposeFn = void (*)(const void* source, int64_t source_stride, void* target,
                             int64_t target_stride, int64_t rows, int64_t columns);

struct VectorKernels {
  const char* name;  ///< "avx512", "avx2", "baseline"

  ConvertFn fp16_to_sen169, sen169_to_fp16;
  ConvertFn bf16_to_sen169, sen169_to_bf16;
  ConvertFn bool_to_sen169, sen169_to_bool;

  ConvertFn float_to_sen169, float_to_sen169_saturate, sen169_to_float;
  ConvertFn float_to_fp16, fp16_to_float;
  ConvertFn float_to_bf16, bf16_to_float;
  ConvertFn float_to_sen143, sen143_to_float;
  ConvertFn float_to_sen152, float_to_sen152_saturate, sen152_to_float;

  ConvertFn uint8_to_uint32, uint32_to_uint8;

  TransposeFn transpose_16;
  TransposeFn transpose_32;
};

/// The widest set that this CPU runs. The tests compare them all.
const VectorKernels& vector_kernels();

/// All sets that this CPU runs, widest first; `*count` is their number.
const VectorKernels* const* runnable_vector_kernels(int* count);

}  // namespace spyre::layout::detail
