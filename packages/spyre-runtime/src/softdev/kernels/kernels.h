// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "spyre/layout/formats.h"
#include "spyre/program/op_table.h"

/// Lane kernels: what the interpreter calls for each instruction and block. Compiled once per CPU
/// capability; kernels() gives the table for this CPU.
///
/// Registers hold float (types F and B) or int64_t (type I) lanes, without gaps, row after row.
namespace spyre::softdev {

using program::Op;
using program::Type;

/// How the operands of a two-operand kernel lie: lanes, or one value for all lanes.
enum class Mode : uint8_t { kLanes, kScalarRight, kScalarLeft };
inline constexpr int kModes = 3;

/// dst[i] = op(args[0][i], ...) for i < n. dst may be one of the operands.
using MapFn = void (*)(void* dst, const void* const* args, int64_t n);

/// A two-dimensional set of elements in memory, in elements.
struct Grid {
  int64_t rows, row_stride, cols, col_stride;
};

/// Decodes elements into rows * cols lanes.
using LoadFn = void (*)(void* lanes, const void* memory, const Grid& grid);
/// Encodes rows * cols lanes into elements.
using StoreFn = void (*)(void* memory, const void* lanes, const Grid& grid);

/// Combines rows * cols lanes into one accumulator per row or per column. `acc` holds the accumulators,
/// `aux` what else they need: the running error of a float sum, the position of an arg reduction
/// (int64_t). Positions of lanes are position + row * row_step + col * col_step.
struct Positions {
  int64_t position, row_step, col_step;
};
using ReduceFn = void (*)(void* acc, void* aux, const void* lanes, int64_t rows, int64_t cols,
                          const Positions& positions);

/// A storage format together with the register type it is loaded into.
enum class Codec : uint8_t { kSen169, kSen169Bool, kFp32, kSen143, kSen152, kInt8, kInt16, kInt32, kInt64, kUInt8, kCount };
inline constexpr size_t kCodecs = static_cast<size_t>(Codec::kCount);
int64_t codec_bytes(Codec codec);

inline constexpr size_t kOps = static_cast<size_t>(Op::count_);

/// One operand of a matrix product: element (i, k) is at base[outer[i] + inner[k]], in device elements.
struct MatrixView {
  const void* base;
  Codec codec;
  const int64_t* outer;  ///< offsets of rows of a, of columns of b
  const int64_t* inner;  ///< offsets along k
  bool inner_contiguous;  ///< inner[k] == inner[0] + k
  bool outer_contiguous;  ///< outer[i] == outer[0] + i
};

struct KernelTable {
  const char* capability = "";
  std::array<std::array<MapFn, kModes>, kOps> map{};
  std::array<LoadFn, kCodecs> load{};
  std::array<StoreFn, kCodecs> store{};
  std::array<ReduceFn, kOps> reduce_rows{};  ///< lanes of a row into the row's accumulator
  std::array<ReduceFn, kOps> reduce_cols{};  ///< lanes of a column into the column's accumulator

  /// Decodes a panel of `count` rows (i = first ... ) by k_count into fp32, row-major with pitch `pitch`.
  void (*panel_f32)(float* out, const MatrixView& view, int64_t first, int64_t count, int64_t k0, int64_t k_count,
                    int64_t pitch) = nullptr;
  /// The same as bfloat16 pairs hi + lo that sum to the value exactly, each row-major with pitch `pitch`.
  void (*split_bf16)(uint16_t* hi, uint16_t* lo, const float* in, int64_t n) = nullptr;
  /// VNNI form: element (k, n) of the result is at [(k / 2) * cols * 2 + n * 2 + k % 2].
  void (*split_bf16_vnni)(uint16_t* hi, uint16_t* lo, const float* in, int64_t k_count, int64_t cols, int64_t pitch) =
      nullptr;
  /// C[m x n] (pitch ldc) = A[m x k] (pitch lda) * B[k x n] (pitch ldb), fp32.
  void (*gemm_f32)(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                   int64_t ldc) = nullptr;
  /// out[j] = dot(x, row j of b) for j < count, b read in place; x has k floats.
  void (*gemv)(float* out, const float* x, const MatrixView& b, int64_t first, int64_t count, int64_t k) = nullptr;
};

/// The table for this CPU, by ATen's choice of capability (ATEN_CPU_CAPABILITY lowers it).
const KernelTable& kernels();

}  // namespace spyre::softdev
