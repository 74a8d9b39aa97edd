// SPDX-License-Identifier: Apache-2.0
#include "torch/ops/spread.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "torch/ops/loops.h"
#include "torch/ops/types.h"

namespace spyre::aten {

using c10::ScalarType;

bool Spread::is_identity() const {
  for (size_t d = 0; d < extent.size(); ++d) {
    const bool keeps_step = step[d] == 1 || extent[d] == 1;
    if (low[d] != 0 || extent[d] != positions(d) || !keeps_step) return false;
  }
  return true;
}

void Spread::add_to(ProgramKey& key) const {
  key.add(tensor.sizes());
  key.add(tensor.strides());
  for (const std::vector<int64_t>* numbers : {&low, &step, &extent})
    key.add(c10::ArrayRef<int64_t>(*numbers));
}

at::Tensor empty_over_windows(at::IntArrayRef size, ScalarType dtype,
                              std::initializer_list<const at::Tensor*> operands) {
  c10::MemoryFormat format = c10::MemoryFormat::Contiguous;
  for (const at::Tensor* operand : operands) {
    const c10::MemoryFormat own = operand->suggest_memory_format();
    if (own != c10::MemoryFormat::Contiguous) format = own;
  }
  const at::Tensor& first = **operands.begin();
  return at::empty(size, first.options().dtype(dtype).memory_format(format));
}

Located declare(ProgramBuilder& program, const Spread& spread, double fill) {
  const at::Tensor& tensor = spread.tensor;
  const int from = declare_arg(program, tensor);
  std::vector<int64_t> from_stride = to_vector(tensor.strides());
  if (spread.is_identity()) return {from, from_stride};
  const int64_t leading = spread.leading();
  std::vector<int64_t> count = to_vector(tensor.sizes().slice(0, leading));
  std::vector<int64_t> size = count;
  size.insert(size.end(), spread.extent.begin(), spread.extent.end());
  const std::vector<int64_t> stride = dense_strides(size);
  const int to = program.temp(host_dtype(tensor.scalar_type()), size);

  StageBuilder& rest = program.stage("fill");
  for (int64_t extent : size) rest.loop(extent);
  rest.store(rest.access(to, stride), rest.constant_f(fill));

  std::vector<int64_t> to_stride = stride;
  int64_t from_offset = 0, to_offset = 0;
  for (size_t d = 0; d < spread.extent.size(); ++d) {
    const size_t dim = static_cast<size_t>(leading) + d;
    const int64_t low = spread.low[d], step = spread.step[d];
    const int64_t first = low < 0 ? (-low + step - 1) / step : 0;
    const int64_t room = spread.extent[d] - 1 - low;
    const int64_t last = room < 0 ? -1 : std::min(spread.positions(d) - 1, room / step);
    if (last < first) return {to, stride};  // everything lies outside
    count.push_back(last - first + 1);
    from_offset += first * from_stride[dim];
    to_offset += (low + first * step) * stride[dim];
    to_stride[dim] *= step;
  }
  StageBuilder& copy = program.stage("spread");
  for (int64_t extent : count) copy.loop(extent);
  const Value x = copy.load(copy.access(from, from_stride, from_offset));
  copy.store(copy.access(to, to_stride, to_offset), x);
  return {to, stride};
}

}  // namespace spyre::aten
