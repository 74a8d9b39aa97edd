// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters along one dimension.
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/scatter_add.h>

#include "torch/launch.h"
#include "torch/ops/indexed.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;

/// Strides of `tensor`, with that of `dim` replaced.
std::vector<int64_t> strides_without(const at::Tensor& tensor, int64_t dim) {
  std::vector<int64_t> strides = tensor.strides().vec();
  strides[dim] = 0;
  return strides;
}

/// `tensor[:, index, :]` for a vector of indices along `dim`.
Indexed along(const at::Tensor& tensor, int64_t dim, const at::Tensor& index) {
  std::vector<int64_t> index_strides(tensor.dim(), 0);
  index_strides[dim] = index.stride(0);
  return {tensor,
          strides_without(tensor, dim),
          {{index, index_strides, tensor.size(dim), tensor.stride(dim), false}}};
}

/// The out tensor or a new one; undefined if the CPU should word an error.
at::Tensor prepare_output(const Call& call, at::IntArrayRef size, const at::Tensor& self) {
  at::Tensor out = call.output();
  if (!out.defined()) return empty(size, self.scalar_type(), self.device());
  if (out.scalar_type() != self.scalar_type() || out.device() != self.device()) return {};
  at::assert_no_internal_overlap(out);  // before it is resized, as the CPU
  resize_out(out, size);
  at::assert_no_overlap(out, self);
  return out;
}

bool index_select(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& index = call.tensor(2);
  if (!can_move(self) || !is_index(index, self) || self.dim() == 0 || index.dim() != 1)
    return false;
  const int64_t dim = at::maybe_wrap_dim(call[1].toInt(), self.dim());
  if (self.size(dim) == 0) return false;
  std::vector<int64_t> size = self.sizes().vec();
  size[dim] = index.size(0);
  at::Tensor out = prepare_output(call, size, self);
  if (!out.defined()) return false;
  gather(call, out, along(self, dim, index));
  call.finish(std::move(out));
  return true;
}

bool embedding(Call& call) {
  const at::Tensor& weight = call.tensor(0);
  const at::Tensor& indices = call.tensor(1);
  if (!can_move(weight) || !is_index(indices, weight) || weight.dim() != 2 || weight.size(0) == 0 ||
      call.has_output()) {
    return false;
  }
  std::vector<int64_t> size = indices.sizes().vec();
  size.push_back(weight.size(1));
  at::Tensor out = empty(size, weight.scalar_type(), weight.device());
  std::vector<int64_t> weight_strides(size.size(), 0);
  weight_strides.back() = weight.stride(1);
  std::vector<int64_t> index_strides = indices.strides().vec();
  index_strides.push_back(0);
  gather(call, out,
         {weight,
          weight_strides,
          {{indices, index_strides, weight.size(0), weight.stride(0), false}}});
  call.finish(std::move(out));
  return true;
}

/// Whether index fits into `tensor` in all dimensions but `dim`.
bool lies_within(const at::Tensor& index, const at::Tensor& tensor, int64_t dim) {
  if (index.dim() != tensor.dim()) return false;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (d != dim && index.size(d) > tensor.size(d)) return false;
  }
  return true;
}

bool gather_op(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& index = call.tensor(2);
  if (!can_move(self) || !is_index(index, self) || self.dim() == 0) return false;
  const int64_t dim = at::maybe_wrap_dim(call[1].toInt(), self.dim());
  if (!lies_within(index, self, dim) || self.size(dim) == 0) return false;
  at::Tensor out = prepare_output(call, index.sizes(), self);
  if (!out.defined()) return false;
  if (call.has_output()) at::assert_no_overlap(out, index);
  gather(call, out,
         {self,
          strides_without(self, dim),
          {{index, index.strides().vec(), self.size(dim), self.stride(dim), false}}});
  call.finish(std::move(out));
  return true;
}

/// The tensor that a scatter changes: self for in-place ops, else a copy of it. It must not overlap
/// what the scatter reads.
at::Tensor prepare_target(const Call& call, const at::Tensor& self,
                          std::initializer_list<const at::Tensor*> read) {
  if (call.has_output()) {
    for (const at::Tensor* tensor : read) {
      if (tensor->defined()) at::assert_no_overlap(call.output(), *tensor);
    }
  }
  if (call.signature().is_in_place) {
    at::assert_no_internal_overlap(self);
    return self;
  }
  at::Tensor out = call.output();
  if (!out.defined()) return self.clone(at::MemoryFormat::Contiguous);
  if (out.scalar_type() != self.scalar_type() || out.device() != self.device()) return {};
  resize_out(out, self.sizes());
  if (!out.is_same(self)) out.copy_(self);
  return out;
}

