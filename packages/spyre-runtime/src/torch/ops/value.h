// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/ops/builder.h"

/// Arithmetic on Values: what the bodies of the op tables are written in. Looked up by argument
/// type, so `exp(x) + 1` needs no prefix.
namespace spyre::aten {

namespace detail {
inline Type wider(Type a, Type b) {
  if (a == Type::F || b == Type::F) return Type::F;
  return a == Type::I || b == Type::I ? Type::I : Type::B;
}
/// The op for the wider of two register types; Op::count_ where there is none. B then works on I.
inline Value binary(Op f, Op i, Op b, Value x, Value y) {
  Type type = wider(x.type, y.type);
  if (type == Type::B && b == Op::count_) type = i == Op::count_ ? Type::F : Type::I;
  if (type == Type::I && i == Op::count_) type = Type::F;
  const Op op = type == Type::F ? f : type == Type::I ? i : b;
  return x.stage->emit(op, {x.stage->convert(x, type), x.stage->convert(y, type)});
}
inline Value unary(Op f, Op i, Value x) {
  return x.stage->emit(x.type == Type::F || i == Op::count_ ? f : i, {x});
}
}  // namespace detail

inline Value as_float(Value x) { return x.stage->convert(x, Type::F); }
inline Value as_int(Value x) { return x.stage->convert(x, Type::I); }
/// A constant of x's type.
inline Value like(Value x, double value) {
  return x.type == Type::F ? x.stage->constant_f(value)
                           : x.stage->constant_i(static_cast<int64_t>(value));
}

// --- arithmetic ----------------------------------------------------------------------------------

inline Value operator+(Value x, Value y) {
  if (x.is_constant(0) && x.type == Type::I && y.type == Type::I) return y;
  if (y.is_constant(0) && x.type == Type::I && y.type == Type::I) return x;
  return detail::binary(Op::add, Op::add_i, Op::or_b, x, y);
}
inline Value operator-(Value x, Value y) {
  return detail::binary(Op::sub, Op::sub_i, Op::count_, x, y);
}
inline Value operator*(Value x, Value y) {
  if (x.is_constant(1) && detail::wider(x.type, y.type) == y.type) return y;
  if (y.is_constant(1) && detail::wider(x.type, y.type) == x.type) return x;
  return detail::binary(Op::mul, Op::mul_i, Op::and_b, x, y);
}
inline Value operator/(Value x, Value y) {
  return detail::binary(Op::div, Op::count_, Op::count_, x, y);
}
inline Value operator-(Value x) { return detail::unary(Op::neg, Op::neg_i, x); }

#define SPYRE_WITH_NUMBER(op)                                             \
  inline Value operator op(Value x, double y) { return x op like(x, y); } \
  inline Value operator op(double x, Value y) { return like(y, x) op y; }
SPYRE_WITH_NUMBER(+)
SPYRE_WITH_NUMBER(-)
SPYRE_WITH_NUMBER(*)
SPYRE_WITH_NUMBER(/)

#define SPYRE_BINARY(name, f, i, b) \
  inline Value name(Value x, Value y) { return detail::binary(Op::f, Op::i, Op::b, x, y); }
SPYRE_BINARY(maximum, maximum, maximum_i, or_b)
SPYRE_BINARY(minimum, minimum, minimum_i, and_b)
SPYRE_BINARY(fmax, fmax, maximum_i, or_b)
SPYRE_BINARY(fmin, fmin, minimum_i, and_b)
SPYRE_BINARY(remainder, remainder, remainder_i, count_)
SPYRE_BINARY(fmod, fmod, fmod_i, count_)
SPYRE_BINARY(floordiv, floordiv, floordiv_i, count_)
SPYRE_BINARY(truncdiv, truncdiv, truncdiv_i, count_)
SPYRE_BINARY(pow, pow, pow_i, count_)
SPYRE_BINARY(atan2, atan2, count_, count_)
SPYRE_BINARY(hypot, hypot, count_, count_)
SPYRE_BINARY(copysign, copysign, count_, count_)
SPYRE_BINARY(operator&, count_, and_i, and_b)
SPYRE_BINARY(operator|, count_, or_i, or_b)
SPYRE_BINARY(operator^, count_, xor_i, xor_b)
SPYRE_BINARY(shift_left, count_, shl_i, count_)
SPYRE_BINARY(shift_right, count_, shr_i, count_)

// --- comparison and selection --------------------------------------------------------------------

SPYRE_BINARY(operator==, eq, eq_i, count_)
SPYRE_BINARY(operator!=, ne, ne_i, xor_b)
SPYRE_BINARY(operator<, lt, lt_i, count_)
SPYRE_BINARY(operator<=, le, le_i, count_)
SPYRE_BINARY(operator>, gt, gt_i, count_)
SPYRE_BINARY(operator>=, ge, ge_i, count_)
#undef SPYRE_BINARY

SPYRE_WITH_NUMBER(==)
SPYRE_WITH_NUMBER(!=)
SPYRE_WITH_NUMBER(<)
SPYRE_WITH_NUMBER(<=)
SPYRE_WITH_NUMBER(>)
SPYRE_WITH_NUMBER(>=)
#undef SPYRE_WITH_NUMBER

inline Value operator!(Value x) { return x.stage->emit(Op::not_b, {x}); }

inline Value where(Value condition, Value x, Value y) {
  const Type type = detail::wider(x.type, y.type);
  const Op op = type == Type::F ? Op::where : type == Type::I ? Op::where_i : Op::where_b;
  return x.stage->emit(op, {condition, x, y});
}
inline Value where(Value condition, Value x, double y) { return where(condition, x, like(x, y)); }
inline Value where(Value condition, double x, Value y) { return where(condition, like(y, x), y); }

// --- functions of one value ----------------------------------------------------------------------

inline Value abs(Value x) { return detail::unary(Op::abs, Op::abs_i, x); }
inline Value sign(Value x) { return detail::unary(Op::sign, Op::sign_i, x); }
inline Value isnan(Value x) { return x.stage->emit(Op::isnan, {x}); }

// clang-format off
#define SPYRE_UNARY(name) \
  inline Value name(Value x) { return x.stage->emit(Op::name, {x}); }
SPYRE_UNARY(exp)
SPYRE_UNARY(expm1)
SPYRE_UNARY(log)
SPYRE_UNARY(log2)
SPYRE_UNARY(log10)
SPYRE_UNARY(log1p)
SPYRE_UNARY(sqrt)
SPYRE_UNARY(rsqrt)
SPYRE_UNARY(reciprocal)
SPYRE_UNARY(sin)
SPYRE_UNARY(cos)
SPYRE_UNARY(tanh)
SPYRE_UNARY(erf)
SPYRE_UNARY(sigmoid)
SPYRE_UNARY(floor)
SPYRE_UNARY(trunc)
SPYRE_UNARY(round)
SPYRE_UNARY(frac)
SPYRE_UNARY(signbit)
#undef SPYRE_UNARY
// clang-format on

/// x * y + z without rounding between.
inline Value fma(Value x, Value y, Value z) { return x.stage->emit(Op::fma, {x, y, z}); }

}  // namespace spyre::aten
