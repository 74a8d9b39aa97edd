// SPDX-License-Identifier: Apache-2.0
// The pointwise operators. To add one: a row here. `a[i]` is argument i of its schema; see
// pointwise.h for the columns, value.h for what a body may use, docs/guides/add_an_op.md for a
// worked example.
#include <ATen/ops/any.h>
#include <ATen/ops/eq.h>

#include <cmath>
#include <limits>

#include "torch/ops/pointwise.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using A = const PointwiseArgs&;
using c10::ScalarType;

// --- conditions of rows --------------------------------------------------------------------------

/// Integer division by zero is an error now, not when the device gets there: divisors are looked at
/// first. Tensors of them do not go to the CPU, whose own division of the least number by -1 ends
/// the process.
template <int divisor>
bool divides_safely(const Call& call, char type) {
  if (type == 'f') return true;
  const c10::IValue& value = call[divisor];
  if (!value.isTensor()) return value.toScalar().toDouble() != 0;
  const at::Tensor& tensor = value.toTensor();
  if (tensor.is_cpu()) return tensor.dim() == 0 && tensor.item().toDouble() != 0;
  TORCH_CHECK(!at::any(at::eq(tensor, 0)).item<bool>(), "ZeroDivisionError: the divisor of ",
              call.signature().name, " is a tensor of integers that holds a zero");
  return true;
}

/// div with rounding_mode=None is true division, of floats only.
bool divides_with_mode(const Call& call, char type) {
  if (!call.has(2)) return type == 'f';
  const std::string_view mode = call[2].toStringRef();
  return (mode == "floor" || mode == "trunc") && divides_safely<1>(call, type);
}

bool gives_truth(const Call& call, char) {
  return !call.has_output() || call.output().scalar_type() == ScalarType::Bool;
}

/// A derivative that is computed from the result needs a slope that keeps the sign.
template <int slope, int from_result>
bool is_invertible(const Call& call, char) {
  return !call[from_result].toBool() || call[slope].toScalar().toDouble() >= 0;
}

/// The approximation that gelu names, at `position`; others are errors, which the CPU words.
template <int position>
bool has_gelu(const Call& call, char) {
  const std::string_view name = call[position].toStringRef();
  return name == "none" || name == "tanh";
}

bool has_natural_exponent(const Call& call, char type) {
  return type == 'f' || (call[1].isInt() && call[1].toInt() >= 0);
}

/// A number of the operand's dtype, zero or more.
bool is_magnitude(const Call& call, char) {
  const double value = call[1].toScalar().toDouble();
  const bool is_half = call.tensor(0).scalar_type() == ScalarType::Half;
  return value >= 0 && value <= (is_half ? 65504.0 : std::numeric_limits<float>::max());
}

bool has_exponent(const Call& call, char) {
  return call.tensor(1).scalar_type() != ScalarType::Bool;
}

template <int first, int second>
bool has_either(const Call& call, char) {
  return call.has(first) || call.has(second);
}

/// The difference of truth values is an error, which the CPU words.
bool subtracts_no_bool(const Call& call, char) {
  for (int i = 0; i < 2; ++i) {
    const c10::IValue& value = call[i];
    if (value.isBool()) return false;
    if (value.isTensor() && value.toTensor().scalar_type() == ScalarType::Bool) return false;
  }
  return true;
}

// --- bodies that take more than a line -----------------------------------------------------------

constexpr double kInverseSqrt2 = 0.70710678118654752440;
constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kInverseSqrt2Pi = 0.39894228040143267794;
constexpr double kGeluCubic = 0.044715;

bool is_half(A a) { return is_sen169(a.dtype()); }

Value is_infinite(A a, Value x) {
  return a.stage().emit(is_half(a) ? Op::isinf_sen169 : Op::isinf, {x});
}

Value pow_by_number(A a) {
  const Value x = a[0];
  const Value y = a[1];
  if (y.is_constant(2)) return x * x;
  if (y.is_constant(3)) return x * x * x;
  if (x.type == Type::F) {
    if (y.is_constant(0.5)) return sqrt(x);
    if (y.is_constant(-0.5)) return rsqrt(x);
    if (y.is_constant(-1)) return reciprocal(x);
    if (y.is_constant(-2)) return reciprocal(x * x);
  }
  return pow(x, y);
}

