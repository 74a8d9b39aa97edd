// SPDX-License-Identifier: Apache-2.0
// Running sums and products along a dimension. The device has no scan, so log2(n) stages double the
// span that each element covers: y[i] = x[i] + x[i - 1], z[i] = y[i] + y[i - 2] and so on.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>

#include <algorithm>

#include "torch/launch.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;
using Combine = Value (*)(Value, Value);

Value add(Value x, Value y) { return x + y; }
Value multiply(Value x, Value y) { return x * y; }

/// A tensor of the program at one step: the argument or a temporary.
struct Place {
  int buffer;
  ScalarType dtype;
  std::vector<int64_t> strides;
};

class Scan {
 public:
  Scan(ProgramBuilder& program, at::IntArrayRef size, int64_t dim, Combine combine)
      : program_(program), size_(size), dim_(dim), combine_(combine) {}

  Place temporary(ScalarType dtype) {
    return {program_.temp(host_dtype(dtype), size_.vec()), dtype, dense_strides(size_.vec())};
  }

  /// to[i] = from[i] below `distance`, from[i] combined with from[i - distance] from there on.
  void step(const Place& from, const Place& to, int64_t distance, ScalarType compute) {
    stage(from, to, 0, std::min(distance, size_[dim_]), 0, compute);
    if (distance < size_[dim_]) stage(from, to, distance, size_[dim_], distance, compute);
  }

 private:
  void stage(const Place& from, const Place& to, int64_t begin, int64_t end, int64_t distance,
             ScalarType compute) {
    StageBuilder& stage = program_.stage("scan");
    for (int64_t d = 0; d < static_cast<int64_t>(size_.size()); ++d) {
      stage.loop(d == dim_ ? end - begin : size_[d]);
    }
    auto load = [&](int64_t position) {
      const int access = stage.access(from.buffer, from.strides, position * from.strides[dim_]);
      return cast(stage.load(access), from.dtype, compute);
    };
    Value result = load(begin);
    if (distance != 0) {
      result = combine_(load(begin - distance), result);
    } else if (combine_ == add) {
      // The CPU's sums begin at 0: there is no -0 among them.
      result = result + 0.0;
    }
    const int access = stage.access(to.buffer, to.strides, begin * to.strides[dim_]);
    stage.store(access, cast(with_infinities(result, to.dtype), compute, to.dtype));
  }

  ProgramBuilder& program_;
  at::IntArrayRef size_;
  int64_t dim_;
  Combine combine_;
};

template <Combine combine>
bool scan(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!is_spyre(self) || type_class(self.scalar_type()) == 0 || self.dim() == 0) return false;
  const int64_t dim = at::maybe_wrap_dim(call[1].toInt(), self.dim());
  at::Tensor out = call.output();
  ScalarType result = self.scalar_type();
  if (call.has(2)) {
    result = call[2].toScalarType();
  } else if (call.signature().has_out) {
    result = out.scalar_type();
  } else if (c10::isIntegralType(result, /*includeBool=*/true) && !out.defined()) {
    result = ScalarType::Long;
  }
  const char type = type_class(result);
  // The CPU rounds to a narrower dtype before it sums.
  const bool is_wide_enough = result == self.scalar_type() || result == ScalarType::Float ||
                              (type == 'i' && type_class(self.scalar_type()) != 'f');
  if (type == 0 || type == 'b' || !is_wide_enough) return false;
  if (out.defined()) {
    if (out.scalar_type() != result || out.device() != self.device()) return false;
    at::native::resize_output(out, self.sizes());
    at::assert_no_internal_overlap(out);
    at::assert_no_partial_overlap(out, self);
  } else {
    out = empty(self.sizes(), result, self.device());
  }
  if (out.numel() != 0) {
    static const char kTag = 0;
    ProgramKey key(&kTag);
    key.add(dim);
    key.add(static_cast<int64_t>(result) << 8 | static_cast<int64_t>(self.scalar_type()));
    key.add(self.sizes());
    key.add(self.strides());
    key.add(out.strides());
    auto build = [&] {
      // Halves are summed in float32: rounded once, and with infinities that cancel to NaN.
      const ScalarType compute = type == 'f' ? ScalarType::Float : ScalarType::Long;
      ProgramBuilder program(call.signature().name);
      const Place to{declare_arg(program, out), result, to_vector(out.strides())};
      Place from{declare_arg(program, self), self.scalar_type(), to_vector(self.strides())};
      Scan steps(program, self.sizes(), dim, combine);
      // Integers wrap at the end, which comes to the same.
      std::vector<Place> temporaries;
      int64_t distance = 1;
      for (size_t i = 0; distance * 2 < self.size(dim); distance *= 2, ++i) {
        if (i < 2) temporaries.push_back(steps.temporary(compute));
        steps.step(from, temporaries[i % 2], distance, compute);
        from = temporaries[i % 2];
      }
      steps.step(from, to, distance, compute);
      return program.finish();
    };
    launch(*cached_program(key, build), {out, self});
  }
  call.finish(std::move(out));
  return true;
}

}  // namespace

const std::vector<Kernel>& scan_kernels() {
  static const std::vector<Kernel> kernels = {
      {"cumsum", scan<add>, "fib"},
      {"cumprod", scan<multiply>, "fib"},
  };
  return kernels;
}

}  // namespace spyre::aten
