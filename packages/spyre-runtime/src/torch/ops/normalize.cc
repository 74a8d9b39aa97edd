// SPDX-License-Identifier: Apache-2.0
// Softmax and layer norm: a reduction over rows, whose result goes back into each element.
#include <ATen/WrapDimUtils.h>

#include <algorithm>

#include "torch/launch.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;

constexpr double kSen169Infinity = 4294967296.0;  // 2^32

/// Loops over rows (parallel) and over the elements of a row (reduce).
struct Rows {
  std::vector<int64_t> row_dims, element_dims;
  std::vector<int64_t> extents;

  /// `is_element(dim)`: whether a dimension lies within a row.
  template <class Predicate>
  Rows(const at::Tensor& tensor, Predicate is_element) {
    for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
      if (!is_element(dim)) row_dims.push_back(dim);
    }
    for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
      if (is_element(dim)) element_dims.push_back(dim);
    }
    for (int64_t dim : row_dims) extents.push_back(tensor.size(dim));
    for (int64_t dim : element_dims) extents.push_back(tensor.size(dim));
    if (element_dims.empty()) extents.push_back(1);
  }

  void declare(StageBuilder& stage) const {
    for (size_t i = 0; i < extents.size(); ++i) stage.loop(extents[i], i >= row_dims.size());
  }
  /// The same with rows as reduce loops: one result per element position.
  void declare_across(StageBuilder& stage) const {
    for (size_t i = row_dims.size(); i < extents.size(); ++i) stage.loop(extents[i]);
    for (size_t i = 0; i < row_dims.size(); ++i) stage.loop(extents[i], /*reduce=*/true);
    if (row_dims.empty()) stage.loop(1, /*reduce=*/true);
  }
  /// Strides of a tensor with the dimensions of the loops' tensor; size 1 broadcasts.
  std::vector<int64_t> strides(const at::Tensor& tensor) const {
    std::vector<int64_t> result;
    for (int64_t dim : row_dims) result.push_back(of(tensor, dim));
    for (int64_t dim : element_dims) result.push_back(of(tensor, dim));
    if (element_dims.empty()) result.push_back(0);
    return result;
  }
  std::vector<int64_t> strides_across(const at::Tensor& tensor) const {
    std::vector<int64_t> result;
    for (int64_t dim : element_dims) result.push_back(of(tensor, dim));
    if (element_dims.empty()) result.push_back(0);
    for (int64_t dim : row_dims) result.push_back(of(tensor, dim));
    if (row_dims.empty()) result.push_back(0);
    return result;
  }

 private:
  static int64_t of(const at::Tensor& tensor, int64_t dim) {
    return tensor.size(dim) == 1 ? 0 : tensor.stride(dim);
  }
};

void add_tensor(ProgramKey& key, const at::Tensor& tensor) {
  key.add(static_cast<int64_t>(tensor.scalar_type()));
  key.add(tensor.sizes());
  key.add(tensor.strides());
}

/// A contiguous output of the input's shape; nullopt if the CPU should word an error.
std::optional<OutTensor> prepare_output(const Call& call, const at::Tensor& input) {
  const at::Tensor out = call.output();
  if (!out.defined()) {
    return OutTensor(empty(input.sizes(), input.scalar_type(), input.device()));
  }
  if (out.scalar_type() != input.scalar_type() || out.device() != input.device()) {
    return std::nullopt;
  }
  resize_out(out, input.sizes());
  return OutTensor(out, input, /*may_be_input=*/true);
}

/// kSafe is softmax for attention: a row whose elements are all -inf gives zeros.
enum class Softmax : uint8_t { kPlain, kLog, kSafe };

