// SPDX-License-Identifier: Apache-2.0
// Tensors made from numbers and positions: fill, arange, triangles.
#include <ATen/MemoryOverlap.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/TypeCast.h>

#include <cmath>

#include "torch/launch.h"
#include "torch/ops/ints.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;

bool can_fill(const at::Tensor& self) {
  return is_spyre(self) && type_class(self.scalar_type()) != 0;
}

/// self[...] = number, or the one element of `source`. Overlapping elements get the same value.
void fill(const Call& call, const at::Tensor& self, const c10::Scalar& number,
          const at::Tensor& source) {
  if (self.numel() == 0) return;
  static const char kTag = 0;
  const LoopOrder loops(self);
  const ScalarType dtype = self.scalar_type();
  ProgramKey key(&kTag);
  key.add(static_cast<int64_t>(dtype));
  loops.add_to(key);
  loops.add_strides(key, self);
  c10::SmallVector<at::Tensor, 2> args{self};
  if (source.defined()) {
    key.add(static_cast<int64_t>(source.scalar_type()));
    args.push_back(source);
  } else if (number.isFloatingPoint()) {
    key.add(number.toDouble());
    key.add(int64_t{-1});
  } else {
    key.add(number.toLong());
    key.add(int64_t{-2});
  }
  auto build = [&] {
    ProgramBuilder program(call.signature().name);
    const int buffer = declare_arg(program, self);
    const int from = source.defined() ? declare_arg(program, source) : -1;
    StageBuilder& stage = program.stage("fill");
    loops.declare(stage);
    const int to = stage.access(buffer, loops.strides(self));
    if (source.defined()) {
      const std::vector<int64_t> still(stage.loop_count(), 0);
      stage.store(to, cast(stage.load(stage.access(from, still)), source.scalar_type(), dtype));
    } else {
      stage.store(to, constant(stage, number, dtype));
    }
    return program.finish();
  };
  launch(*cached_program(key, build), args);
}

/// Whether the number is a value of the dtype; the CPU words the error.
bool is_representable(const c10::Scalar& number, ScalarType dtype) {
  if (number.isComplex()) return false;
  switch (dtype) {
    case ScalarType::Half: return !c10::overflows<c10::Half>(number.toDouble());
    case ScalarType::BFloat16: return !c10::overflows<c10::BFloat16>(number.toDouble());
    case ScalarType::Float: return !c10::overflows<float>(number.toDouble());
    case ScalarType::Bool: return true;
    default: break;
  }
  // Out-of-range floats have no defined integer.
  if (number.isFloatingPoint() && !(std::abs(number.toDouble()) < 1e18)) return false;
  // Negative integers wrap, negative floats do not.
  if (number.isFloatingPoint() && dtype == ScalarType::Byte && number.toDouble() <= -1)
    return false;
  const int64_t value = number.to<int64_t>();
  switch (dtype) {
    case ScalarType::Byte: return !c10::overflows<uint8_t>(value);
    case ScalarType::Char: return !c10::overflows<int8_t>(value);
    case ScalarType::Short: return !c10::overflows<int16_t>(value);
    case ScalarType::Int: return !c10::overflows<int32_t>(value);
    default: return true;
  }
}

bool fill_scalar(Call& call) {
  at::Tensor self = call.tensor(0);
  const c10::Scalar number = call[1].toScalar();
  if (!can_fill(self) || !is_representable(number, self.scalar_type())) return false;
  fill(call, self, number, {});
  call.finish(std::move(self));
  return true;
}

bool fill_tensor(Call& call) {
  at::Tensor self = call.tensor(0);
  const at::Tensor& value = call.tensor(1);
  if (!can_fill(self) || value.dim() != 0) return false;
  if (value.is_cpu()) {
    const c10::Scalar number = value.item();
    if (!is_representable(number, self.scalar_type())) return false;
    fill(call, self, number, {});
  } else {
    if (!can_fill(value) || value.device() != self.device()) return false;
    fill(call, self, {}, value);
  }
  call.finish(std::move(self));
  return true;
}

bool zero(Call& call) {
  at::Tensor self = call.tensor(0);
  if (!can_fill(self)) return false;
  fill(call, self, 0, {});
  call.finish(std::move(self));
  return true;
}

/// A tensor of zeros that PyTorch would not store; autograd makes them. Here it is stored.
bool stored_zeros(Call& call) {
  const c10::ScalarType dtype =
      call.has(1) ? call[1].toScalarType() : c10::typeMetaToScalarType(c10::get_default_dtype());
  const c10::Device device = call.has(3) ? call[3].toDevice() : c10::Device(kSpyre);
  at::Tensor result = empty(ints(call[0]), dtype, device);
  if (!can_fill(result)) return false;
  fill(call, result, 0, {});
  call.finish(std::move(result));
  return true;
}

