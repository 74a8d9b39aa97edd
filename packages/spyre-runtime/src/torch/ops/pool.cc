// SPDX-License-Identifier: Apache-2.0
// Maxima over windows, where they are, and means.
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

/// The arguments from `first` on: size, stride, padding, dilation (for maxima), ceil mode.
Window read(const Call& call, const at::Tensor& self, int first, bool has_dilation) {
  Window w;
  w.size = pair(call[first], {1, 1});
  w.stride = pair(call[first + 1], w.size);
  w.padding = pair(call[first + 2], {0, 0});
  w.dilation = has_dilation ? pair(call[first + 3], {1, 1}) : Numbers{1, 1};
  const bool rounds_up = call[first + (has_dilation ? 4 : 3)].toBool();
  for (size_t d = 0; d < 2; ++d) {
    const int64_t extent = self.size(self.dim() - 2 + static_cast<int64_t>(d));
    w.positions.push_back(at::native::pooling_output_shape<int64_t>(
        extent, w.size[d], w.padding[d], w.stride[d], w.dilation[d], rounds_up));
  }
  return w;
}

/// What PyTorch words better than we could is not.
bool is_valid(const Window& w) {
  for (const Numbers* numbers : {&w.size, &w.stride, &w.padding, &w.dilation}) {
    if (numbers->size() != 2) return false;
  }
  for (size_t d = 0; d < 2; ++d) {
    if (w.size[d] < 1 || w.stride[d] < 1 || w.dilation[d] < 1 || w.padding[d] < 0 ||
        w.padding[d] > w.size[d] / 2 || w.positions[d] < 1)
      return false;
  }
  return true;
}

/// What the windows move over.
Spread padded(const at::Tensor& self, const Window& w) {
  Spread in{self, w.padding, {1, 1}, {0, 0}};
  for (size_t d = 0; d < 2; ++d) {
    const int64_t reach = (w.positions[d] - 1) * w.stride[d] + w.dilation[d] * (w.size[d] - 1) + 1;
    in.extent[d] = std::max(in.positions(d) + 2 * w.padding[d], reach);
  }
  return in;
}

Numbers size_of_result(const at::Tensor& self, const Window& w) {
  Numbers size = to_vector(self.sizes().slice(0, self.dim() - 2));
  size.insert(size.end(), w.positions.begin(), w.positions.end());
  return size;
}

bool is_image(const at::Tensor& tensor) {
  return is_float_on_device(tensor) && tensor.numel() != 0 &&
         (tensor.dim() == 3 || tensor.dim() == 4);
}

// --- maxima
// ---------------------------------------------------------------------------------------

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
  if (!is_image(self) || !call.outputs_are(self.device(), {self.scalar_type(), ScalarType::Long}))
    return false;
  const Window w = read(call, self, 1, /*has_dilation=*/true);
  if (!is_valid(w)) return false;
  const Spread in = padded(self, w);
  const Numbers size = size_of_result(self, w);
  at::Tensor values = empty_over_windows(size, self.scalar_type(), {&self});
  at::Tensor indices = empty_over_windows(size, ScalarType::Long, {&self});
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
  at::Tensor result = at::zeros_like(self, {}, self.suggest_memory_format());
  result.flatten(-2).scatter_add_(-1, indices.flatten(-2), grad.flatten(-2));
  call.deliver({std::move(result)});
  return true;
}

// --- means
// ----------------------------------------------------------------------------------------

/// What a sum over a window is divided by: a number, or at 0 how many elements lie in it.
struct Divisor {
  int64_t number = 1;
  Window window;
  Numbers extent;  ///< of what the windows move over
  bool counts_padding = true;
};

