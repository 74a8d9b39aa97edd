// SPDX-License-Identifier: Apache-2.0
// Convolutions of any rank and their derivatives. Each is one stage that sums products over a
// window, read in place through strides; what is padded or dilated is first spread out in a
// temporary.
#include <ATen/ops/sum.h>

#include <algorithm>

#include "torch/downcast.h"
#include "torch/launch.h"
#include "torch/ops/ints.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/spread.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;
using Numbers = std::vector<int64_t>;

// Of a tensor [batch, channels, positions ...] and a weight [out or in, in or out, taps ...].
constexpr int64_t kSpatial = 2;

struct Geometry {
  Numbers stride, padding, dilation;
  bool is_transposed = false;
  int64_t groups = 1;
};

/// Padding as an ordinary convolution has it.
Spread padded(const at::Tensor& tensor, const Geometry& g) {
  const size_t rank = g.padding.size();
  Spread result{tensor, g.padding, Numbers(rank, 1), Numbers(rank)};
  for (size_t d = 0; d < rank; ++d) result.extent[d] = result.positions(d) + 2 * g.padding[d];
  return result;
}

/// What an ordinary convolution with flipped taps and without stride makes a transposed one of,
/// with `size` positions in the result.
Spread dilated(const at::Tensor& tensor, const Geometry& g, at::IntArrayRef taps,
               at::IntArrayRef size) {
  Spread result{tensor, {}, g.stride, {}};
  for (size_t d = 0; d < g.stride.size(); ++d) {
    const int64_t reach = g.dilation[d] * (taps[d] - 1);
    result.low.push_back(reach - g.padding[d]);
    result.extent.push_back(size[d] + reach);
  }
  return result;
}

/// One loop of a sum of products and how far it moves in each operand.
struct Loop {
  int64_t extent;
  int64_t out, left, right, bias;
};

struct SumOfProducts {
  std::vector<Loop> parallel, reduce;
  int out, left, right, bias = -1;
  int64_t right_offset = 0;
  bool is_dot = true;  ///< else products are few: lane by lane, not in the matrix units
};

void emit(ProgramBuilder& program, const SumOfProducts& sum) {
  StageBuilder& stage = program.stage("sum");
  Numbers out, left, right, bias;
  auto declare_loops = [&](const std::vector<Loop>& loops, bool is_reduce) {
    bool has_any = false;
    for (const Loop& loop : loops) {
      const bool is_last = &loop == &loops.back();
      if (loop.extent == 1 && (has_any || !is_last)) continue;
      has_any = true;
      stage.loop(loop.extent, is_reduce);
      out.push_back(loop.out);
      left.push_back(loop.left);
      right.push_back(loop.right);
      bias.push_back(loop.bias);
    }
  };
  declare_loops(sum.parallel, false);
  declare_loops(sum.reduce, true);
  stage.phase(true);
  const Value x = stage.load(stage.access(sum.left, left));
  const Value y = stage.load(stage.access(sum.right, right, sum.right_offset));
  Value result = sum.is_dot ? stage.emit(Op::dot, {x, y}) : stage.emit(Op::reduce_sum, {x * y});
  stage.phase();
  if (sum.bias >= 0) result = result + stage.load(stage.access(sum.bias, bias));
  stage.store(stage.access(sum.out, out), result);
}

bool in_matrix_units(int64_t left_channels, int64_t right_channels) {
  return left_channels != 1 || right_channels != 1;
}

void add_to(ProgramKey& key, const at::Tensor& tensor) {
  key.add(tensor.sizes());
  key.add(tensor.strides());
}

void warn_if_rounded(const Call& call, ScalarType dtype, bool is_dot) {
  if (is_dot && dtype == ScalarType::Float) warn_downcast(call.signature().name);
}

