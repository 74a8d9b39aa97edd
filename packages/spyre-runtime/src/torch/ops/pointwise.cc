// SPDX-License-Identifier: Apache-2.0
#include "torch/ops/pointwise.h"

#include <ATen/TensorIterator.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/TypeCast.h>

#include <bit>

#include "torch/launch.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/types.h"

namespace spyre::aten {

using c10::ScalarType;

namespace {

bool rounds_numbers(Rule rule) {
  return rule != Rule::kArithmetic && rule != Rule::kFloatArithmetic;
}

bool has_position(Positions set, int position) { return (set >> position & 1) != 0; }

/// An argument that takes part in broadcasting: a tensor on the device, a number, or absent.
struct Operand {
  int position = 0;
  at::Tensor tensor;
  c10::Scalar number;
  enum class Kind : uint8_t { kAbsent, kTensor, kNumber } kind = Kind::kAbsent;
};

struct Plan {
  c10::SmallVector<Operand, 4> operands;
  ScalarType compute = ScalarType::Undefined;
  ScalarType result = ScalarType::Undefined;
};

/// Whether a number survives the cast to the dtype that it is rounded to. The CPU words the error.
bool fits(const c10::Scalar& number, ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte: return !c10::overflows<uint8_t>(number.toLong());
    case ScalarType::Char: return !c10::overflows<int8_t>(number.toLong());
    case ScalarType::Short: return !c10::overflows<int16_t>(number.toLong());
    case ScalarType::Int: return !c10::overflows<int32_t>(number.toLong());
    case ScalarType::Half: return !c10::overflows<c10::Half>(number.toDouble());
    case ScalarType::BFloat16: return !c10::overflows<c10::BFloat16>(number.toDouble());
    case ScalarType::Float: return !c10::overflows<float>(number.toDouble());
    default: return true;
  }
}

bool find_operands(const PointwiseOp& op, const Call& call, Plan& plan) {
  bool any_on_device = false;
  for (int i = 0; op.operands >> i != 0; ++i) {
    if (!has_position(op.operands, i)) continue;
    Operand operand;
    operand.position = i;
    const c10::IValue& value = call[i];
    if (value.isTensor() && value.toTensor().defined()) {
      operand.tensor = value.toTensor();
      const at::Tensor& tensor = operand.tensor;
      if (tensor.is_cpu() && tensor.dim() == 0) {
        if (tensor.is_complex()) return false;
        operand.kind = Operand::Kind::kNumber;
        operand.number = tensor.item();
      } else {
        operand.kind = Operand::Kind::kTensor;
        any_on_device = any_on_device || is_spyre(tensor);
        if (has_position(op.conditions, i) && tensor.scalar_type() != ScalarType::Bool)
          return false;
      }
    } else if (value.isScalar()) {
      if (value.isComplexDouble()) return false;
      operand.kind = Operand::Kind::kNumber;
      operand.number = value.toScalar();
    }
    plan.operands.push_back(std::move(operand));
  }
  return any_on_device;
}

ScalarType compute_dtype(const PointwiseOp& op, const Plan& plan) {
  if (op.rule == Rule::kLogical) return ScalarType::Bool;
  if (op.rule == Rule::kSelf) return plan.operands[0].tensor.scalar_type();
  at::native::ResultTypeState state;
  for (const Operand& operand : plan.operands) {
    if (has_position(op.conditions, operand.position)) continue;
    if (operand.tensor.defined()) {
      state = at::native::update_result_type_state(operand.tensor, state);
    } else if (operand.kind == Operand::Kind::kNumber) {
      state = at::native::update_result_type_state(operand.number, state);
    }
  }
  const ScalarType common = at::native::result_type(state);
  const bool to_float = op.rule == Rule::kFloat || op.rule == Rule::kFloatArithmetic;
  if (to_float && c10::isIntegralType(common, /*includeBool=*/true)) {
    return c10::typeMetaToScalarType(c10::get_default_dtype());
  }
  return common;
}

/// Parameters must fit the computation: of integers, alpha=1.5, alpha=True and what overflows are
/// errors, which the CPU words.
bool parameters_fit(const PointwiseOp& op, const Call& call, ScalarType compute) {
  const char type = type_class(compute);
  for (size_t i = 0; i < call.signature().argument_count; ++i) {
    if (has_position(op.operands, static_cast<int>(i)) || !call[i].isScalar()) continue;
    if (call[i].isComplexDouble()) return false;
    if (type != 'f' && call[i].isDouble()) return false;
    if (type != 'b' && call[i].isBool() && call.signature().argument_names[i] == "alpha")
      return false;
    if (type == 'i' && call[i].isInt() && !fits(call[i].toInt(), compute)) return false;
  }
  return true;
}

/// Sorts the operands and finds the dtypes; false if the row has no kernel for them.
bool make_plan(const PointwiseOp& op, const Call& call, Plan& plan) {
  if (!find_operands(op, call, plan)) return false;
  plan.compute = compute_dtype(op, plan);
  const char type = type_class(plan.compute);
  if (type == 0 || std::string_view(op.types).find(type) == std::string_view::npos) return false;
  for (const Operand& operand : plan.operands) {
    if (has_position(op.conditions, operand.position)) continue;
    // Of a 0-dim tensor on the CPU too: only a plain number takes on the others' dtype.
    if (operand.tensor.defined() && op.rule == Rule::kSame &&
        operand.tensor.scalar_type() != plan.compute &&
        !operand.tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      return false;
    }
    if (operand.kind == Operand::Kind::kNumber && (type == 'i' || rounds_numbers(op.rule)) &&
        (operand.number.isFloatingPoint() > (type == 'f') || !fits(operand.number, plan.compute))) {
      return false;
    }
  }
  if (!parameters_fit(op, call, plan.compute)) return false;
  if (op.accepts != nullptr && !op.accepts(call, type)) return false;
  const bool to_bool = op.rule == Rule::kCompare || op.rule == Rule::kLogical;
  plan.result = to_bool ? ScalarType::Bool : plan.compute;
  // Selections and the ops that do not promote mostly refuse an out tensor of another dtype; the
  // CPU knows which, and words it.
  const at::Tensor out = call.output();
  return !out.defined() || out.scalar_type() == plan.result ||
         (op.rule != Rule::kSame && op.conditions == 0);
}

/// Contiguous, and dimensions of size 1 have the strides of a new tensor as well.
bool has_plain_strides(const at::Tensor& tensor) {
  if (!tensor.is_contiguous()) return false;
  int64_t expected = 1;
  for (int64_t dim = tensor.dim() - 1; dim >= 0; --dim) {
    if (tensor.stride(dim) != expected) return false;
    expected *= std::max<int64_t>(tensor.size(dim), 1);
  }
  return true;
}

/// The result when nothing needs broadcasting, checking or permuting; undefined otherwise.
at::Tensor simple_result(const Plan& plan, const Call& call) {
  if (call.has_output()) return {};
  const at::Tensor* first = nullptr;
  for (const Operand& operand : plan.operands) {
    if (operand.kind != Operand::Kind::kTensor) continue;
    if (first == nullptr) {
      first = &operand.tensor;
      if (!is_spyre(*first) || !has_plain_strides(*first)) return {};
    } else if (operand.tensor.device() != first->device() ||
               !operand.tensor.sizes().equals(first->sizes()) ||
               !operand.tensor.strides().equals(first->strides())) {
      return {};
    }
  }
  return empty(first->sizes(), plan.result, first->device());
}

at::Tensor make_result(const PointwiseOp& op, const Plan& plan, const Call& call) {
  at::Tensor out = call.output();
  if (out.defined() && out.scalar_type() != plan.result) {
    // Truth values may be written as any dtype.
    if (op.rule != Rule::kCompare && op.rule != Rule::kLogical) {
      TORCH_CHECK(c10::canCast(plan.result, out.scalar_type()), "result type ", plan.result,
                  " can't be cast to the desired output type ", out.scalar_type());
    }
  }
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(true)
      .allow_cpu_scalars(true)
      .check_all_same_dtype(false)
      .promote_inputs_to_common_dtype(false);
  if (!out.defined()) {
    config.declare_static_dtype(plan.result);
    if (op.is_result_contiguous) {
      const at::Tensor& tensor = plan.operands.back().tensor;
      out = empty(tensor.sizes(), plan.result, tensor.device());
    }
  }
  config.add_owned_output(out);
  for (const Operand& operand : plan.operands) {
    if (operand.tensor.defined()) config.add_owned_const_input(operand.tensor);
  }
  at::TensorIterator iterator = config.build();
  return iterator.output();
}

program::Program build(const PointwiseOp& op, const Plan& plan, const Call& call,
                       const at::Tensor& out, const LoopOrder& loops) {
  ProgramBuilder program(call.signature().name);
  const int out_buffer = declare_arg(program, out);
  std::vector<int> buffers;
  for (const Operand& operand : plan.operands) {
    if (operand.kind == Operand::Kind::kTensor)
      buffers.push_back(declare_arg(program, operand.tensor));
  }
  StageBuilder& stage = program.stage(op.name);
  loops.declare(stage);
  const int out_access = stage.access(out_buffer, loops.strides(out));
  std::vector<Value> values(32 - std::countl_zero(op.operands));
  size_t next = 0;
  for (const Operand& operand : plan.operands) {
    const bool is_condition = has_position(op.conditions, operand.position);
    const ScalarType dtype = is_condition ? ScalarType::Bool : plan.compute;
    Value& value = values[operand.position];
    if (operand.kind == Operand::Kind::kNumber) {
      value = constant(stage, operand.number, dtype, rounds_numbers(op.rule));
    } else if (operand.kind == Operand::Kind::kTensor) {
      value = stage.load(stage.access(buffers[next++], loops.strides(operand.tensor)));
      value = cast(value, operand.tensor.scalar_type(), dtype);
    }
  }
  Value result = op.body(PointwiseArgs(stage, call, op.operands, plan.compute, std::move(values)));
  if (plan.result != ScalarType::Bool && out.scalar_type() != plan.compute) {
    // What is computed in a narrow dtype is rounded to it before it is widened.
    result = stage.convert(result, register_type(plan.compute), host_dtype(plan.compute));
    if (is_sen169(plan.compute) && !is_sen169(out.scalar_type())) {
      result = stage.emit(Op::round_sen169, {result});
    }
    if (type_class(plan.compute) == 'i') result = cast(result, ScalarType::Long, plan.compute);
  }
  stage.store(out_access, result);
  return program.finish();
}

void add_parameter(ProgramKey& key, const c10::IValue& value) {
  if (value.isDouble()) {
    key.add(value.toDouble());
  } else if (value.isInt()) {
    key.add(value.toInt());
  } else if (value.isBool()) {
    key.add(int64_t{value.toBool()});
  } else if (value.isString()) {
    key.add(std::string_view(value.toStringRef()));
  } else {
    key.add(int64_t{-1});
  }
}

}  // namespace