template <Softmax kind>
bool softmax(Call& call) {
  const at::Tensor& self = call.tensor(0);
  // The third argument asks for another dtype.
  const bool converts = kind == Softmax::kSafe ? call.has(2) : call[2].toBool();
  if (!is_float_on_device(self) || converts) return false;
  const int64_t dim = at::maybe_wrap_dim(call[1].toInt(), self.dim());
  const std::optional<OutTensor> prepared = prepare_output(call, self);
  if (!prepared) return false;
  const at::Tensor& out = prepared->stored();
  if (self.numel() != 0) {
    static const char kTag = 0;
    ProgramKey key(&kTag);
    key.add(dim);
    add_tensor(key, self);
    key.add(out.strides());
    auto build = [&] {
      const Rows rows(self, [&](int64_t d) { return d == dim; });
      ProgramBuilder program(call.signature().name);
      const int out_buffer = declare_arg(program, out);
      const int in_buffer = declare_arg(program, self);
      StageBuilder& stage = program.stage("softmax");
      rows.declare(stage);
      const int in = stage.access(in_buffer, rows.strides(self));
      const int to = stage.access(out_buffer, rows.strides(out));
      stage.phase(true);
      Value largest = stage.emit(Op::reduce_max, {stage.load(in)});
      stage.phase();
      const bool is_half = is_sen169(self.scalar_type());
      std::optional<Value> is_masked;
      if (kind == Softmax::kSafe) {
        is_masked = largest == (is_half ? -kSen169Infinity : -INFINITY);
        largest = where(*is_masked, 0, largest);
      } else if (is_half) {
        // A row whose maximum is infinite has no softmax; -inf there means that all is masked.
        largest = where(abs(largest) == kSen169Infinity, NAN, largest);
      }
      stage.phase(true);
      const Value sum = stage.emit(Op::reduce_sum, {exp(stage.load(in) - largest)});
      stage.phase();
      Value scale = kind == Softmax::kLog ? log(sum) : reciprocal(sum);
      if (is_masked) scale = where(*is_masked, 0, scale);
      stage.phase(true);
      // The largest element is taken off first: beside a great one the logarithm would vanish.
      const Value x = stage.load(in) - largest;
      stage.store(to, kind == Softmax::kLog ? x - scale : exp(x) * scale);
      return program.finish();
    };
    launch(*cached_program(key, build), {out, self});
    prepared->settle();
  }
  call.finish(prepared->result());
  return true;
}

template <bool is_log>
bool softmax_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& output = call.tensor(1);
  if (!is_float_on_device(grad) || !is_float_on_device(output) ||
      grad.device() != output.device() || grad.sizes() != output.sizes() ||
      grad.scalar_type() != output.scalar_type() || call[3].toScalarType() != grad.scalar_type()) {
    return false;
  }
  const int64_t dim = at::maybe_wrap_dim(call[2].toInt(), grad.dim());
  const std::optional<OutTensor> prepared = prepare_output(call, grad);
  if (!prepared) return false;
  const at::Tensor& out = prepared->stored();
  if (grad.numel() != 0) {
    static const char kTag = 0;
    ProgramKey key(&kTag);
    key.add(dim);
    add_tensor(key, grad);
    key.add(output.strides());
    key.add(out.strides());
    auto build = [&] {
      const Rows rows(grad, [&](int64_t d) { return d == dim; });
      ProgramBuilder program(call.signature().name);
      const int out_buffer = declare_arg(program, out);
      const int grad_buffer = declare_arg(program, grad);
      const int output_buffer = declare_arg(program, output);
      StageBuilder& stage = program.stage("softmax_backward");
      rows.declare(stage);
      const int g = stage.access(grad_buffer, rows.strides(grad));
      const int y = stage.access(output_buffer, rows.strides(output));
      const int to = stage.access(out_buffer, rows.strides(out));
      stage.phase(true);
      const Value product = is_log ? stage.load(g) : stage.load(g) * stage.load(y);
      const Value sum = stage.emit(Op::reduce_sum, {product});
      stage.phase(true);
      if (is_log) {
        stage.store(to, stage.load(g) - exp(stage.load(y)) * sum);
      } else {
        stage.store(to, stage.load(y) * (stage.load(g) - sum));
      }
      return program.finish();
    };
    launch(*cached_program(key, build), {out, grad, output});
    prepared->settle();
  }
  call.finish(prepared->result());
  return true;
}

// --- layer norm ----------------------------------------------------------------------------------

/// Statistics of half inputs are kept in float32, as accelerators do and PyTorch's meta kernels
/// say.
at::Tensor statistics_like(const at::Tensor& input, int64_t first_dim) {
  std::vector<int64_t> size = input.sizes().vec();
  std::fill(size.begin() + first_dim, size.end(), 1);
  return empty(size, ScalarType::Float, input.device());
}

/// A weight or bias, with one dimension for each of the input's.
at::Tensor with_rank_of(const at::Tensor& parameter, const at::Tensor& input) {
  std::vector<int64_t> size(input.dim() - parameter.dim(), 1);
  size.insert(size.end(), parameter.sizes().begin(), parameter.sizes().end());
  std::vector<int64_t> stride(input.dim() - parameter.dim(), 0);
  stride.insert(stride.end(), parameter.strides().begin(), parameter.strides().end());
  return parameter.as_strided(size, stride);
}