/// out[n, o, p] = bias[o] + sum of in[n, i, p * stride + t * dilation] * weight[o, i, t] over i
/// and t, for each group. Transposed: weight[i, o, taps - 1 - t].
void convolve(const Call& call, const at::Tensor& out, const Spread& in, const at::Tensor& weight,
              const std::optional<at::Tensor>& bias, const Numbers& stride, const Numbers& dilation,
              int64_t groups, bool is_transposed) {
  const int64_t outputs = out.size(1) / groups, inputs = in.tensor.size(1) / groups;
  const bool is_dot = in_matrix_units(inputs, outputs);
  warn_if_rounded(call, out.scalar_type(), is_dot);
  static const char kTag = 0;
  ProgramKey key(&kTag);
  key.add(static_cast<int64_t>(out.scalar_type()) << 8 | static_cast<int64_t>(is_transposed) << 1 |
          static_cast<int64_t>(bias.has_value()));
  key.add(groups);
  key.add(c10::ArrayRef<int64_t>(stride));
  key.add(c10::ArrayRef<int64_t>(dilation));
  add_to(key, out);
  in.add_to(key);
  add_to(key, weight);
  c10::SmallVector<at::Tensor, 4> args{out, in.tensor, weight};
  if (bias) {
    key.add(bias->stride(0));
    args.push_back(*bias);
  }
  auto build = [&] {
    ProgramBuilder program(call.signature().name);
    SumOfProducts sum;
    sum.is_dot = is_dot;
    sum.out = declare_arg(program, out);
    const Located from = declare(program, in);
    sum.left = from.buffer;
    sum.right = declare_arg(program, weight);
    if (bias) sum.bias = declare_arg(program, *bias);
    const int64_t to_output = weight.stride(is_transposed ? 1 : 0),
                  to_input = weight.stride(is_transposed ? 0 : 1),
                  to_bias = bias ? bias->stride(0) : 0;
    const int64_t to_group = weight.stride(0) * (is_transposed ? inputs : outputs);
    sum.parallel = {
        {out.size(0), out.stride(0), from.stride[0], 0, 0},
        {groups, outputs * out.stride(1), inputs * from.stride[1], to_group, outputs * to_bias},
        {outputs, out.stride(1), 0, to_output, to_bias},
    };
    sum.reduce = {{inputs, 0, from.stride[1], to_input, 0}};
    for (int64_t d = kSpatial; d < out.dim(); ++d) {
      const int64_t taps = weight.size(d), tap = weight.stride(d);
      const size_t s = static_cast<size_t>(d - kSpatial);
      sum.parallel.push_back({out.size(d), out.stride(d), stride[s] * from.stride[d], 0, 0});
      sum.reduce.push_back({taps, 0, dilation[s] * from.stride[d], is_transposed ? -tap : tap, 0});
      if (is_transposed) sum.right_offset += (taps - 1) * tap;
    }
    emit(program, sum);
    return program.finish();
  };
  launch(*cached_program(key, build), args);
}

/// out[l, r, t] = sum of left[n, l, p] * right[n, r, p * stride + t * dilation] over n and p: the
/// derivative by the weight.
void correlate(const Call& call, const at::Tensor& out, const at::Tensor& left, const Spread& right,
               const Geometry& g) {
  const int64_t lefts = left.size(1) / g.groups, rights = right.tensor.size(1) / g.groups;
  const bool is_dot = in_matrix_units(lefts, rights);
  warn_if_rounded(call, out.scalar_type(), is_dot);
  static const char kTag = 0;
  ProgramKey key(&kTag);
  key.add(static_cast<int64_t>(out.scalar_type()));
  key.add(g.groups);
  key.add(c10::ArrayRef<int64_t>(g.stride));
  key.add(c10::ArrayRef<int64_t>(g.dilation));
  add_to(key, out);
  add_to(key, left);
  right.add_to(key);
  auto build = [&] {
    ProgramBuilder program(call.signature().name);
    SumOfProducts sum;
    sum.is_dot = is_dot;
    sum.out = declare_arg(program, out);
    sum.left = declare_arg(program, left);
    const Located from = declare(program, right);
    sum.right = from.buffer;
    sum.parallel = {
        {g.groups, lefts * out.stride(0), lefts * left.stride(1), rights * from.stride[1], 0},
        {lefts, out.stride(0), left.stride(1), 0, 0},
        {rights, out.stride(1), 0, from.stride[1], 0},
    };
    sum.reduce = {{left.size(0), 0, left.stride(0), from.stride[0], 0}};
    for (int64_t d = kSpatial; d < out.dim(); ++d) {
      const size_t s = static_cast<size_t>(d - kSpatial);
      sum.parallel.push_back({out.size(d), out.stride(d), 0, g.dilation[s] * from.stride[d], 0});
      sum.reduce.push_back({left.size(d), 0, left.stride(d), g.stride[s] * from.stride[d], 0});
    }
    emit(program, sum);
    return program.finish();
  };
  launch(*cached_program(key, build), {out, left, right.tensor});
}

/// The settings from argument `first` on: stride, padding, dilation, transposed, output_padding,
/// groups.
Geometry read(const Call& call, int first) {
  return {ints(call[first]), ints(call[first + 1]), ints(call[first + 2]), call[first + 3].toBool(),
          call[first + 5].toInt()};
}

bool can_convolve(std::initializer_list<const at::Tensor*> tensors) {
  const at::Tensor& first = **tensors.begin();
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor* tensor) {
    return is_float_on_device(*tensor) && tensor->device() == first.device() &&
           tensor->scalar_type() == first.scalar_type() && tensor->numel() != 0;
  });
}

