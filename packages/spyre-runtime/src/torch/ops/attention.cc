// SPDX-License-Identifier: Apache-2.0
// Scaled dot product attention as one program of three stages: scores, softmax, weighted sum.
// Scores stay in float32, which they need more than any other intermediate of a transformer.
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>

#include <cmath>

#include "torch/downcast.h"
#include "torch/launch.h"
#include "torch/ops/kernels.h"
#include "torch/ops/loops.h"
#include "torch/ops/program_cache.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;
using program::HostDtype;

constexpr double kSen169Infinity = 4294967296.0;  // 2^32

struct Attention {
  at::Tensor query, key, value;  // [batch, heads, length, channels]
  at::Tensor bias;               // undefined, or expanded to the scores' shape
  bool is_causal = false;
  double scale = 1;
};

/// Whether the fused kernel takes this call; otherwise PyTorch composes it.
bool can_fuse(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
              const std::optional<at::Tensor>& mask, double dropout) {
  for (const at::Tensor* tensor : {&query, &key, &value}) {
    // While tracing (fake tensors), the composed form: the compiler fuses it with what is around
    // it.
    if (tensor->unsafeGetTensorImpl()->is_python_dispatch()) return false;
    if (!is_spyre(*tensor) || tensor->dim() != 4 || tensor->numel() == 0 ||
        type_class(tensor->scalar_type()) != 'f' || tensor->scalar_type() != query.scalar_type() ||
        tensor->device() != query.device() || tensor->size(0) != query.size(0) ||
        tensor->size(1) != query.size(1)) {
      return false;
    }
  }
  if (dropout != 0 || query.size(3) != key.size(3) || key.size(2) != value.size(2)) return false;
  if (!mask) return true;
  const bool has_dtype = mask->scalar_type() == ScalarType::Bool ||
                         mask->scalar_type() == query.scalar_type() ||
                         mask->scalar_type() == ScalarType::Float;
  return has_dtype && mask->device() == query.device() &&
         at::is_expandable_to(mask->sizes(),
                              {query.size(0), query.size(1), query.size(2), key.size(2)});
}

/// Strides over the loops (batch, heads, x, y, z) of a tensor with dims (batch, heads, i, j).
std::vector<int64_t> over(at::IntArrayRef strides, int i, int j) {
  std::vector<int64_t> result{strides[0], strides[1], 0, 0, 0};
  result[i] = strides[2];
  result[j] = strides[3];
  return result;
}

