// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "softdev/kernels/fused.h"
#include "spyre/layout/layout.h"
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
  int64_t ahead =
      0;  ///< loads: from this block to the next one, so that it may be fetched; 0: not known
};

/// Decodes elements into rows * cols lanes.
using LoadFn = void (*)(void* lanes, const void* memory, const Grid& grid);
/// Encodes rows * cols lanes into elements.
using StoreFn = void (*)(void* memory, const void* lanes, const Grid& grid);

/// Combines rows * cols lanes into one accumulator per row or per column. `acc` holds the
/// accumulators, `aux` what else they need: the running error of a float sum, the position of an
/// arg reduction (int64_t). Positions of lanes are position + row * row_step + col * col_step.
struct Positions {
  int64_t position, row_step, col_step;
};
using ReduceFn = void (*)(void* acc, void* aux, const void* lanes, int64_t rows, int64_t cols,
                          const Positions& positions);

inline constexpr int64_t kMaxGemvRows = 8;

/// In place of the scale of a packed block: it holds codes.
inline constexpr int8_t kCodes = INT8_MIN;

/// A storage format together with the register type it is loaded into.
enum class Codec : uint8_t {
  kSen169,
  kSen169Bool,
  kFp32,
  kSen143,
  kSen152,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kCount
};
inline constexpr size_t kCodecs = static_cast<size_t>(Codec::kCount);
int64_t codec_bytes(Codec codec);

inline constexpr size_t kOps = static_cast<size_t>(Op::count_);

/// One operand of a matrix product: a set of vectors along the depth (the rows of the left operand,
/// the columns of the right one). Element k of vector i is at offset outer[i] + inner[k] from
/// `base`, in elements; with digits, that is a host offset for layout::map_offset. Offsets come in
/// runs: inner[k + 1] == inner[k] + 1 unless k + 1 is a multiple of inner_run, and so for outer.
struct MatrixView {
  const void* base;
  Codec codec;
  const int64_t* outer;
  const int64_t* inner;
  int64_t start;  ///< added to every offset
  int64_t outer_run, inner_run;
  bool outer_contiguous;  ///< one run
  bool inner_contiguous;
  const layout::Digit* digits;
  size_t digit_count;
  int64_t ahead;  ///< from each element to that of the next batch
};

inline bool gemv_takes(const MatrixView& view) {
  return view.digits == nullptr && (view.outer_contiguous || view.inner_contiguous) &&
         (view.codec == Codec::kSen169 || view.codec == Codec::kFp32);
}

struct KernelTable {
  const char* capability = "";
  std::array<std::array<MapFn, kModes>, kOps> map{};
  std::array<LoadFn, kCodecs> load{};
  std::array<StoreFn, kCodecs> store{};
  std::array<ReduceFn, kOps> reduce_rows{};  ///< lanes of a row into the row's accumulator
  std::array<ReduceFn, kOps> reduce_cols{};  ///< lanes of a column into the column's accumulator

  FusedCodeFn fused_code = nullptr;
  FusedFn fused = nullptr;

  // Matrix products. Packed blocks hold SEN169 codes, to which values of other formats are rounded,
  // or IEEE half numbers of the values times 2^scale, exactly.

  /// Vectors [first, first + count), row after row with `pitch` elements each, zeros beyond
  /// `depth`. Makes halves, with the scale that is guessed or another one if need be, and codes if
  /// `halves` is null or no scale makes every value zero or a normal half number. Returns the
  /// scale, or kCodes.
  int8_t (*pack_left)(uint16_t* out, const MatrixView& view, int64_t first, int64_t count,
                      int64_t depth, int64_t pitch, const int8_t* halves) = nullptr;
  /// The same as columns of a panel of `width` columns and `pitch` rows, zeros beyond count and
  /// depth. If `pairs`, rows 2j and 2j + 1 are interleaved, as bfloat16 and half dot products take
  /// them.
  int8_t (*pack_right)(uint16_t* out, const MatrixView& view, int64_t first, int64_t count,
                       int64_t depth, int64_t pitch, int64_t width, bool pairs,
                       const int8_t* halves) = nullptr;
  void (*half_to_codes)(uint16_t* to, const uint16_t* half, int64_t n, int scale) = nullptr;
  /// Halves of large and of small values, zero where the other has it, whose sum is the block.
  /// False if the values span more than that, or one is NaN.
  bool (*codes_to_halves)(uint16_t* high, uint16_t* low, const uint16_t* codes, int64_t n,
                          int* high_scale, int* low_scale) = nullptr;
  /// to = from * factor, `rows` x `cols` floats.
  void (*scale_rows)(float* to, int64_t to_pitch, const float* from, int64_t from_pitch,
                     int64_t rows, int64_t cols, float factor) = nullptr;
  /// Two bfloat16 values whose sum is the value of the code.
  void (*codes_to_bf16)(uint16_t* high, uint16_t* low, const uint16_t* codes, int64_t n) = nullptr;
  void (*codes_to_f32)(float* to, const uint16_t* codes, int64_t n) = nullptr;
  /// c = a * b or c += a * b, fp32, row-major with these pitches; n is a multiple of 16.
  void (*gemm_f32)(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
                   int64_t ldb, float* c, int64_t ldc, bool add) = nullptr;
  /// out[i * pitch + j] = sum over k of x[i * depth + k] * (vector first + j)[k], for i < m <=
  /// kMaxGemvRows; the right operand is read in place. Takes contiguous SEN169 and float32
  /// operands: see gemv_takes().
  void (*gemv)(float* out, int64_t pitch, const float* x, int64_t m, const MatrixView& view,
               int64_t first, int64_t count, int64_t depth) = nullptr;
};

/// The table for this CPU, by ATen's choice of capability (ATEN_CPU_CAPABILITY lowers it).
const KernelTable& kernels();

}  // namespace spyre::softdev