/// PyTorch's own check is left out for what overrides its convolutions, and the host's stand-in
/// would widen halves.
void check_dtypes(const at::Tensor& in, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  TORCH_CHECK(in.scalar_type() == weight.scalar_type(), "Input type (", in.scalar_type(),
              ") and weight type (", weight.scalar_type(),
              ") should be the same; cast one of them to the other's");
  TORCH_CHECK(!bias || in.scalar_type() == bias->scalar_type(), "Input type (", in.scalar_type(),
              ") and bias type (", bias ? bias->scalar_type() : in.scalar_type(),
              ") should be the same; cast one of them to the other's");
}

/// Whether the settings are ones that PyTorch takes; else the host words the error.
bool are_valid(const Call& call, const Geometry& g) {
  const Numbers more = ints(call[7]);
  for (size_t d = 0; d < g.stride.size(); ++d) {
    if (g.dilation[d] < 1 || g.stride[d] < 1) return false;
    if (g.is_transposed && (more[d] < 0 || more[d] >= std::max(g.stride[d], g.dilation[d])))
      return false;
  }
  return true;
}

/// Positions along each spatial dimension of the result.
Numbers result_positions(const Call& call, const at::Tensor& in, const at::Tensor& weight,
                         const Geometry& g) {
  const Numbers more = ints(call[7]);
  Numbers result;
  for (size_t d = 0; d < g.stride.size(); ++d) {
    const int64_t dim = kSpatial + static_cast<int64_t>(d), positions = in.size(dim);
    const int64_t reach = g.dilation[d] * (weight.size(dim) - 1) + 1;
    result.push_back(g.is_transposed
                         ? (positions - 1) * g.stride[d] - 2 * g.padding[d] + reach + more[d]
                         : (positions + 2 * g.padding[d] - reach) / g.stride[d] + 1);
  }
  return result;
}

bool convolution(Call& call) {
  const at::Tensor& in = call.tensor(0);
  const at::Tensor& weight = call.tensor(1);
  const std::optional<at::Tensor> bias = call.maybe_tensor(2);
  check_dtypes(in, weight, bias);
  if (call.has_output() || !can_convolve({&in, &weight}) || (bias && !can_convolve({&in, &*bias})))
    return false;
  const Geometry g = read(call, 3);
  if (!are_valid(call, g)) return false;
  const Numbers positions = result_positions(call, in, weight, g);
  Numbers size{in.size(0), g.is_transposed ? weight.size(1) * g.groups : weight.size(0)};
  size.insert(size.end(), positions.begin(), positions.end());
  at::Tensor out = empty_over_windows(size, in.scalar_type(), {&in, &weight});
  if (out.numel() == 0) return false;
  if (g.is_transposed) {
    const Numbers ones(g.stride.size(), 1);
    convolve(call, out, dilated(in, g, weight.sizes().slice(kSpatial), positions), weight, bias,
             ones, g.dilation, g.groups, true);
  } else {
    convolve(call, out, padded(in, g), weight, bias, g.stride, g.dilation, g.groups, false);
  }
  call.finish(std::move(out));
  return true;
}

bool convolution_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& in = call.tensor(1);
  const at::Tensor& weight = call.tensor(2);
  if (call.has_output() || !can_convolve({&grad, &in, &weight})) return false;
  const Geometry g = read(call, 3);
  const c10::List<bool> wanted = call[9].toBoolList();
  at::Tensor grad_in, grad_weight, grad_bias;
  if (wanted[0]) {
    grad_in = empty_over_windows(in.sizes(), in.scalar_type(), {&in, &weight});
    if (g.is_transposed) {
      convolve(call, grad_in, padded(grad, g), weight, std::nullopt, g.stride, g.dilation, g.groups,
               false);
    } else {
      const Numbers ones(g.stride.size(), 1);
      convolve(call, grad_in,
               dilated(grad, g, weight.sizes().slice(kSpatial), in.sizes().slice(kSpatial)), weight,
               std::nullopt, ones, g.dilation, g.groups, true);
    }
  }
  if (wanted[1]) {
    grad_weight = empty_over_windows(weight.sizes(), weight.scalar_type(), {&in, &weight});
    if (g.is_transposed) {
      correlate(call, grad_weight, in, padded(grad, g), g);
    } else {
      correlate(call, grad_weight, grad, padded(in, g), g);
    }
  }
  if (wanted[2]) {
    Numbers dims{0};
    for (int64_t d = kSpatial; d < grad.dim(); ++d) dims.push_back(d);
    grad_bias = at::sum(grad, dims);
  }
  call.finish({grad_in, grad_weight, grad_bias});
  return true;
}

}  // namespace

const std::vector<Kernel>& convolution_kernels() {
  static const std::vector<Kernel> kernels = {
      {"convolution_overrideable", convolution, "f"},
      {"convolution_backward_overrideable", convolution_backward, "f"},
  };
  return kernels;
}

}  // namespace spyre::aten
