// SPDX-License-Identifier: Apache-2.0
// Maxima over windows, and where they are.
#include <ATen/native/Pool.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>

#include "torch/launch.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/spread.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;
using Numbers = std::vector<int64_t>;

// Below everything that a tensor holds: in SEN169 the lowest number, as infinity is one there.
constexpr double kLowestSen169 = -8573157376.0;

struct Window {
  Numbers size, stride, padding, dilation;
  Numbers positions;  ///< of the result
};

/// A list argument for two dimensions: two numbers, one for both, or none for `rest`.
Numbers pair(const c10::IValue& value, const Numbers& rest) {
  Numbers numbers = value.toIntVector();
  if (numbers.empty()) return rest;
  if (numbers.size() == 1) numbers.push_back(numbers[0]);
  return numbers;
}

Window read(const Call& call, const at::Tensor& self) {
  Window w;
  w.size = pair(call[1], {1, 1});
  w.stride = pair(call[2], w.size);
  w.padding = pair(call[3], {0, 0});
  w.dilation = pair(call[4], {1, 1});
  for (size_t d = 0; d < 2; ++d) {
    const int64_t extent = self.size(self.dim() - 2 + static_cast<int64_t>(d));
    w.positions.push_back(at::native::pooling_output_shape<int64_t>(
        extent, w.size[d], w.padding[d], w.stride[d], w.dilation[d], call[5].toBool()));
  }
  return w;
}

program::Program build(const Call& call, const Spread& in, const Window& w,
                       const at::Tensor& values, const at::Tensor& indices) {
  const int64_t leading = in.leading();
  ProgramBuilder program(call.signature().name);
  const int to_values = declare_arg(program, values), to_indices = declare_arg(program, indices);
  const bool is_half = is_sen169(in.tensor.scalar_type());
  const Located from =
      declare(program, in, is_half ? kLowestSen169 : -std::numeric_limits<double>::infinity());
  StageBuilder& stage = program.stage("window");
  Numbers out, source;
  for (int64_t d = 0; d < leading; ++d) {
    stage.loop(values.size(d));
    out.push_back(values.stride(d));
    source.push_back(from.stride[d]);
  }
  for (size_t d = 0; d < 2; ++d) {
    stage.loop(w.positions[d]);
    out.push_back(values.stride(leading + static_cast<int64_t>(d)));
    source.push_back(w.stride[d] * from.stride[leading + d]);
  }
  for (size_t d = 0; d < 2; ++d) {
    stage.loop(w.size[d], /*reduce=*/true);
    out.push_back(0);
    source.push_back(w.dilation[d] * from.stride[leading + d]);
  }
  const int access = stage.access(from.buffer, source);
  stage.phase(true);
  const Value largest = stage.emit(Op::reduce_max, {stage.load(access)});
  stage.phase(true);
  const Value x = stage.load(access);
  const Value is_nan = isnan(x);
  Value is_it = (x == largest) | is_nan, index = stage.constant_i(0);
  for (size_t d = 0; d < 2; ++d) {
    const int position = static_cast<int>(leading) + static_cast<int>(d), tap = position + 2;
    const Value place = stage.iota(position) * static_cast<double>(w.stride[d]) +
                        stage.iota(tap) * static_cast<double>(w.dilation[d]) -
                        static_cast<double>(w.padding[d]);
    const auto extent = static_cast<double>(in.positions(d));
    is_it = is_it & (place >= 0) & (place < extent);
    index = index * extent + place;
  }
  const double none = static_cast<double>(in.positions(0) * in.positions(1));
  // The first of equal ones, but the last NaN, counted from the end as negative numbers.
  const Value rank = where(is_nan, -index - 1.0, index);
  const Value least = stage.emit(Op::reduce_min_i, {where(is_it, rank, none)});
  stage.phase();
  const Value first = where(least < 0, -least - 1.0, least);
  stage.store(stage.access(to_values, out), largest);
  stage.store(stage.access(to_indices, out), first);
  return program.finish();
}

bool max_pool2d(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!is_float_on_device(self) || self.numel() == 0 || (self.dim() != 3 && self.dim() != 4) ||
      !self.is_contiguous() ||
      !call.outputs_are(self.device(), {self.scalar_type(), ScalarType::Long}))
    return false;
  const Window w = read(call, self);
  Spread in{self, w.padding, {1, 1}, {0, 0}};
  for (size_t d = 0; d < 2; ++d) {
    // What PyTorch words better than we could.
    if (w.size[d] < 1 || w.stride[d] < 1 || w.dilation[d] < 1 || w.padding[d] < 0 ||
        w.padding[d] > w.size[d] / 2 || w.positions[d] < 1)
      return false;
    const int64_t reach = (w.positions[d] - 1) * w.stride[d] + w.dilation[d] * (w.size[d] - 1) + 1;
    in.extent[d] = std::max(in.positions(d) + 2 * w.padding[d], reach);
  }
  Numbers size = to_vector(self.sizes().slice(0, self.dim() - 2));
  size.insert(size.end(), w.positions.begin(), w.positions.end());
  at::Tensor values = empty(size, self.scalar_type(), self.device());
  at::Tensor indices = empty(size, ScalarType::Long, self.device());
  static const char kTag = 0;
  ProgramKey key(&kTag);
  key.add(static_cast<int64_t>(self.scalar_type()));
  in.add_to(key);
  for (const Numbers* numbers : {&w.size, &w.stride, &w.dilation, &w.positions})
    key.add(c10::ArrayRef<int64_t>(*numbers));
  launch(*cached_program(key, [&] { return build(call, in, w, values, indices); }),
         {values, indices, self});
  call.deliver({std::move(values), std::move(indices)});
  return true;
}

bool max_pool2d_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& self = call.tensor(1);
  const at::Tensor& indices = call.tensor(7);
  if (!is_float_on_device(grad) || !is_spyre(self) || !is_spyre(indices) || self.numel() == 0 ||
      grad.scalar_type() != self.scalar_type() || grad.dim() != self.dim() ||
      !call.outputs_are(self.device(), {self.scalar_type()}))
    return false;
  at::Tensor result = at::zeros_like(self, {}, c10::MemoryFormat::Contiguous);
  result.flatten(-2).scatter_add_(-1, indices.flatten(-2), grad.flatten(-2));
  call.deliver({std::move(result)});
  return true;
}

}  // namespace

const std::vector<Kernel>& pool_kernels() {
  static const std::vector<Kernel> kernels = {
      {"max_pool2d_with_indices", max_pool2d, "f"},
      {"max_pool2d_with_indices_backward", max_pool2d_backward, "f"},
  };
  return kernels;
}

}  // namespace spyre::aten