/// Scatters into `self` along one dimension; the index tensor has the shape of the loops.
bool scatter_along(Call& call, Scatter::Mode mode, bool has_source) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& index = call.tensor(2);
  if (!can_move(self) || !is_index(index, self) || self.dim() == 0) return false;
  const int64_t dim = at::maybe_wrap_dim(call[1].toInt(), self.dim());
  if (!lies_within(index, self, dim) || self.size(dim) == 0) return false;
  Scatter what;
  what.mode = mode;
  if (has_source) {
    const at::Tensor& source = call.tensor(3);
    if (!is_spyre(source) || source.scalar_type() != self.scalar_type() ||
        source.device() != self.device() || !lies_within(index, source, -1)) {
      return false;
    }
    what.source = source;
    what.strides = source.strides().vec();
  } else {
    if (call[3].isComplexDouble() ||
        (type_class(self.scalar_type()) != 'f' && call[3].isDouble())) {
      return false;
    }
    what.number = call[3].toScalar();
  }
  if (mode == Scatter::Mode::kAdd && type_class(self.scalar_type()) == 'b') return false;
  at::Tensor target = prepare_target(call, self, {&what.source, &index});
  if (!target.defined()) return false;
  scatter(call,
          {target,
           strides_without(target, dim),
           {{index, index.strides().vec(), target.size(dim), target.stride(dim), false}}},
          index, what);
  call.finish(std::move(target));
  return true;
}

bool scatter_source(Call& call) { return scatter_along(call, Scatter::Mode::kStore, true); }
bool scatter_value(Call& call) { return scatter_along(call, Scatter::Mode::kStore, false); }
bool scatter_add(Call& call) { return scatter_along(call, Scatter::Mode::kAdd, true); }

/// scatter_reduce with sums and means: the device has no other writes that accumulate.
bool scatter_reduce(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& index = call.tensor(2);
  const at::Tensor& source = call.tensor(3);
  const std::string_view reduction = call[4].toStringView();
  const bool includes_self = call[5].toBool(), is_mean = reduction == "mean";
  const bool is_exact = type_class(self.scalar_type()) == 'i';
  if (!(is_float_on_device(self) || (is_spyre(self) && is_exact && !is_mean)) ||
      !is_index(index, self) || index.scalar_type() != ScalarType::Long || self.dim() == 0 ||
      (reduction != "sum" && !is_mean) || !is_spyre(source) ||
      source.scalar_type() != self.scalar_type() || source.device() != self.device() ||
      !call.outputs_are(self.device(), {self.scalar_type()}))
    return false;
  const int64_t dim = at::maybe_wrap_dim(call[1].toInt(), self.dim());
  if (!lies_within(index, self, dim) || !lies_within(index, source, -1) || self.size(dim) == 0)
    return false;
  const auto compute = [&](const at::Tensor& x) { return is_exact ? x : wide(x); };
  at::Tensor sum = compute(self);
  if (!includes_self) sum = at::scatter(sum, dim, index, 0);
  sum = at::scatter_add(sum, dim, index, compute(source));
  if (is_mean) {
    at::Tensor count = at::ones_like(sum);
    if (!includes_self) count = at::scatter(count, dim, index, 0);
    count = at::scatter_add(count, dim, index, at::ones_like(source, sum.options()));
    sum = sum / count.clamp_min(1);
  }
  call.deliver({sum.to(self.scalar_type())});
  return true;
}

