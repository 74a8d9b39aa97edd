// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

/// The one op table: every scalar operation of the device, with its register types. The eager
/// kernels, the linker, the interpreter and (through spyre_runtime.op_table()) the compiler read
/// this list and no other. To add an op: a row here, and its lane kernel in src/softdev/kernels.
///
/// SPYRE_OP(name, result, arity, arg0, arg1, arg2); types: F float32 lanes, I int64 lanes, B truth
/// lanes (0.0 / 1.0 in float32), N none.
namespace spyre::program {

enum class Type : uint8_t { N, F, I, B };

// clang-format off
#define SPYRE_FLOAT_UNARY(X) \
  X(neg) X(abs) X(sign) X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sqrt) X(rsqrt) \
  X(reciprocal) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) \
  X(acosh) X(atanh) X(erf) X(erfc) X(erfinv) X(lgamma) X(digamma) X(sigmoid) X(relu) X(silu) \
  X(gelu) X(gelu_tanh) X(floor) X(ceil) X(trunc) X(round) X(frac) X(i0) X(i0e) X(i1) X(i1e) \
  X(round_sen169) X(round_bfloat16) X(round_float16) X(round_fp8_e4m3fn) X(round_fp8_e5m2fnuz) \
  X(inf_from_sen169) X(inf_to_sen169)

#define SPYRE_FLOAT_BINARY(X) \
  X(add) X(sub) X(mul) X(div) X(fmod) X(remainder) X(pow) X(atan2) X(hypot) X(maximum) X(minimum) \
  X(fmax) X(fmin) X(copysign) X(nextafter) X(floordiv) X(truncdiv)

#define SPYRE_FLOAT_TERNARY(X) X(fma)

#define SPYRE_FLOAT_PREDICATE(X) X(isnan) X(isinf) X(isinf_sen169) X(signbit)

#define SPYRE_COMPARE(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)

#define SPYRE_INT_UNARY(X) \
  X(neg_i) X(abs_i) X(sign_i) X(not_i) X(wrap_i8) X(wrap_i16) X(wrap_i32) X(wrap_u8)

/// Division and remainder by zero give 0 in every lane: a lane must not trap.
#define SPYRE_INT_BINARY(X) \
  X(add_i) X(sub_i) X(mul_i) X(floordiv_i) X(truncdiv_i) X(remainder_i) X(fmod_i) X(maximum_i) \
  X(minimum_i) X(and_i) X(or_i) X(xor_i) X(shl_i) X(shr_i) X(pow_i)

#define SPYRE_BOOL_BINARY(X) X(and_b) X(or_b) X(xor_b)
// clang-format on

enum class Op : uint8_t {
  // memory and constants
  load,
  store,
  store_add,
  const_f,
  const_i,
  iota,
  index_check,
  // conversions: f2i_* truncate and saturate to the target's range, NaN gives 0
  f2i_i8,
  f2i_i16,
  f2i_i32,
  f2i_i64,
  f2i_u8,
  i2f,
  f2b,
  i2b,
  b2f,
  b2i,
  bits_f2i,
  bits_i2f,
  // selection
  where,
  where_i,
  where_b,
  not_b,
  // random numbers: Philox 4x32-10 of (seed I, offset I)
  rand,
  randn,
  randint,
  // reductions; arg reductions give the row-major index over the reduce loops, first match wins,
  // NaN wins
  reduce_sum,
  reduce_prod,
  reduce_max,
  reduce_min,
  reduce_sum_i,
  reduce_prod_i,
  reduce_max_i,
  reduce_min_i,
  reduce_xor_i,
  reduce_any,
  reduce_all,
  reduce_argmax,
  reduce_argmin,
  reduce_argmax_i,
  reduce_argmin_i,
  dot,
#define X(name) name,
  SPYRE_FLOAT_UNARY(X) SPYRE_FLOAT_BINARY(X) SPYRE_FLOAT_TERNARY(X) SPYRE_FLOAT_PREDICATE(X)
      SPYRE_COMPARE(X) SPYRE_INT_UNARY(X) SPYRE_INT_BINARY(X) SPYRE_BOOL_BINARY(X)
#undef X
#define X(name) name##_i,
          SPYRE_COMPARE(X)
#undef X
              count_,
};

struct OpInfo {
  std::string_view name;
  Type result;
  uint8_t arity;
  Type args[4];
};

/// Row of `op`. Never fails.
const OpInfo& op_info(Op op);

/// Looks an op up by its text name; returns Op::count_ if there is none.
Op op_by_name(std::string_view name);

}  // namespace spyre::program
