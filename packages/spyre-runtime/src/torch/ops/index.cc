// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters: loads and stores whose address has parts that are read from index tensors.
// An index out of range raises IndexError at the next synchronisation.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/nonzero.h>

#include <algorithm>

#include "torch/launch.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;

/// One index tensor: adds `index * element_stride` to an address.
struct IndexTerm {
  at::Tensor index;
  std::vector<int64_t> strides;  ///< of the index tensor, for each dimension of the loops
  int64_t size;                  ///< indices lie in [0, size)
  int64_t element_stride;        ///< of the indexed tensor
  bool wraps;                    ///< negative indices count from the end
};

/// An indexed access of `tensor` over the elements of a tensor of shape `shape`.
struct Indexed {
  at::Tensor tensor;
  std::vector<int64_t> strides;  ///< affine part, for each dimension of the loops
  std::vector<IndexTerm> terms;
};

bool is_index(const at::Tensor& index, const at::Tensor& self) {
  return is_spyre(index) && index.device() == self.device() &&
         (index.scalar_type() == ScalarType::Long || index.scalar_type() == ScalarType::Int);
}

bool can_move(const at::Tensor& tensor) {
  return is_spyre(tensor) && type_class(tensor.scalar_type()) != 0;
}

void add_indexed(ProgramKey& key, const Indexed& indexed) {
  key.add(static_cast<int64_t>(indexed.tensor.scalar_type()));
  key.add(c10::ArrayRef<int64_t>(indexed.strides));
  for (const IndexTerm& term : indexed.terms) {
    key.add(static_cast<int64_t>(term.index.scalar_type()) << 1 | static_cast<int64_t>(term.wraps));
    key.add(c10::ArrayRef<int64_t>(term.strides));
    key.add(term.size);
    key.add(term.element_stride);
  }
}

/// The index registers of an access, before they become an address.
std::vector<Value> load_indices(StageBuilder& stage, const LoopOrder& loops, const Indexed& indexed,
                                const std::vector<int>& buffers) {
  std::vector<Value> indices;
  for (size_t i = 0; i < indexed.terms.size(); ++i) {
    const IndexTerm& term = indexed.terms[i];
    Value index = stage.load(stage.access(buffers[i], loops.select(term.strides)));
    if (term.wraps) index = where(index < 0, index + static_cast<double>(term.size), index);
    indices.push_back(index);
  }
  return indices;
}

Value address(StageBuilder& stage, const Indexed& indexed, const std::vector<Value>& indices) {
  Value result = stage.constant_i(0);
  for (size_t i = 0; i < indices.size(); ++i) {
    const IndexTerm& term = indexed.terms[i];
    const Value checked = stage.index_check(indices[i], term.size);
    result = result + checked * stage.constant_i(term.element_stride);
  }
  return result;
}

/// out[...] = from[..., indices, ...]
void gather(const Call& call, const at::Tensor& out, const Indexed& from) {
  if (out.numel() == 0) return;
  static const char kTag = 0;
  const LoopOrder loops(out);
  ProgramKey key(&kTag);
  loops.add_to(key);
  loops.add_strides(key, out);
  add_indexed(key, from);
  c10::SmallVector<at::Tensor, 6> args{out, from.tensor};
  for (const IndexTerm& term : from.terms) args.push_back(term.index);
  auto build = [&] {
    ProgramBuilder program(call.signature().name);
    std::vector<int> buffers;
    for (const at::Tensor& arg : args) buffers.push_back(declare_arg(program, arg));
    StageBuilder& stage = program.stage("gather");
    loops.declare(stage);
    const int to = stage.access(buffers[0], loops.strides(out));
    const int source = stage.access(buffers[1], loops.select(from.strides));
    const std::vector<int> index_buffers(buffers.begin() + 2, buffers.end());
    const std::vector<Value> indices = load_indices(stage, loops, from, index_buffers);
    stage.store(to, stage.load(source, address(stage, from, indices)));
    return program.finish();
  };
  launch(*cached_program(key, build), args);
}

/// What a scatter does with an element, and what it takes: a tensor of the loops' shape or a
/// number.
struct Scatter {
  enum class Mode : uint8_t { kStore, kAdd } mode = Mode::kStore;
  at::Tensor source;             ///< undefined: `number`
  std::vector<int64_t> strides;  ///< of the source, for each dimension of the loops
  c10::Scalar number;
  c10::Scalar scale = 1;  ///< of what is added
};