/// The first normalised dimension, or -1 if shapes or dtypes are not for us.
int64_t first_normalized_dim(const at::Tensor& input, at::IntArrayRef normalized,
                             std::initializer_list<const std::optional<at::Tensor>*> parameters) {
  const int64_t first = input.dim() - static_cast<int64_t>(normalized.size());
  if (!is_float_on_device(input) || normalized.empty() || first < 0 ||
      !input.sizes().slice(first).equals(normalized)) {
    return -1;
  }
  for (const auto* parameter : parameters) {
    if (!parameter->has_value()) continue;
    if (!is_float_on_device(**parameter) || (*parameter)->device() != input.device() ||
        !(*parameter)->sizes().equals(normalized)) {
      return -1;
    }
    // Half inputs take float32 parameters; the reverse is an error.
    if ((*parameter)->scalar_type() != input.scalar_type() &&
        (*parameter)->scalar_type() != ScalarType::Float) {
      return -1;
    }
  }
  return first;
}

bool layer_norm(Call& call) {
  const at::Tensor& input = call.tensor(0);
  const std::vector<int64_t> normalized = call[1].toIntVector();
  const std::optional<at::Tensor> weight = call.maybe_tensor(2);
  const std::optional<at::Tensor> bias = call.maybe_tensor(3);
  const double eps = call[4].toDouble();
  const int64_t first = first_normalized_dim(input, normalized, {&weight, &bias});
  if (first < 0 || call.has_output() || input.numel() == 0) return false;
  at::Tensor out = empty(input.sizes(), input.scalar_type(), input.device());
  at::Tensor mean = statistics_like(input, first);
  at::Tensor rstd = statistics_like(input, first);

  static const char kTag = 0;
  ProgramKey key(&kTag);
  key.add(first);
  key.add(eps);
  add_tensor(key, input);
  c10::SmallVector<at::Tensor, 6> args{out, mean, rstd, input};
  for (const auto* parameter : {&weight, &bias}) {
    key.add(static_cast<int64_t>(parameter->has_value()));
    if (!parameter->has_value()) continue;
    add_tensor(key, **parameter);
    args.push_back(**parameter);
  }
  auto build = [&] {
    const Rows rows(input, [&](int64_t dim) { return dim >= first; });
    ProgramBuilder program(call.signature().name);
    std::vector<int> buffers;
    for (const at::Tensor& arg : args) buffers.push_back(declare_arg(program, arg));
    StageBuilder& stage = program.stage("layer_norm");
    rows.declare(stage);
    const int to = stage.access(buffers[0], rows.strides(out));
    const int to_mean = stage.access(buffers[1], rows.strides(mean));
    const int to_rstd = stage.access(buffers[2], rows.strides(rstd));
    const int in = stage.access(buffers[3], rows.strides(input));
    int64_t count = 1;
    for (int64_t extent : normalized) count *= extent;
    const double n = static_cast<double>(count);

    stage.phase(true);
    const bool is_half = is_sen169(input.scalar_type());
    Value x = stage.load(in);
    if (is_half) x = stage.emit(Op::inf_from_sen169, {x});
    const Value sum = stage.emit(Op::reduce_sum, {x});
    stage.phase();
    const Value center = sum / n;
    stage.store(to_mean, center);
    stage.phase(true);
    const Value difference = stage.load(in) - center;
    Value squares = stage.emit(Op::reduce_sum, {difference * difference});
    stage.phase();
    // An infinity is in the mean, and leaves no spread. Halves have it as a number here.
    if (is_half) squares = squares + (center - center);
    const Value scale = rsqrt(squares / n + eps);
    stage.store(to_rstd, scale);
    stage.phase(true);
    Value result = (stage.load(in) - center) * scale;
    size_t next = 4;
    if (weight) {
      const at::Tensor aligned = with_rank_of(*weight, input);
      result = result * stage.load(stage.access(buffers[next++], rows.strides(aligned)));
    }
    if (bias) {
      const at::Tensor aligned = with_rank_of(*bias, input);
      result = result + stage.load(stage.access(buffers[next++], rows.strides(aligned)));
    }
    stage.store(to, result);
    return program.finish();
  };
  launch(*cached_program(key, build), args);
  call.finish({std::move(out), std::move(mean), std::move(rstd)});
  return true;
}