bool run_pointwise(const PointwiseOp& op, Call& call) {
  Plan plan;
  if (!make_plan(op, call, plan)) return false;
  at::Tensor out = simple_result(plan, call);
  if (!out.defined()) out = make_result(op, plan, call);
  if (out.numel() == 0) {
    call.finish(std::move(out));
    return true;
  }
  const LoopOrder loops(out);
  ProgramKey key(&op);
  key.add(static_cast<int64_t>(plan.compute) << 8 | static_cast<int64_t>(out.scalar_type()));
  loops.add_to(key);
  loops.add_strides(key, out);
  c10::SmallVector<at::Tensor, 5> args{out};
  for (const Operand& operand : plan.operands) {
    key.add(static_cast<int64_t>(operand.kind));
    if (operand.kind == Operand::Kind::kTensor) {
      key.add(static_cast<int64_t>(operand.tensor.scalar_type()));
      loops.add_strides(key, operand.tensor);
      args.push_back(operand.tensor);
    } else if (operand.kind == Operand::Kind::kNumber) {
      if (operand.number.isFloatingPoint()) {
        key.add(operand.number.toDouble());
      } else {
        key.add(operand.number.toLong());
      }
      key.add(static_cast<int64_t>(operand.number.type()));
    }
  }
  const size_t parameters_end = call.signature().argument_count -
                                (call.signature().has_out ? call.signature().outputs.size() : 0);
  for (size_t i = 0; i < parameters_end; ++i) {
    if (has_position(op.operands, static_cast<int>(i))) continue;
    key.add(static_cast<int64_t>(call[i].isDouble()));
    add_parameter(key, call[i]);
  }
  launch(*cached_program(key, [&] { return build(op, plan, call, out, loops); }), args);
  call.finish(std::move(out));
  return true;
}

Value PointwiseArgs::operator[](int position) const {
  if (has_position(positions_, position)) {
    TORCH_INTERNAL_ASSERT(operands_[position].type != Type::N, "argument ", position, " of ",
                          call_.signature().name, " is absent");
    return operands_[position];
  }
  return aten::constant(stage_, call_[position].toScalar(), dtype_, /*as_stored=*/false);
}

std::string_view PointwiseArgs::text(int position) const {
  return call_[position].isNone() ? std::string_view() : call_[position].toStringRef();
}

Value PointwiseArgs::constant(double value) const { return aten::constant(stage_, value, dtype_); }

}  // namespace spyre::aten