/// A number as it is: integers beyond 2^53 are not all doubles.
void add_number(ProgramKey& key, const c10::Scalar& number) {
  key.add(static_cast<int64_t>(number.isFloatingPoint()));
  if (number.isFloatingPoint()) {
    key.add(number.toDouble());
  } else {
    key.add(number.toLong());
  }
}

/// to[..., indices, ...] = (or +=) source. `shape` has the shape of the loops: the indices'.
void scatter(const Call& call, const Indexed& to, const at::Tensor& shape, const Scatter& what) {
  if (shape.numel() == 0) return;
  static const char kTag = 0;
  const LoopOrder loops(shape);
  ProgramKey key(&kTag);
  loops.add_to(key);
  key.add(static_cast<int64_t>(what.mode));
  add_number(key, what.scale);
  add_indexed(key, to);
  c10::SmallVector<at::Tensor, 6> args{to.tensor};
  for (const IndexTerm& term : to.terms) args.push_back(term.index);
  if (what.source.defined()) {
    key.add(static_cast<int64_t>(what.source.scalar_type()));
    key.add(c10::ArrayRef<int64_t>(loops.select(what.strides)));
    args.push_back(what.source);
  } else {
    add_number(key, what.number);
  }
  auto build = [&] {
    ProgramBuilder program(call.signature().name);
    std::vector<int> buffers;
    for (const at::Tensor& arg : args) buffers.push_back(declare_arg(program, arg));
    StageBuilder& stage = program.stage("scatter");
    loops.declare(stage);
    const int target = stage.access(buffers[0], loops.select(to.strides));
    const std::vector<int> index_buffers(buffers.begin() + 1, buffers.end());
    const std::vector<Value> indices = load_indices(stage, loops, to, index_buffers);
    Value value = what.source.defined()
                      ? stage.load(stage.access(buffers.back(), loops.select(what.strides)))
                      : constant(stage, what.number, to.tensor.scalar_type());
    if (!what.scale.equal(1)) {
      value = what.scale.isFloatingPoint()
                  ? value * what.scale.toDouble()
                  : value * constant(stage, what.scale, to.tensor.scalar_type());
    }
    const Value where_to = address(stage, to, indices);
    if (what.mode == Scatter::Mode::kAdd) {
      stage.store_add(target, value, where_to);
    } else {
      stage.store(target, value, where_to);
    }
    return program.finish();
  };
  launch(*cached_program(key, build), args);
}

// --- one index tensor along one dimension --------------------------------------------------------

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
  at::assert_no_internal_overlap(out);
  at::native::resize_output(out, size);
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
  at::native::resize_output(out, self.sizes());
  at::assert_no_internal_overlap(out);
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

// --- x[i, :, j] ----------------------------------------------------------------------------------

/// An indexing expression: index tensors by dimension of self, broadcast against each other.
struct Advanced {
  std::vector<int64_t> size;  ///< of the result
  Indexed access;
};

/// The indices with masks replaced by the positions that they select; false if the CPU should see
/// them.
bool expand_masks(const at::Tensor& self, const c10::IValue& list,
                  std::vector<at::Tensor>& indices) {
  for (const c10::IValue& item : list.toListRef()) {
    if (item.isNone() || !item.toTensor().defined()) {
      indices.emplace_back();
      continue;
    }
    at::Tensor index = item.toTensor();
    if (index.scalar_type() == ScalarType::Bool) {
      const int64_t first = static_cast<int64_t>(indices.size());
      if (first + index.dim() > self.dim() ||
          !self.sizes().slice(first, index.dim()).equals(index.sizes()) || index.dim() == 0) {
        return false;
      }
      const at::Tensor positions = at::nonzero(index).to(self.device());
      for (int64_t dim = 0; dim < index.dim(); ++dim) indices.push_back(positions.select(1, dim));
      continue;
    }
    if (index.is_cpu()) index = index.to(self.device());
    if (!is_index(index, self)) return false;
    indices.push_back(index);
  }
  return static_cast<int64_t>(indices.size()) <= self.dim();
}