program::Program build(const Attention& a, const at::Tensor& out) {
  const int64_t batch = a.query.size(0), heads = a.query.size(1);
  const int64_t rows = a.query.size(2), columns = a.key.size(2);
  const std::vector<int64_t> scores_size{batch, heads, rows, columns};
  const std::vector<int64_t> dense = dense_strides(scores_size);

  ProgramBuilder program("attention");
  const int out_buffer = declare_arg(program, out);
  const int query_buffer = declare_arg(program, a.query);
  const int key_buffer = declare_arg(program, a.key);
  const int value_buffer = declare_arg(program, a.value);
  const int bias_buffer = a.bias.defined() ? declare_arg(program, a.bias) : -1;
  const int scores_buffer = program.temp(HostDtype::kFloat32, scores_size);
  const int weights_buffer = program.temp(host_dtype(a.query.scalar_type()), scores_size);

  StageBuilder& scores = program.stage("scores");
  for (int64_t extent : scores_size) scores.loop(extent);
  scores.loop(a.query.size(3), /*reduce=*/true);
  scores.phase(true);
  const Value q = scores.load(scores.access(query_buffer, over(a.query.strides(), 2, 4)));
  const Value k = scores.load(scores.access(key_buffer, over(a.key.strides(), 3, 4)));
  const Value dot = scores.emit(Op::dot, {q, k});
  scores.phase();
  Value score = dot * scores.constant_f(a.scale);
  if (a.bias.defined()) {
    const Value bias = scores.load(scores.access(bias_buffer, over(a.bias.strides(), 2, 3)));
    if (a.bias.scalar_type() == ScalarType::Bool) {
      score = where(bias, score, -INFINITY);
    } else if (is_sen169(a.bias.scalar_type())) {
      score = where(bias == -kSen169Infinity, -INFINITY, score + bias);
    } else {
      score = score + bias;
    }
  }
  if (a.is_causal) score = where(scores.iota(3) <= scores.iota(2), score, -INFINITY);
  scores.store(scores.access(scores_buffer, over(dense, 2, 3)), score);

  StageBuilder& softmax = program.stage("softmax");
  for (int64_t extent : {batch, heads, rows}) softmax.loop(extent);
  softmax.loop(columns, /*reduce=*/true);
  const int from = softmax.access(scores_buffer, dense);
  const int to = softmax.access(weights_buffer, dense);
  softmax.phase(true);
  Value largest = softmax.emit(Op::reduce_max, {softmax.load(from)});
  softmax.phase();
  // A row that is masked out entirely gives zeros.
  const Value is_masked = largest == -INFINITY;
  largest = where(is_masked, 0, largest);
  softmax.phase(true);
  const Value sum = softmax.emit(Op::reduce_sum, {exp(softmax.load(from) - largest)});
  softmax.phase();
  const Value inverse = where(is_masked, 0, reciprocal(sum));
  softmax.phase(true);
  softmax.store(to, exp(softmax.load(from) - largest) * inverse);

  StageBuilder& weighted = program.stage("weighted_sum");
  for (int64_t extent : {batch, heads, rows, a.value.size(3)}) weighted.loop(extent);
  weighted.loop(columns, /*reduce=*/true);
  weighted.phase(true);
  const Value p = weighted.load(weighted.access(weights_buffer, over(dense, 2, 4)));
  const Value v = weighted.load(weighted.access(value_buffer, over(a.value.strides(), 4, 3)));
  const Value result = weighted.emit(Op::dot, {p, v});
  weighted.phase();
  weighted.store(weighted.access(out_buffer, over(out.strides(), 2, 3)), result);
  return program.finish();
}

/// Reads the arguments that forward and backward share.
Attention read(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>& bias, bool is_causal, const c10::IValue& scale) {
  Attention a{query, key, value, {}, is_causal, 1};
  a.scale = scale.isNone() ? 1 / std::sqrt(static_cast<double>(query.size(3))) : scale.toDouble();
  if (bias) a.bias = bias->expand({query.size(0), query.size(1), query.size(2), key.size(2)});
  return a;
}

/// Like the CPU's fused kernel, which its composed form stands in for where channels are strided or
/// differ: heads that were split off join for free.
bool has_order_of_query(const Attention& a) {
  return at::globalContext().userEnabledFlashSDP() && a.value.size(3) == a.query.size(3) &&
         a.query.stride(3) == 1 && a.key.stride(3) == 1 && a.value.stride(3) == 1;
}

bool attention(Call& call) {
  const std::optional<at::Tensor> bias = call.maybe_tensor(3);
  if (!can_fuse(call.tensor(0), call.tensor(1), call.tensor(2), bias, call[4].toDouble()))
    return false;
  const Attention a =
      read(call.tensor(0), call.tensor(1), call.tensor(2), bias, call[5].toBool(), call[7]);
  const ScalarType dtype = a.query.scalar_type();
  at::Tensor out = has_order_of_query(a)
                       ? empty_like(a.query)
                       : empty({a.query.size(0), a.query.size(1), a.query.size(2), a.value.size(3)},
                               dtype, a.query.device());
  if (dtype == ScalarType::Float) warn_downcast("aten::scaled_dot_product_attention");
  static const char kTag = 0;
  ProgramKey key(&kTag);
  key.add(a.scale);
  key.add(static_cast<int64_t>(a.is_causal));
  c10::SmallVector<at::Tensor, 5> args{out, a.query, a.key, a.value};
  if (a.bias.defined()) args.push_back(a.bias);
  for (const at::Tensor& arg : args) {
    key.add(static_cast<int64_t>(arg.scalar_type()));
    key.add(arg.sizes());
    key.add(arg.strides());
  }
  launch(*cached_program(key, [&] { return build(a, out); }), args);
  const at::Tensor none = empty({0}, ScalarType::Float, out.device());
  const at::Tensor no_seed = at::empty({0}, at::TensorOptions().dtype(ScalarType::Long));
  call.finish_values(
      {out, none, none, none, a.query.size(2), a.key.size(2), no_seed, no_seed, none});
  return true;
}

