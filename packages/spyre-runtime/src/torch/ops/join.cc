// SPDX-License-Identifier: Apache-2.0
// Tensors put together from others, or from their own elements in another order.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "torch/launch.h"
#include "torch/ops/ints.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;

/// A vector without elements: torch.cat has always let it pass beside tensors of any rank.
bool is_legacy_empty(const at::Tensor& tensor) { return tensor.dim() == 1 && tensor.size(0) == 0; }

/// One stage for each tensor, into its slice of the result.
bool cat(Call& call) {
  const c10::List<at::Tensor> list = call[0].toTensorList();
  if (list.empty()) return false;
  std::vector<at::Tensor> tensors;
  at::native::ResultTypeState state;
  c10::MemoryFormat format = c10::MemoryFormat::Contiguous;
  bool all_contiguous = true;
  const at::Tensor first_of_all = list.get(0);
  for (size_t i = 0; i < list.size(); ++i) {
    at::Tensor tensor = list.get(i);
    if (!is_spyre(tensor) || tensor.device() != first_of_all.device() ||
        type_class(tensor.scalar_type()) == 0) {
      return false;
    }
    state = at::native::update_result_type_state(tensor, state);
    const c10::MemoryFormat own = tensor.suggest_memory_format();
    if (i == 0) format = own;
    if (own != format) format = c10::MemoryFormat::Contiguous;
    all_contiguous = all_contiguous && tensor.is_contiguous();
    if (!is_legacy_empty(tensor)) tensors.push_back(std::move(tensor));
  }
  if (tensors.empty() || tensors[0].dim() == 0) return false;
  const at::Tensor& first = tensors[0];
  const int64_t dim = at::maybe_wrap_dim(call[1].toInt(), first.dim());
  std::vector<int64_t> size = first.sizes().vec();
  size[dim] = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.dim() != first.dim()) return false;
    for (int64_t d = 0; d < first.dim(); ++d) {
      if (d != dim && tensor.size(d) != first.size(d)) return false;
    }
    size[dim] += tensor.size(dim);
  }
  const ScalarType dtype = at::native::result_type(state);
  at::Tensor out = call.output();
  if (out.defined()) {
    if (out.scalar_type() != dtype || out.device() != first.device()) return false;
    at::assert_no_internal_overlap(out);  // before it is resized, as the CPU
    for (size_t i = 0; i < list.size(); ++i) at::assert_no_overlap(out, list.get(i));
    resize_out(out, size);
    for (const at::Tensor& tensor : tensors) at::assert_no_overlap(out, tensor);
  } else if (all_contiguous || format == c10::MemoryFormat::Contiguous) {
    out = empty(size, dtype, first.device());
  } else {
    out = at::empty(size, first.options().dtype(dtype).memory_format(format));
  }
  if (out.numel() == 0) {
    call.finish(std::move(out));
    return true;
  }
  static const char kTag = 0;
  ProgramKey key(&kTag);
  key.add(dim << 8 | static_cast<int64_t>(dtype));
  key.add(out.sizes());
  key.add(out.strides());
  std::vector<at::Tensor> args{out};
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    key.add(static_cast<int64_t>(tensor.scalar_type()) << 48 | tensor.size(dim));
    key.add(tensor.strides());
    args.push_back(tensor);
  }
  auto build = [&] {
    ProgramBuilder program(call.signature().name);
    const int out_buffer = declare_arg(program, out);
    int64_t position = 0;
    for (size_t i = 1; i < args.size(); ++i) {
      const at::Tensor& tensor = args[i];
      const int buffer = declare_arg(program, tensor);
      const LoopOrder loops(tensor);
      StageBuilder& stage = program.stage("part" + std::to_string(i - 1));
      loops.declare(stage);
      const Value x = stage.load(stage.access(buffer, loops.strides(tensor)));
      const int to =
          stage.access(out_buffer, loops.select(out.strides()), position * out.stride(dim));
      stage.store(to, cast(x, tensor.scalar_type(), dtype));
      position += tensor.size(dim);
    }
    return program.finish();
  };
  launch(*cached_program(key, build), args);
  call.finish(std::move(out));
  return true;
}

bool flip(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!is_spyre(self) || type_class(self.scalar_type()) == 0 || call.has_output()) return false;
  const std::vector<int64_t> dims = ints(call[1]);
  const auto flipped = at::dim_list_to_bitset(dims, self.dim());
  at::Tensor out = empty_like(self);
  if (out.numel() != 0) {
    std::vector<int64_t> strides = self.strides().vec();
    int64_t offset = 0;
    for (int64_t dim = 0; dim < self.dim(); ++dim) {
      if (!flipped[dim]) continue;
      offset += (self.size(dim) - 1) * strides[dim];
      strides[dim] = -strides[dim];
    }
    static const char kTag = 0;
    const LoopOrder loops(out);
    ProgramKey key(&kTag);
    key.add(static_cast<int64_t>(self.scalar_type()));
    key.add(offset);
    loops.add_to(key);
    loops.add_strides(key, out);
    key.add(c10::ArrayRef<int64_t>(loops.select(strides)));
    auto build = [&] {
      ProgramBuilder program(call.signature().name);
      const int to_buffer = declare_arg(program, out);
      const int from_buffer = declare_arg(program, self);
      StageBuilder& stage = program.stage("flip");
      loops.declare(stage);
      const Value x = stage.load(stage.access(from_buffer, loops.select(strides), offset));
      stage.store(stage.access(to_buffer, loops.strides(out)), x);
      return program.finish();
    };
    launch(*cached_program(key, build), {out, self});
  }
  call.finish(std::move(out));
  return true;
}

/// Both parts of the tensor, in the other order.
at::Tensor rolled(const at::Tensor& self, int64_t shift, int64_t dim) {
  const int64_t size = self.size(dim);
  const int64_t first = (size - shift % size) % size;
  return at::cat({self.slice(dim, first, size), self.slice(dim, 0, first)}, dim);
}

bool roll(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const std::vector<int64_t> shifts = ints(call[1]), dims = ints(call[2]);
  if (!is_spyre(self) || type_class(self.scalar_type()) == 0 || self.numel() == 0 ||
      self.dim() == 0 || call.has_output() || shifts.empty() ||
      (dims.empty() ? shifts.size() != 1 : dims.size() != shifts.size()))
    return false;
  at::Tensor result =
      dims.empty() ? rolled(self.reshape({-1}), shifts[0], 0).view(self.sizes()) : self;
  for (size_t i = 0; i < dims.size(); ++i)
    result = rolled(result, shifts[i], at::maybe_wrap_dim(dims[i], self.dim()));
  call.finish(std::move(result));
  return true;
}

}  // namespace

const std::vector<Kernel>& join_kernels() {
  static const std::vector<Kernel> kernels = {
      {"cat", cat, "fib"}, {"flip", flip, "fib"}, {"roll", roll, "fib"}};
  return kernels;
}

}  // namespace spyre::aten