bool make_advanced(const at::Tensor& self, const c10::IValue& list, Advanced& result) {
  std::vector<at::Tensor> indices;
  if (!can_move(self) || !expand_masks(self, list, indices)) return false;
  indices.resize(self.dim());
  std::vector<int64_t> shape;
  std::vector<int64_t> indexed_dims;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    if (!indices[dim].defined()) continue;
    for (size_t i = 0; i < shape.size() || i < static_cast<size_t>(indices[dim].dim()); ++i) {
      const int64_t a = i < shape.size() ? shape[shape.size() - 1 - i] : 1;
      const int64_t b = static_cast<int64_t>(i) < indices[dim].dim()
                            ? indices[dim].size(-1 - static_cast<int64_t>(i))
                            : 1;
      if (a != b && a != 1 && b != 1) return false;
    }
    shape = at::infer_size(shape, indices[dim].sizes());
    indexed_dims.push_back(dim);
  }
  if (indexed_dims.empty()) return false;
  const bool adjacent =
      indexed_dims.back() - indexed_dims.front() + 1 == static_cast<int64_t>(indexed_dims.size());
  const int64_t before = adjacent ? indexed_dims.front() : 0;
  std::vector<int64_t> strides;
  for (int64_t dim = 0; dim <= self.dim(); ++dim) {
    if (dim == before) {
      result.size.insert(result.size.end(), shape.begin(), shape.end());
      strides.insert(strides.end(), shape.size(), 0);
    }
    if (dim == self.dim() || indices[dim].defined()) continue;
    result.size.push_back(self.size(dim));
    strides.push_back(self.stride(dim));
  }
  for (int64_t dim : indexed_dims) {
    if (self.size(dim) == 0) return false;
    const at::Tensor index = indices[dim].expand(shape);
    std::vector<int64_t> index_strides(result.size.size(), 0);
    for (size_t i = 0; i < shape.size(); ++i) index_strides[before + i] = index.stride(i);
    result.access.terms.push_back({index, index_strides, self.size(dim), self.stride(dim), true});
  }
  result.access.tensor = self;
  result.access.strides = std::move(strides);
  return true;
}

/// Contiguous, or in the order of self's dimensions that stay: PyTorch leaves it to an iterator
/// over all operands.
at::Tensor indexed_result(const at::Tensor& self, const Advanced& advanced) {
  const auto& terms = advanced.access.terms;
  if (self.is_contiguous() && std::all_of(terms.begin(), terms.end(), [](const IndexTerm& term) {
        return term.index.is_contiguous();
      })) {
    return empty(advanced.size, self.scalar_type(), self.device());
  }
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false)
      .check_all_same_dtype(false)
      .declare_static_dtype_and_device(self.scalar_type(), self.device())
      .add_owned_output(at::Tensor())
      .add_owned_const_input(self.as_strided(advanced.size, advanced.access.strides));
  for (const IndexTerm& term : terms) {
    config.add_owned_const_input(term.index.as_strided(advanced.size, term.strides));
  }
  return config.build().output();
}

bool index(Call& call) {
  const at::Tensor& self = call.tensor(0);
  Advanced advanced;
  if (call.has_output() || !make_advanced(self, call[1], advanced)) return false;
  at::Tensor out = indexed_result(self, advanced);
  gather(call, out, advanced.access);
  call.finish(std::move(out));
  return true;
}

bool index_put(Call& call) {
  at::Tensor self = call.tensor(0);
  at::Tensor values = call.tensor(2);
  const bool accumulate = call[3].toBool();
  Advanced advanced;
  if (!is_spyre(self) || values.scalar_type() != self.scalar_type() ||
      at::has_internal_overlap(self) == at::MemOverlap::Yes ||
      (accumulate && type_class(self.scalar_type()) == 'b')) {
    return false;
  }
  if (values.is_cpu() && values.dim() == 0) values = values.to(self.device());
  if (values.device() != self.device() ||
      values.dim() > static_cast<int64_t>(advanced.size.max_size())) {
    return false;
  }
  if (!make_advanced(self, call[1], advanced)) return false;
  if (!at::is_expandable_to(values.sizes(), advanced.size)) return false;
  // A source that lies in self would be read while it changes.
  if (values.is_alias_of(self)) values = values.clone();
  for (IndexTerm& term : advanced.access.terms) {
    if (term.index.is_alias_of(self)) term.index = term.index.clone().expand_as(term.index);
  }
  Scatter what;
  what.mode = accumulate ? Scatter::Mode::kAdd : Scatter::Mode::kStore;
  what.source = values.expand(advanced.size);
  what.strides = what.source.strides().vec();
  // Loops in the order of a dense tensor: the last of several values for one element stays.
  const at::Tensor shape = at::empty(advanced.size, at::TensorOptions().device(at::kMeta));
  scatter(call, advanced.access, shape, what);
  call.finish(std::move(self));
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
      {"index_copy", index_vector<false>, "fib"},
      {"index_add", index_vector<true>, "fi"},
      {"index.Tensor", index, "fib"},
      {"_index_put_impl_", index_put, "fib"},
  };
  return kernels;
}

}  // namespace spyre::aten