/// Recomputes the weights from the inputs; nothing was kept but the inputs.
bool attention_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& bias_argument = call.tensor(4);
  const std::optional<at::Tensor> bias =
      bias_argument.defined() ? std::optional<at::Tensor>(bias_argument) : std::nullopt;
  const int causal = call.find("is_causal");
  const int scale = call.find("scale");
  const Attention a = read(call.tensor(1), call.tensor(2), call.tensor(3), bias,
                           call[causal].toBool(), call[scale]);
  const auto mask = call[5].toBoolList();
  at::Tensor scores = at::matmul(at::mul(a.query, a.scale), a.key.transpose(-2, -1));
  if (a.bias.defined()) {
    scores = a.bias.scalar_type() == ScalarType::Bool
                 ? scores.masked_fill(a.bias.logical_not(), -INFINITY)
                 : at::add(scores, a.bias).to(scores.scalar_type());
  }
  if (a.is_causal) {
    const at::Tensor visible =
        at::ones({scores.size(-2), scores.size(-1)}, scores.options().dtype(ScalarType::Bool))
            .tril();
    scores = scores.masked_fill(visible.logical_not(), -INFINITY);
  }
  const at::Tensor weights = at::_safe_softmax(scores, -1);
  const at::Tensor grad_weights = at::matmul(grad, a.value.transpose(-2, -1));
  const at::Tensor grad_scores =
      at::_softmax_backward_data(grad_weights, weights, -1, scores.scalar_type());
  at::Tensor grad_query, grad_key, grad_value, grad_bias;
  if (mask[0]) grad_query = at::mul(at::matmul(grad_scores, a.key), a.scale);
  if (mask[1]) grad_key = at::mul(at::matmul(grad_scores.transpose(-2, -1), a.query), a.scale);
  if (mask[2]) grad_value = at::matmul(weights.transpose(-2, -1), grad);
  if (mask[3] && bias) {
    grad_bias = at::sum_to(grad_scores, bias->sizes()).to(bias->scalar_type());
  }
  call.finish({grad_query, grad_key, grad_value, grad_bias});
  return true;
}

/// Which way scaled_dot_product_attention goes: PyTorch's SDPBackend.
int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>& mask, double dropout, bool /*is_causal*/,
               std::optional<double> /*scale*/, bool enable_gqa) {
  const bool fuses = !enable_gqa && can_fuse(query, key, value, mask, dropout);
  return static_cast<int64_t>(fuses ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

bool choice(Call& call) {
  const std::optional<double> no_scale;
  call.finish_values({choose(call.tensor(0), call.tensor(1), call.tensor(2), call.maybe_tensor(3),
                             call[4].toDouble(), call[5].toBool(), no_scale, call[7].toBool())});
  return true;
}

}  // namespace

}  // namespace spyre::aten

namespace at::native {
// Asked by scaled_dot_product_attention itself, without a trip through the dispatcher.
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &spyre::aten::choose)
}  // namespace at::native

namespace spyre::aten {

const std::vector<Kernel>& attention_kernels() {
  static const std::vector<Kernel> kernels = {
      {"_fused_sdp_choice", choice, "f"},
      {"_scaled_dot_product_fused_attention_overrideable", attention, "f"},
      {"_scaled_dot_product_fused_attention_overrideable_backward", attention_backward, "f"},
  };
  return kernels;
}

}  // namespace spyre::aten