/// arange(start, end, step, out) of whole numbers whose values the out dtype holds exactly.
bool arange(Call& call) {
  at::Tensor out = call.output();
  if (!can_fill(out)) return false;
  constexpr int64_t kLimit = int64_t{1} << 52;
  int64_t bounds[3];
  for (int i = 0; i < 3; ++i) {
    if (call[i].isDouble()) {
      const double number = call[i].toDouble();
      if (!(std::abs(number) <= kLimit) || number != std::trunc(number)) return false;
      bounds[i] = static_cast<int64_t>(number);
    } else if (call[i].isInt()) {
      bounds[i] = call[i].toInt();
    } else {
      return false;
    }
  }
  const auto [start, end, step] = bounds;
  if (step == 0 || (step > 0) != (end >= start) || std::abs(start) > kLimit ||
      std::abs(end) > kLimit || std::abs(step) > kLimit) {
    return false;
  }
  const int64_t size = (end - start + step - (step > 0 ? 1 : -1)) / step;
  const ScalarType dtype = out.scalar_type();
  const int64_t last = start + std::max<int64_t>(size - 1, 0) * step;
  if (type_class(dtype) == 'b') return false;
  const int64_t largest = type_class(dtype) == 'f'
                              ? int64_t{1} << (dtype == ScalarType::Float ? 24 : 9)
                              : std::numeric_limits<int64_t>::max();
  if (std::max(std::abs(start), std::abs(last)) > largest || !is_representable(start, dtype) ||
      !is_representable(last, dtype)) {
    return false;
  }
  // An out tensor of as many elements keeps its shape.
  if (out.dim() != 1 && out.numel() == size) return false;
  if (out.numel() != size) resize_out(out, {size});
  if (size != 0) {
    static const char kTag = 0;
    ProgramKey key(&kTag);
    key.add(static_cast<int64_t>(dtype));
    for (int64_t number : {start, step, size, out.stride(0)}) key.add(number);
    auto build = [&] {
      ProgramBuilder program(call.signature().name);
      const int buffer = declare_arg(program, out);
      StageBuilder& stage = program.stage("arange");
      const int loop = stage.loop(size);
      const Value value = stage.iota(loop) * stage.constant_i(step) + stage.constant_i(start);
      stage.store(stage.access(buffer, {out.stride(0)}), value);
      return program.finish();
    };
    launch(*cached_program(key, build), {out});
  }
  call.finish(std::move(out));
  return true;
}

/// eye(n, out) or eye(n, m, out)
bool eye(Call& call) {
  at::Tensor out = call.output();
  if (!can_fill(out)) return false;
  const int64_t rows = call[0].toInt(), columns = call[1].isInt() ? call[1].toInt() : rows;
  if (rows < 0 || columns < 0) return false;
  resize_out(out, {rows, columns});
  if (out.numel() != 0) {
    static const char kTag = 0;
    ProgramKey key(&kTag);
    key.add(static_cast<int64_t>(out.scalar_type()));
    key.add(out.sizes());
    key.add(out.strides());
    auto build = [&] {
      ProgramBuilder program(call.signature().name);
      const int buffer = declare_arg(program, out);
      StageBuilder& stage = program.stage("eye");
      const int row = stage.loop(rows), column = stage.loop(columns);
      stage.store(stage.access(buffer, to_vector(out.strides())),
                  stage.iota(row) == stage.iota(column));
      return program.finish();
    };
    launch(*cached_program(key, build), {out});
  }
  call.finish(std::move(out));
  return true;
}

template <bool is_lower>
bool triangle(Call& call) {
  const at::Tensor self = call.tensor(0);
  const int64_t diagonal = call[1].toInt();
  if (!can_fill(self) || self.dim() < 2) return false;
  at::Tensor result = call.output();
  if (!result.defined()) {
    result = empty(self.sizes(), self.scalar_type(), self.device());
  } else if (!call.signature().is_in_place) {
    if (result.scalar_type() != self.scalar_type() || result.device() != self.device()) {
      return false;
    }
    resize_out(result, self.sizes());
  }
  at::assert_no_internal_overlap(result);
  const OutTensor prepared(result, self, /*may_be_input=*/true);
  const at::Tensor& out = prepared.stored();
  if (out.numel() != 0) {
    static const char kTag = 0;
    const LoopOrder loops(out);
    ProgramKey key(&kTag);
    key.add(static_cast<int64_t>(self.scalar_type()));
    key.add(diagonal);
    key.add(int64_t{loops.loop_of(self.dim() - 2)} << 32 | loops.loop_of(self.dim() - 1));
    loops.add_to(key);
    loops.add_strides(key, out);
    loops.add_strides(key, self);
    auto build = [&] {
      ProgramBuilder program(call.signature().name);
      const int to_buffer = declare_arg(program, out);
      const int from_buffer = declare_arg(program, self);
      StageBuilder& stage = program.stage(is_lower ? "tril" : "triu");
      loops.declare(stage);
      auto position = [&](int64_t dim) {
        const int loop = loops.loop_of(dim);
        return loop < 0 ? stage.constant_i(0) : stage.iota(loop);
      };
      const Value offset = position(self.dim() - 1) - position(self.dim() - 2);
      const Value bound = stage.constant_i(diagonal);
      const Value keep = is_lower ? offset <= bound : offset >= bound;
      const Value x = stage.load(stage.access(from_buffer, loops.strides(self)));
      const Value zero = stage.convert(stage.constant_f(0), x.type);
      stage.store(stage.access(to_buffer, loops.strides(out)), where(keep, x, zero));
      return program.finish();
    };
    launch(*cached_program(key, build), {out, self});
    prepared.settle();
  }
  call.finish(std::move(result));
  return true;
}

}  // namespace

const std::vector<Kernel>& fill_kernels() {
  static const std::vector<Kernel> kernels = {
      {"fill_.Scalar", fill_scalar, "fib"},
      {"fill_.Tensor", fill_tensor, "fib"},
      {"_efficientzerotensor", stored_zeros, "fib"},
      {"zero_", zero, "fib"},
      {"arange.start_out", arange, "fi"},
      {"eye.out", eye, "fib"},
      {"eye.m_out", eye, "fib"},
      {"tril", triangle<true>, "fib"},
      {"triu", triangle<false>, "fib"},
  };
  return kernels;
}

}  // namespace spyre::aten