/// index_copy and index_add: a vector of indices, source of the loops' shape.
template <bool adds>
bool index_vector(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& index = call.tensor(2);
  const at::Tensor& source = call.tensor(3);
  if (!can_move(self) || !is_index(index, self) || self.dim() == 0 || index.dim() != 1 ||
      !is_spyre(source) || source.scalar_type() != self.scalar_type() ||
      source.device() != self.device() || source.dim() != self.dim()) {
    return false;
  }
  if (adds && type_class(self.scalar_type()) == 'b') return false;
  // PyTorch adds at int32 indices but does not copy to them.
  if (!adds && index.scalar_type() != ScalarType::Long) return false;
  const int64_t dim = at::maybe_wrap_dim(call[1].toInt(), self.dim());
  if (self.size(dim) == 0 || source.size(dim) != index.size(0)) return false;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d != dim && source.size(d) != self.size(d)) return false;
  }
  Scatter what;
  what.mode = adds ? Scatter::Mode::kAdd : Scatter::Mode::kStore;
  what.source = source;
  what.strides = source.strides().vec();
  if (adds) {
    const c10::IValue& alpha = call[4];
    if (alpha.isComplexDouble()) return false;
    if (type_class(self.scalar_type()) != 'f' && alpha.isDouble()) return false;
    what.scale = alpha.toScalar();
  }
  at::Tensor target = prepare_target(call, self, {&source, &index});
  if (!target.defined()) return false;
  scatter(call, along(target, dim, index), source, what);
  call.finish(std::move(target));
  return true;
}

/// Sums rows of the gradient by index, in float32 whatever the dtype.
bool embedding_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& indices = call.tensor(1);
  const int64_t rows = call[2].toInt();
  const int64_t padding = call[3].toInt();
  if (!is_float_on_device(grad) || !is_index(indices, grad) || call[4].toBool() ||
      call.has_output() || grad.dim() != indices.dim() + 1 || rows <= 0 ||
      !grad.sizes().slice(0, indices.dim()).equals(indices.sizes())) {
    return false;
  }
  const int64_t columns = grad.size(-1);
  at::Tensor out = empty({rows, columns}, grad.scalar_type(), grad.device());
  if (out.numel() == 0) {
    call.finish(std::move(out));
    return true;
  }
  static const char kTag = 0;
  ProgramKey key(&kTag);
  key.add(static_cast<int64_t>(grad.scalar_type()) << 8 |
          static_cast<int64_t>(indices.scalar_type()));
  key.add(grad.sizes());
  key.add(grad.strides());
  key.add(indices.strides());
  key.add(rows);
  key.add(padding);
  auto build = [&] {
    ProgramBuilder program(call.signature().name);
    const int out_buffer = declare_arg(program, out);
    const int grad_buffer = declare_arg(program, grad);
    const int index_buffer = declare_arg(program, indices);
    const int sums = program.temp(program::HostDtype::kFloat32, {rows, columns});
    StageBuilder& clear = program.stage("clear");
    clear.loop(rows);
    clear.loop(columns);
    clear.store(clear.access(sums, {columns, 1}), clear.constant_f(0));
    if (grad.numel() != 0) {
      StageBuilder& add = program.stage("add");
      for (int64_t extent : grad.sizes()) add.loop(extent);
      std::vector<int64_t> sum_strides(grad.dim(), 0);
      sum_strides.back() = 1;
      std::vector<int64_t> index_strides = indices.strides().vec();
      index_strides.push_back(0);
      const Value index = add.load(add.access(index_buffer, index_strides));
      const Value row = add.index_check(index, rows) * add.constant_i(columns);
      std::optional<Value> counts;
      if (padding >= 0) counts = index != static_cast<double>(padding);
      add.store_add(add.access(sums, sum_strides),
                    add.load(add.access(grad_buffer, grad.strides().vec())), row, counts);
    }
    StageBuilder& round = program.stage("round");
    round.loop(rows);
    round.loop(columns);
    round.store(round.access(out_buffer, {columns, 1}),
                round.load(round.access(sums, {columns, 1})));
    return program.finish();
  };
  launch(*cached_program(key, build), {out, grad, indices});
  call.finish(std::move(out));
  return true;
}

}  // namespace

const std::vector<Kernel>& index_kernels() {
  static const std::vector<Kernel> kernels = {
      {"index_select", index_select, "fib"},
      {"embedding", embedding, "fib"},
      {"embedding_dense_backward", embedding_backward, "f"},
      {"gather", gather_op, "fib"},
      {"scatter.src", scatter_source, "fib"},
      {"scatter.value", scatter_value, "fib"},
      {"scatter_add", scatter_add, "fi"},
      {"scatter_reduce.two", scatter_reduce, "fi"},
      {"index_copy", index_vector<false>, "fib"},
      {"index_add", index_vector<true>, "fi"},
  };
  return kernels;
}

}  // namespace spyre::aten
