// SPDX-License-Identifier: Apache-2.0
#include "torch/ops/types.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>

#include "spyre/layout/codec.h"

namespace spyre::aten {

using c10::ScalarType;

namespace {

/// What the device takes for infinity in a SEN169 register.
constexpr double kSen169Infinity = 4294967296.0;  // 2^32

double finite_on_device(double value, ScalarType dtype) {
  if (is_sen169(dtype) && std::isinf(value)) return std::copysign(kSen169Infinity, value);
  return value;
}

/// Significant bits, to tell casts that round.
int precision(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half:
    case ScalarType::BFloat16: return 10;
    case ScalarType::Bool: return 1;
    case ScalarType::Byte:
    case ScalarType::Char: return 8;
    case ScalarType::Short: return 15;
    case ScalarType::Int: return 31;
    case ScalarType::Long: return 63;
    default: return 24;
  }
}

/// An integer as the dtype holds it: -1 is 255 in uint8, for comparisons too.
int64_t wrapped(int64_t value, ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte: return static_cast<uint8_t>(value);
    case ScalarType::Char: return static_cast<int8_t>(value);
    case ScalarType::Short: return static_cast<int16_t>(value);
    case ScalarType::Int: return static_cast<int32_t>(value);
    default: return value;
  }
}

}  // namespace

char type_class(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Float: return 'f';
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
    case ScalarType::Long: return 'i';
    case ScalarType::Bool: return 'b';
    default: return 0;
  }
}

double stored_number(double value, ScalarType dtype) {
  const float number = static_cast<float>(value);
  if (dtype == ScalarType::Half) {
    return layout::sen169_to_float(layout::fp16_to_sen169(c10::Half(number).x));
  }
  if (dtype == ScalarType::BFloat16) {
    return layout::sen169_to_float(layout::bf16_to_sen169(c10::BFloat16(number).x));
  }
  return number;
}

double computed_number(double value, ScalarType dtype) {
  return finite_on_device(static_cast<float>(value), dtype);
}

Value constant(StageBuilder& stage, const c10::Scalar& value, ScalarType dtype, bool as_stored) {
  switch (type_class(dtype)) {
    case 'i': return stage.constant_i(wrapped(value.to<int64_t>(), dtype));
    case 'b': return stage.convert(stage.constant_f(value.to<bool>() ? 1 : 0), Type::B);
    default: {
      const double number = value.to<double>();
      return stage.constant_f(as_stored ? stored_number(number, dtype)
                                        : computed_number(number, dtype));
    }
  }
}

Value cast(Value value, ScalarType from, ScalarType to) {
  value = value.stage->convert(value, register_type(to), host_dtype(to));
  if (from == to) return value;
  const char type = type_class(to);
  // An infinity stays one: it is +-2^32 in the half dtypes and IEEE's own in float32.
  if (type == 'f' && type_class(from) == 'f' && is_sen169(from) != is_sen169(to)) {
    value = value.stage->emit(is_sen169(to) ? Op::inf_to_sen169 : Op::inf_from_sen169, {value});
  }
  if (type == 'f' && is_sen169(to) && precision(from) > precision(to)) {
    return value.stage->emit(Op::round_sen169, {value});
  }
  if (type == 'i' && type_class(from) == 'i') {
    switch (to) {
      case ScalarType::Char: return value.stage->emit(Op::wrap_i8, {value});
      case ScalarType::Byte: return value.stage->emit(Op::wrap_u8, {value});
      case ScalarType::Short: return value.stage->emit(Op::wrap_i16, {value});
      case ScalarType::Int: return value.stage->emit(Op::wrap_i32, {value});
      default: break;
    }
  }
  return value;
}

}  // namespace spyre::aten