Value divide_with_mode(A a) {
  const std::string_view mode = a.text(2);
  if (mode == "floor") return floordiv(a[0], a[1]);
  if (mode == "trunc") return truncdiv(a[0], a[1]);
  return a[0] / a[1];
}

Value lerp(Value start, Value end, Value weight) {
  const Value difference = end - start;
  return where(abs(weight) < 0.5, fma(weight, difference, start), end - difference * (1 - weight));
}

Value clamp(A a) {
  Value x = a[0];
  if (a.has(1)) x = maximum(x, a[1]);
  if (a.has(2)) x = minimum(x, a[2]);
  return x;
}

Value nan_to_num(A a) {
  const Value x = a[0];
  if (x.type != Type::F) return x;
  const double largest = a.dtype() == ScalarType::Half ? 65504.0
                         : a.dtype() == ScalarType::BFloat16
                             ? float{std::numeric_limits<c10::BFloat16>::max()}
                             : std::numeric_limits<float>::max();
  const Value nan = a.constant(a.has(1) ? a.number(1) : 0);
  const Value high = a.constant(a.has(2) ? a.number(2) : largest);
  const Value low = a.constant(a.has(3) ? a.number(3) : -largest);
  return where(isnan(x), nan, where(is_infinite(a, x), where(x > 0, high, low), x));
}

Value logit(A a) {
  Value x = a[0];
  if (a.has(1)) x = minimum(maximum(x, a[1]), 1 - a[1]);
  return log(x / (1 - x));
}

Value log_add_exp(A a, Op exponential, Op logarithm_of_1_plus) {
  const Value larger = maximum(a[0], a[1]);
  StageBuilder& stage = a.stage();
  const Value correction =
      stage.emit(logarithm_of_1_plus, {stage.emit(exponential, {-abs(a[0] - a[1])})});
  // Two equal infinities have no difference.
  return where(is_infinite(a, a[0]) & (a[0] == a[1]), a[0], larger + correction);
}

Value xlogy(Value x, Value y, Value logarithm) {
  return where(isnan(y), y, where(x == 0, 0, x * logarithm));
}

/// x * 2^exponent. In three factors: fewer may overflow where the result does not.
Value ldexp(A a) {
  const auto power = [&](Value exponent) { return a.stage().emit(Op::exp2, {exponent}); };
  constexpr double kMost = 3 * 126;
  const Value exponent = minimum(maximum(a[1], like(a[1], -kMost)), like(a[1], kMost));
  const Value third = trunc(exponent * (1.0 / 3)), factor = power(third);
  return a[0] * factor * factor * power(exponent - third * 2.0);
}

Value softplus(Value x, Value beta, Value threshold) {
  const Value scaled = x * beta;
  return where(scaled > threshold, x, log1p(exp(scaled)) / beta);
}

Value gelu_backward(A a) {
  const Value grad = a[0];
  const Value x = a[1];
  if (a.text(2) == "tanh") {
    const Value inner = kSqrt2OverPi * (x + kGeluCubic * x * x * x);
    const Value t = tanh(inner);
    const Value slope = kSqrt2OverPi * (1 + 3 * kGeluCubic * x * x);
    return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope);
  }
  const Value cdf = 0.5 * (1 + erf(x * kInverseSqrt2));
  const Value pdf = kInverseSqrt2Pi * exp(-0.5 * x * x);
  return grad * (cdf + x * pdf);
}

Value elu_backward(A a) {
  const Value grad = a[0];
  const Value x = a[5];
  const Value negative = a[1] * a[2];  // alpha * scale
  const Value slope =
      a.flag(4) ? grad * a[3] * (x + negative) : grad * a[3] * negative * exp(x * a[3]);
  return where(x <= 0, slope, grad * a[2]);
}

Value mish_backward(Value grad, Value x) {
  const Value s = sigmoid(x);
  const Value t = tanh(log1p(exp(x)));
  return grad * (t + x * s * (1 - t * t));
}

Value logit_backward(A a) {
  const Value grad = a[0];
  const Value x = a[1];
  const Value inside = grad / (x * (1 - x));
  if (!a.has(2)) return where((x < 0) | (x > 1), NAN, inside);
  return where((x < a[2]) | (x > 1 - a[2]), 0, inside);
}