/// Elements in the window at the position that the loops `first` and `first + 1` are at.
Value count(StageBuilder& stage, const Divisor& divisor, int first) {
  const Window& w = divisor.window;
  Value result = stage.constant_i(1);
  for (size_t d = 0; d < 2; ++d) {
    const auto padding = static_cast<double>(w.padding[d]);
    const auto extent = static_cast<double>(divisor.extent[d]);
    const Value begin =
        stage.iota(first + static_cast<int>(d)) * static_cast<double>(w.stride[d]) - padding;
    const Value end =
        minimum(begin + static_cast<double>(w.size[d]), like(begin, extent + padding));
    result = result * (divisor.counts_padding
                           ? end - begin
                           : minimum(end, like(end, extent)) - maximum(begin, like(begin, 0)));
  }
  return maximum(result, like(result, 1));  // a window of nothing but padding has the sum 0
}

/// out[p] = sum of in[p * stride + t] over the window's t, divided.
void sum_over_windows(const Call& call, const at::Tensor& out, const Spread& in,
                      const Numbers& size, const Numbers& stride, const Divisor& divisor) {
  static const char kTag = 0;
  ProgramKey key(&kTag);
  key.add(static_cast<int64_t>(in.tensor.scalar_type()) << 8 |
          static_cast<int64_t>(out.scalar_type()));
  key.add(out.sizes());
  key.add(out.strides());
  in.add_to(key);
  key.add(divisor.number << 1 | static_cast<int64_t>(divisor.counts_padding));
  for (const Numbers* numbers : {&size, &stride, &divisor.window.size, &divisor.window.stride,
                                 &divisor.window.padding, &divisor.extent})
    key.add(c10::ArrayRef<int64_t>(*numbers));
  auto build = [&] {
    ProgramBuilder program(call.signature().name);
    const int to = declare_arg(program, out);
    const Located from = declare(program, in);
    StageBuilder& stage = program.stage("window");
    const int64_t leading = in.leading();
    Numbers target = to_vector(out.strides()), source = from.stride;
    for (int64_t extent : out.sizes()) stage.loop(extent);
    for (size_t d = 0; d < 2; ++d) {
      stage.loop(size[d], /*reduce=*/true);
      target.push_back(0);
      source.push_back(from.stride[leading + d]);
      source[leading + d] *= stride[d];
    }
    const int access = stage.access(from.buffer, source);
    stage.phase(/*reduce=*/true);
    const ScalarType from_dtype = in.tensor.scalar_type();
    const Value sum =
        stage.emit(Op::reduce_sum, {cast(stage.load(access), from_dtype, ScalarType::Float)});
    stage.phase();
    const int first = static_cast<int>(leading);
    const Value by = divisor.number != 0 ? stage.constant_f(static_cast<double>(divisor.number))
                                         : count(stage, divisor, first);
    const Value mean = divisor.number == 1 ? sum : sum / by;
    stage.store(stage.access(to, target), cast(mean, ScalarType::Float, out.scalar_type()));
    return program.finish();
  };
  launch(*cached_program(key, build), {out, in.tensor});
}

/// Ceil mode lets windows reach beyond the padding, which is never counted.
Divisor divisor_of(const at::Tensor& self, const Window& w, bool counts_padding,
                   std::optional<int64_t> given) {
  Divisor divisor{given.value_or(0), w, to_vector(self.sizes().slice(self.dim() - 2)),
                  counts_padding};
  if (divisor.number != 0) return divisor;
  bool is_full = true;
  for (size_t d = 0; d < 2; ++d) {
    const int64_t reach = (w.positions[d] - 1) * w.stride[d] + w.size[d];
    is_full &=
        (counts_padding || w.padding[d] == 0) && reach <= divisor.extent[d] + 2 * w.padding[d];
  }
  if (is_full) divisor.number = w.size[0] * w.size[1];
  return divisor;
}

bool take_means(Call& call, const at::Tensor& self, const Window& w, const Divisor& divisor) {
  at::Tensor out = empty_over_windows(size_of_result(self, w), self.scalar_type(), {&self});
  sum_over_windows(call, out, padded(self, w), w.size, w.stride, divisor);
  call.deliver({std::move(out)});
  return true;
}