bool layer_norm_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& input = call.tensor(1);
  const std::vector<int64_t> normalized = call[2].toIntVector();
  const at::Tensor& mean = call.tensor(3);
  const at::Tensor& rstd = call.tensor(4);
  const std::optional<at::Tensor> weight = call.maybe_tensor(5);
  const std::optional<at::Tensor> bias = call.maybe_tensor(6);
  const auto mask = call[7].toBoolList();
  const int64_t first = first_normalized_dim(input, normalized, {&weight, &bias});
  if (first < 0 || call.has_output() || input.numel() == 0 || !is_float_on_device(grad) ||
      !is_float_on_device(mean) || !is_float_on_device(rstd) ||
      !grad.sizes().equals(input.sizes()) || mean.dim() != input.dim() ||
      rstd.dim() != input.dim()) {
    return false;
  }
  const bool needs[3] = {mask[0], mask[1] && weight, mask[2] && bias};
  std::vector<at::Tensor> results(3);
  c10::SmallVector<at::Tensor, 8> args{grad, input, mean, rstd};
  if (weight) args.push_back(*weight);
  if (needs[0])
    args.push_back(results[0] = empty(input.sizes(), input.scalar_type(), input.device()));
  if (needs[1])
    args.push_back(results[1] = empty(normalized, weight->scalar_type(), input.device()));
  if (needs[2]) args.push_back(results[2] = empty(normalized, bias->scalar_type(), input.device()));

  static const char kTag = 0;
  ProgramKey key(&kTag);
  key.add(first);
  for (bool need : needs) key.add(static_cast<int64_t>(need));
  key.add(static_cast<int64_t>(weight.has_value()));
  for (const at::Tensor& arg : args) add_tensor(key, arg);
  auto build = [&] {
    const Rows rows(input, [&](int64_t dim) { return dim >= first; });
    ProgramBuilder program(call.signature().name);
    std::vector<int> buffers;
    for (const at::Tensor& arg : args) buffers.push_back(declare_arg(program, arg));
    size_t next = weight ? 5 : 4;
    if (needs[0]) {
      StageBuilder& stage = program.stage("grad_input");
      rows.declare(stage);
      const int g = stage.access(buffers[0], rows.strides(grad));
      const int x = stage.access(buffers[1], rows.strides(input));
      const int m = stage.access(buffers[2], rows.strides(mean));
      const int r = stage.access(buffers[3], rows.strides(rstd));
      const int w =
          weight ? stage.access(buffers[4], rows.strides(with_rank_of(*weight, input))) : -1;
      const int to = stage.access(buffers[next++], rows.strides(results[0]));
      int64_t count = 1;
      for (int64_t extent : normalized) count *= extent;
      const double n = static_cast<double>(count);
      stage.phase();
      const Value center = stage.load(m);
      const Value scale = stage.load(r);
      auto scaled_grad = [&] { return weight ? stage.load(g) * stage.load(w) : stage.load(g); };
      auto normal = [&] { return (stage.load(x) - center) * scale; };
      stage.phase(true);
      const Value gradient = scaled_grad();
      const Value sum = stage.emit(Op::reduce_sum, {gradient});
      const Value product = stage.emit(Op::reduce_sum, {gradient * normal()});
      stage.phase();
      const Value mean_of_grad = sum / n;
      const Value mean_of_product = product / n;
      stage.phase(true);
      stage.store(to, scale * (scaled_grad() - mean_of_grad - normal() * mean_of_product));
    }
    for (int which : {1, 2}) {
      if (!needs[which]) continue;
      StageBuilder& stage = program.stage(which == 1 ? "grad_weight" : "grad_bias");
      rows.declare_across(stage);
      const int g = stage.access(buffers[0], rows.strides_across(grad));
      const int to =
          stage.access(buffers[next++], rows.strides_across(with_rank_of(results[which], input)));
      stage.phase(true);
      Value term = stage.load(g);
      if (which == 1) {
        const int x = stage.access(buffers[1], rows.strides_across(input));
        const int m = stage.access(buffers[2], rows.strides_across(mean));
        const int r = stage.access(buffers[3], rows.strides_across(rstd));
        term = term * ((stage.load(x) - stage.load(m)) * stage.load(r));
      }
      const Value sum = stage.emit(Op::reduce_sum, {term});
      stage.phase();
      stage.store(to, sum);
    }
    return program.finish();
  };
  launch(*cached_program(key, build), args);
  call.finish(std::move(results));
  return true;
}

}  // namespace

const std::vector<Kernel>& normalize_kernels() {
  static const std::vector<Kernel> kernels = {
      {"_softmax", softmax<Softmax::kPlain>, "f"},
      {"_safe_softmax", softmax<Softmax::kSafe>, "f"},
      {"_log_softmax", softmax<Softmax::kLog>, "f"},
      {"_softmax_backward_data", softmax_backward<false>, "f"},
      {"_log_softmax_backward_data", softmax_backward<true>, "f"},
      {"native_layer_norm", layer_norm, "f"},
      {"native_layer_norm_backward", layer_norm_backward, "f"},
  };
  return kernels;
}

}  // namespace spyre::aten