#define UNARY(name, op) \
  {name, Rule::kFloat, "f", k1, [](A a) { return a.stage().emit(Op::op, {a[0]}); }}
/// Rounding of integers is the identity.
#define ROUNDING(name, op)      \
  {name, Rule::kSame, "fi", k1, \
   [](A a) { return a[0].type == Type::I ? a[0] : a.stage().emit(Op::op, {a[0]}); }}
#define BOTH(tensor_name, scalar_name, rule, types, body) \
  {tensor_name, rule, types, k2, body}, { scalar_name, rule, types, k2, body }

const std::vector<PointwiseOp>& table() {
  static const std::vector<PointwiseOp> rows = {
    // arithmetic
    {"add.Tensor", Rule::kArithmetic, "fib", k2,
     [](A a) {
       return a[0].type == Type::F && !a[2].is_constant(1) ? fma(a[1], a[2], a[0])
                                                            : a[0] + a[2] * a[1];
     }},
    {"sub.Tensor", Rule::kArithmetic, "fi", k2, [](A a) { return a[0] - a[2] * a[1]; },
     subtracts_no_bool},
    {"rsub.Tensor", Rule::kArithmetic, "fi", k2, [](A a) { return a[1] - a[2] * a[0]; },
     subtracts_no_bool},
    {"mul.Tensor", Rule::kArithmetic, "fib", k2, [](A a) { return a[0] * a[1]; }},
    {"div.Tensor", Rule::kFloatArithmetic, "f", k2, [](A a) { return a[0] / a[1]; }},
    {"div.Tensor_mode", Rule::kArithmetic, "fi", k2, divide_with_mode, divides_with_mode},
    {"floor_divide", Rule::kArithmetic, "fi", k2, [](A a) { return floordiv(a[0], a[1]); },
     divides_safely<1>},
    {"remainder.Tensor", Rule::kPromote, "fi", k2, [](A a) { return remainder(a[0], a[1]); },
     divides_safely<1>},
    {"remainder.Scalar_Tensor", Rule::kPromote, "fi", k2,
     [](A a) { return remainder(a[0], a[1]); }, divides_safely<1>},
    {"fmod.Tensor", Rule::kPromote, "fi", k2, [](A a) { return fmod(a[0], a[1]); },
     divides_safely<1>},
    {"addcmul", Rule::kArithmetic, "fi", k3, [](A a) { return a[0] + a[3] * a[1] * a[2]; }},
    {"addcdiv", Rule::kArithmetic, "f", k3, [](A a) { return a[0] + a[3] * a[1] / a[2]; }},
    {"lerp.Scalar", Rule::kSame, "f", k2, [](A a) { return lerp(a[0], a[1], a[2]); }},
    {"lerp.Tensor", Rule::kSame, "f", k3, [](A a) { return lerp(a[0], a[1], a[2]); }},
    {"pow.Tensor_Scalar", Rule::kArithmetic, "fi", k2, pow_by_number, has_natural_exponent},
    {"pow.Tensor_Tensor", Rule::kPromote, "fi", k2, [](A a) { return pow(a[0], a[1]); }},
    {"pow.Scalar", Rule::kPromote, "fi", k2, [](A a) { return pow(a[0], a[1]); }, nullptr, 0,
     /*is_result_contiguous=*/true},
    {"neg", Rule::kSame, "fi", k1, [](A a) { return -a[0]; }},
    {"abs", Rule::kSame, "fi", k1, [](A a) { return abs(a[0]); }},
    {"sign", Rule::kSame, "fi", k1, [](A a) { return sign(a[0]); }},
    {"sgn", Rule::kSame, "fi", k1, [](A a) { return sign(a[0]); }},
    {"maximum", Rule::kPromote, "fib", k2, [](A a) { return maximum(a[0], a[1]); }},
    {"minimum", Rule::kPromote, "fib", k2, [](A a) { return minimum(a[0], a[1]); }},
    {"fmax", Rule::kPromote, "fib", k2, [](A a) { return fmax(a[0], a[1]); }},
    {"fmin", Rule::kPromote, "fib", k2, [](A a) { return fmin(a[0], a[1]); }},
    {"clamp", Rule::kPromote, "fi", k3, clamp, has_either<1, 2>},
    {"clamp.Tensor", Rule::kPromote, "fi", k3, clamp, has_either<1, 2>},
    BOTH("clamp_min.Tensor", "clamp_min", Rule::kPromote, "fi",
         [](A a) { return maximum(a[0], a[1]); }),
    BOTH("clamp_max.Tensor", "clamp_max", Rule::kPromote, "fi",
         [](A a) { return minimum(a[0], a[1]); }),
    {"atan2", Rule::kFloat, "f", k2, [](A a) { return atan2(a[0], a[1]); }},
    {"hypot", Rule::kPromote, "f", k2, [](A a) { return hypot(a[0], a[1]); }},
    {"copysign.Tensor", Rule::kFloat, "f", k2, [](A a) { return copysign(a[0], a[1]); }},
    {"ldexp.Tensor", Rule::kFloat, "f", k2, ldexp, has_exponent},
    {"heaviside", Rule::kSame, "fi", k2,
     [](A a) { return where(a[0] == 0, a[1], a.stage().convert(a[0] > 0, a[0].type)); }},
    {"logaddexp", Rule::kPromote, "f", k2, [](A a) { return log_add_exp(a, Op::exp, Op::log1p); }},
    {"xlogy.Tensor", Rule::kFloat, "f", k2, [](A a) { return xlogy(a[0], a[1], log(a[1])); }},
    {"special_xlog1py", Rule::kFloat, "f", k2,
     [](A a) { return xlogy(a[0], a[1], log1p(a[1])); }},

    // functions of one number
    UNARY("exp", exp), UNARY("exp2", exp2), UNARY("expm1", expm1), UNARY("log", log),
    UNARY("log2", log2), UNARY("log10", log10), UNARY("log1p", log1p), UNARY("sqrt", sqrt),
    UNARY("rsqrt", rsqrt), UNARY("reciprocal", reciprocal), UNARY("sin", sin), UNARY("cos", cos),
    UNARY("tan", tan), UNARY("asin", asin), UNARY("acos", acos), UNARY("atan", atan),
    UNARY("sinh", sinh), UNARY("cosh", cosh), UNARY("tanh", tanh), UNARY("asinh", asinh),
    UNARY("acosh", acosh), UNARY("atanh", atanh), UNARY("erf", erf), UNARY("erfc", erfc),
    UNARY("erfinv", erfinv), UNARY("lgamma", lgamma), UNARY("digamma", digamma),
    UNARY("sigmoid", sigmoid), UNARY("i0", i0), UNARY("special_i0e", i0e), UNARY("special_i1", i1),
    UNARY("special_i1e", i1e),
    ROUNDING("floor", floor), ROUNDING("ceil", ceil), ROUNDING("trunc", trunc),
    ROUNDING("round", round),
    {"frac", Rule::kSame, "f", k1, [](A a) { return frac(a[0]); }},
    {"sinc", Rule::kFloat, "f", k1,
     [](A a) { return where(a[0] == 0, 1, sin(M_PI * a[0]) / (M_PI * a[0])); }},
    {"special_entr", Rule::kFloat, "f", k1,
     [](A a) {
       const Value x = a[0];
       const Value nothing = a.constant(-INFINITY);
       const Value inside = where(is_infinite(a, x), nothing, -x * log(x));
       return where(isnan(x), x, where(x > 0, inside, where(x == 0, like(x, 0), nothing)));
     }},
    {"logit", Rule::kFloat, "f", k1, logit},
    {"nan_to_num", Rule::kSame, "fi", k1, nan_to_num},

    // comparison, logic, selection
    BOTH("eq.Tensor", "eq.Scalar", Rule::kCompare, "fib", [](A a) { return a[0] == a[1]; }),
    BOTH("ne.Tensor", "ne.Scalar", Rule::kCompare, "fib", [](A a) { return a[0] != a[1]; }),
    BOTH("lt.Tensor", "lt.Scalar", Rule::kCompare, "fib", [](A a) { return a[0] < a[1]; }),
    BOTH("le.Tensor", "le.Scalar", Rule::kCompare, "fib", [](A a) { return a[0] <= a[1]; }),
    BOTH("gt.Tensor", "gt.Scalar", Rule::kCompare, "fib", [](A a) { return a[0] > a[1]; }),
    BOTH("ge.Tensor", "ge.Scalar", Rule::kCompare, "fib", [](A a) { return a[0] >= a[1]; }),
    {"logical_and", Rule::kLogical, "b", k2, [](A a) { return a[0] & a[1]; }},
    {"logical_or", Rule::kLogical, "b", k2, [](A a) { return a[0] | a[1]; }},
    {"logical_xor", Rule::kLogical, "b", k2, [](A a) { return a[0] ^ a[1]; }},
    {"logical_not", Rule::kLogical, "b", k1, [](A a) { return !a[0]; }},
    {"bitwise_and.Tensor", Rule::kPromote, "ib", k2, [](A a) { return a[0] & a[1]; }},
    {"bitwise_or.Tensor", Rule::kPromote, "ib", k2, [](A a) { return a[0] | a[1]; }},
    {"bitwise_xor.Tensor", Rule::kPromote, "ib", k2, [](A a) { return a[0] ^ a[1]; }},
    {"bitwise_not", Rule::kSame, "ib", k1,
     [](A a) { return a[0].type == Type::B ? !a[0] : a.stage().emit(Op::not_i, {a[0]}); }},
    BOTH("bitwise_left_shift.Tensor", "__lshift__.Scalar", Rule::kPromote, "i",
         [](A a) { return shift_left(a[0], a[1]); }),
    BOTH("bitwise_right_shift.Tensor", "__rshift__.Scalar", Rule::kPromote, "i",
         [](A a) { return shift_right(a[0], a[1]); }),
    {"__lshift__.Tensor", Rule::kPromote, "i", k2, [](A a) { return shift_left(a[0], a[1]); }},
    {"__rshift__.Tensor", Rule::kPromote, "i", k2, [](A a) { return shift_right(a[0], a[1]); }},
    {"where.self", Rule::kPromote, "fib", k3, [](A a) { return where(a[0], a[1], a[2]); }, nullptr,
     0b001},
    {"masked_fill_.Scalar", Rule::kSelf, "fib", k3, [](A a) { return where(a[1], a[2], a[0]); },
     nullptr, 0b010},
    {"masked_fill_.Tensor", Rule::kSelf, "fib", k3, [](A a) { return where(a[1], a[2], a[0]); },
     [](const Call& call, char) { return call.tensor(2).dim() == 0; }, 0b010},
    {"isnan", Rule::kCompare, "fib", k1,
     [](A a) { return a[0].type == Type::F ? isnan(a[0]) : a[0] != a[0]; }},
    {"isinf", Rule::kCompare, "fib", k1,
     [](A a) { return a[0].type == Type::F ? is_infinite(a, a[0]) : a[0] != a[0]; }},
    {"isposinf", Rule::kCompare, "f", k1, [](A a) { return is_infinite(a, a[0]) & (a[0] > 0); },
     gives_truth},
    {"isneginf", Rule::kCompare, "f", k1, [](A a) { return is_infinite(a, a[0]) & (a[0] < 0); },
     gives_truth},
    {"signbit", Rule::kCompare, "fi", k1,
     [](A a) { return a[0].type == Type::F ? signbit(a[0]) : a[0] < 0; }, gives_truth},

    // activations
    {"relu", Rule::kSame, "fi", k1, [](A a) { return maximum(a[0], like(a[0], 0)); }},
    {"gelu", Rule::kSame, "f", k1,
     [](A a) { return a.stage().emit(a.text(1) == "tanh" ? Op::gelu_tanh : Op::gelu, {a[0]}); },
     has_gelu<1>},
    {"silu", Rule::kSame, "f", k1, [](A a) { return a.stage().emit(Op::silu, {a[0]}); }},
    {"hardtanh", Rule::kSame, "f", k1, [](A a) { return minimum(maximum(a[0], a[1]), a[2]); }},
    {"leaky_relu", Rule::kSame, "f", k1, [](A a) { return where(a[0] > 0, a[0], a[0] * a[1]); }},
    {"elu", Rule::kSame, "f", k1,
     [](A a) { return where(a[0] <= 0, expm1(a[0] * a[3]) * (a[1] * a[2]), a[0] * a[2]); }},
    {"softplus", Rule::kSame, "f", k1, [](A a) { return softplus(a[0], a[1], a[2]); }},
    {"hardswish", Rule::kSame, "f", k1,
     [](A a) {
       return a[0] * minimum(maximum(a[0] + 3, like(a[0], 0)), like(a[0], 6)) * (1.0 / 6);
     }},
    {"hardsigmoid", Rule::kSame, "f", k1,
     [](A a) { return minimum(maximum(a[0] + 3, like(a[0], 0)), like(a[0], 6)) * (1.0 / 6); }},
    {"mish", Rule::kSame, "f", k1, [](A a) { return a[0] * tanh(log1p(exp(a[0]))); }},
    {"threshold", Rule::kSame, "f", k1, [](A a) { return where(a[0] <= a[1], a[2], a[0]); }},
    {"softshrink", Rule::kSame, "f", k1,
     [](A a) {
       const Value x = a[0];
       return where(x > a[1], x - a[1], where(x < -a[1], x + a[1], x * 0));
     },
     is_magnitude},
    {"hardshrink", Rule::kSame, "f", k1,
     [](A a) { return where((a[0] >= -a[1]) & (a[0] <= a[1]), 0, a[0]); }},
    {"_prelu_kernel", Rule::kSame, "f", k2,
     [](A a) { return where(a[0] > 0, a[0], a[1] * a[0]); }},

    // their derivatives
    {"sigmoid_backward", Rule::kPromote, "f", k2,
     [](A a) { return a[0] * (1 - a[1]) * a[1]; }},
    {"tanh_backward", Rule::kPromote, "f", k2, [](A a) { return a[0] * (1 - a[1] * a[1]); }},
    {"threshold_backward", Rule::kPromote, "fi", k2,
     [](A a) { return where(a[1] <= a[2], 0, a[0]); }},
    {"gelu_backward", Rule::kPromote, "f", k2, gelu_backward, has_gelu<2>},
    {"silu_backward", Rule::kPromote, "f", k2,
     [](A a) {
       const Value s = sigmoid(a[1]);
       return a[0] * s * (1 + a[1] * (1 - s));
     }},
    {"hardtanh_backward", Rule::kPromote, "f", k2,
     [](A a) { return where((a[1] <= a[2]) | (a[1] >= a[3]), 0, a[0]); }},
    {"leaky_relu_backward", Rule::kPromote, "f", k2,
     [](A a) { return where(a[1] > 0, a[0], a[0] * a[2]); }, is_invertible<2, 3>},
    {"elu_backward", Rule::kPromote, "f", 0b100001, elu_backward, is_invertible<1, 4>},
    {"softplus_backward", Rule::kPromote, "f", k2,
     [](A a) {
       const Value scaled = a[1] * a[2];
       return where(scaled > a[3], a[0], a[0] * sigmoid(scaled));
     }},
    {"hardswish_backward", Rule::kSame, "f", k2,
     [](A a) {
       const Value slope = where(a[1] <= 3, a[0] * (a[1] * (1.0 / 3) + 0.5), a[0]);
       return where(a[1] < -3, 0, slope);
     }},
    {"hardsigmoid_backward", Rule::kPromote, "f", k2,
     [](A a) { return where((a[1] > -3) & (a[1] < 3), a[0] * (1.0 / 6), 0); }},
    {"mish_backward", Rule::kSame, "f", k2, [](A a) { return mish_backward(a[0], a[1]); }},
    {"softshrink_backward", Rule::kPromote, "f", k2,
     [](A a) { return where((a[1] >= -a[2]) & (a[1] <= a[2]), 0, a[0]); }},
    {"hardshrink_backward", Rule::kPromote, "f", k2,
     [](A a) { return where((a[1] >= -a[2]) & (a[1] <= a[2]), 0, a[0]); }},
    {"logit_backward", Rule::kPromote, "f", k2, logit_backward},
    {"log_sigmoid_backward", Rule::kSame, "f", k2, [](A a) { return a[0] * sigmoid(-a[1]); }},
  };
  return rows;
}

#undef UNARY
#undef ROUNDING
#undef BOTH

}  // namespace

const std::vector<PointwiseOp>& pointwise_ops() { return table(); }

}  // namespace spyre::aten