/// Each element of the input gets the quotients of all windows that it lies in.
bool spread_means(Call& call, const at::Tensor& grad, const at::Tensor& self, const Window& w,
                  const Divisor& divisor) {
  at::Tensor quotient = empty(grad.sizes(), ScalarType::Float, grad.device());
  const Spread same{grad, {0, 0}, {1, 1}, w.positions};
  sum_over_windows(call, quotient, same, {1, 1}, {1, 1}, divisor);
  Spread in{quotient, {}, w.stride, {}};
  for (size_t d = 0; d < 2; ++d) {
    in.low.push_back(w.size[d] - 1 - w.padding[d]);
    in.extent.push_back(divisor.extent[d] + w.size[d] - 1);
  }
  at::Tensor out = empty_over_windows(self.sizes(), self.scalar_type(), {&self});
  sum_over_windows(call, out, in, w.size, {1, 1}, {});
  call.deliver({std::move(out)});
  return true;
}

bool can_average(const Call& call, const at::Tensor& self, const Window& w) {
  return is_valid(w) && call.outputs_are(self.device(), {self.scalar_type()});
}

bool is_gradient_of(const at::Tensor& grad, const at::Tensor& self, const Window& w) {
  return is_image(grad) && grad.scalar_type() == self.scalar_type() &&
         grad.sizes().equals(size_of_result(self, w));
}

/// Counts padding, divisor: the last two arguments.
Divisor read_divisor(const Call& call, const at::Tensor& self, const Window& w, int position) {
  return divisor_of(
      self, w, call[position].toBool(),
      call.has(position + 1) ? std::optional(call[position + 1].toInt()) : std::nullopt);
}

bool avg_pool2d(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!is_image(self) || (call.has(6) && call[6].toInt() == 0)) return false;
  const Window w = read(call, self, 1, /*has_dilation=*/false);
  return can_average(call, self, w) && take_means(call, self, w, read_divisor(call, self, w, 5));
}

bool avg_pool2d_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& self = call.tensor(1);
  if (!is_image(self) || (call.has(7) && call[7].toInt() == 0)) return false;
  const Window w = read(call, self, 2, /*has_dilation=*/false);
  return can_average(call, self, w) && is_gradient_of(grad, self, w) &&
         spread_means(call, grad, self, w, read_divisor(call, self, w, 6));
}

/// The windows of an adaptive pool, if they are all of one size.
std::optional<Window> even_windows(const at::Tensor& self, at::IntArrayRef positions) {
  Window w{{}, {}, {0, 0}, {1, 1}, to_vector(positions)};
  for (int64_t d = 0; d < 2; ++d) {
    const int64_t extent = self.size(self.dim() - 2 + d);
    if (positions[d] < 1 || extent % positions[d] != 0) return std::nullopt;
    w.size.push_back(extent / positions[d]);
  }
  w.stride = w.size;
  return w;
}

bool adaptive_avg_pool2d(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const Numbers positions = call[1].toIntVector();
  if (!is_image(self) || positions.size() != 2) return false;
  const std::optional<Window> w = even_windows(self, positions);
  return w && can_average(call, self, *w) &&
         take_means(call, self, *w, divisor_of(self, *w, true, std::nullopt));
}

bool adaptive_avg_pool2d_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& self = call.tensor(1);
  if (!is_image(self) || !is_image(grad)) return false;
  const std::optional<Window> w = even_windows(self, grad.sizes().slice(grad.dim() - 2));
  return w && can_average(call, self, *w) && is_gradient_of(grad, self, *w) &&
         spread_means(call, grad, self, *w, divisor_of(self, *w, true, std::nullopt));
}

}  // namespace

const std::vector<Kernel>& pool_kernels() {
  static const std::vector<Kernel> kernels = {
      {"max_pool2d_with_indices", max_pool2d, "f"},
      {"max_pool2d_with_indices_backward", max_pool2d_backward, "f"},
      {"avg_pool2d", avg_pool2d, "f"},
      {"avg_pool2d_backward", avg_pool2d_backward, "f"},
      {"_adaptive_avg_pool2d", adaptive_avg_pool2d, "f"},
      {"_adaptive_avg_pool2d_backward", adaptive_avg_pool2d_backward, "f"},
      {"adaptive_avg_pool2d.out", adaptive_avg_pool2d, "f"},
  };
  return kernels;
}

}  // namespace spyre::aten
