// SPDX-License-Identifier: Apache-2.0
// The fused layers that torch.nn.TransformerEncoder and MultiheadAttention take for inference, put
// together from operators that are native here.
#include "torch/ops/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_transformer_encoder_layer_fwd_native.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/all.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>
#include <optional>

#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

/// Kinds of masks, as torch.nn.MultiheadAttention.merge_masks numbers them.
enum MaskType { kOfPositions = 0, kOfKeys = 1, kOfScores = 2 };

/// Whether arguments [first, last) are floats on the device, of one dtype.
bool are_alike(const Call& call, int first, int last) {
  const at::Tensor& self = call.tensor(first);
  for (int i = first; i < last; ++i) {
    const at::Tensor& x = call.tensor(i);
    if (!is_float_on_device(x) || x.device() != self.device() ||
        x.scalar_type() != self.scalar_type())
      return false;
  }
  return true;
}

/// The mask over [batch, heads, queries, keys], true for what is left out; undefined if its shape
/// is wrong, which the CPU words.
at::Tensor over_scores(const at::Tensor& given, int64_t type, const at::Tensor& query,
                       const at::Tensor& key) {
  const at::Tensor mask = given.to(c10::ScalarType::Bool);
  const int64_t batch = query.size(0), queries = query.size(1), keys = key.size(1);
  if (type == kOfPositions && mask.sizes().equals({queries, keys})) return mask;
  if (type == kOfKeys && mask.sizes().equals({batch, keys})) return mask.view({batch, 1, 1, keys});
  if (type == kOfScores && mask.dim() == 4 && mask.size(0) == batch && mask.size(2) == queries &&
      mask.size(3) == keys)
    return mask;
  return {};
}

/// Queries, keys and values, each [batch, heads, length, channels].
std::vector<at::Tensor> project(const Call& call, int64_t width, int64_t heads) {
  const at::Tensor &weight = call.tensor(5), &bias = call.tensor(6);
  std::vector<at::Tensor> projected;
  if (call.tensor(0).is_same(call.tensor(1)) && call.tensor(0).is_same(call.tensor(2))) {
    projected = at::linear(call.tensor(0), weight, bias).chunk(3, -1);
  } else {
    for (int i = 0; i < 3; ++i) {
      projected.push_back(at::linear(call.tensor(i), weight.narrow(0, i * width, width),
                                     bias.narrow(0, i * width, width)));
    }
  }
  for (at::Tensor& x : projected) x = x.unflatten(2, {heads, width / heads}).transpose(1, 2);
  return projected;
}

/// _native_multi_head_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias,
/// proj_weight, proj_bias, mask, need_weights, average_attn_weights, mask_type)
bool multi_head_attention(Call& call) {
  if (call.has_output() || !are_alike(call, 0, 3) || !are_alike(call, 5, 9) ||
      call.tensor(5).scalar_type() != call.tensor(0).scalar_type())
    return false;
  const at::Tensor &query = call.tensor(0), &key = call.tensor(1), &value = call.tensor(2);
  const int64_t width = call[3].toInt(), heads = call[4].toInt();
  if (heads < 1 || width % heads != 0 || !call.tensor(5).sizes().equals({3 * width, width}) ||
      !call.tensor(6).sizes().equals({3 * width}) || !key.sizes().equals(value.sizes()))
    return false;
  for (const at::Tensor* x : {&query, &key}) {
    if (x->dim() != 3 || x->numel() == 0 || x->size(2) != width || x->size(0) != query.size(0))
      return false;
  }
  at::Tensor mask;
  if (const std::optional<at::Tensor> given = call.maybe_tensor(9)) {
    if (!call.has(12) || given->device() != query.device()) return false;
    mask = over_scores(*given, call[12].toInt(), query, key);
    if (!mask.defined()) return false;
  }

  const std::vector<at::Tensor> x = project(call, width, heads);
  at::Tensor weights, context;
  if (call[10].toBool()) {
    at::Tensor scores = at::matmul(x[0] * (1 / std::sqrt(static_cast<double>(width / heads))),
                                   x[1].transpose(2, 3));
    if (mask.defined()) scores = scores.masked_fill(mask, -std::numeric_limits<double>::infinity());
    weights = at::softmax(scores, -1);
    context = at::matmul(weights, x[2]);
    if (call[11].toBool()) weights = at::mean(weights, 1);
  } else if (mask.defined()) {
    context = at::scaled_dot_product_attention(x[0], x[1], x[2], at::logical_not(mask));
    // A query that may look nowhere has NaN weights on the CPU.
    context = context.masked_fill(at::all(mask, -1, /*keepdim=*/true),
                                  std::numeric_limits<double>::quiet_NaN());
  } else {
    context = at::scaled_dot_product_attention(x[0], x[1], x[2]);
  }
  at::Tensor out = at::linear(context.transpose(1, 2).flatten(2), call.tensor(7), call.tensor(8));
  call.finish({std::move(out), std::move(weights)});
  return true;
}

/// By PyTorch's composition, which is of multi_head_attention above and of layer norms and linears.
bool encoder_layer(Call& call) {
  if (call.has_output() || !are_alike(call, 0, 1) || !are_alike(call, 3, 7) ||
      !are_alike(call, 10, 18))
    return false;
  const std::optional<int64_t> mask_type =
      call.has(19) ? std::optional(call[19].toInt()) : std::nullopt;
  call.finish(at::native::transformer_encoder_layer_forward(
      call.tensor(0), call[1].toInt(), call[2].toInt(), call.tensor(3), call.tensor(4),
      call.tensor(5), call.tensor(6), call[7].toBool(), call[8].toBool(), call[9].toDouble(),
      call.tensor(10), call.tensor(11), call.tensor(12), call.tensor(13), call.tensor(14),
      call.tensor(15), call.tensor(16), call.tensor(17), call.maybe_tensor(18), mask_type));
  return true;
}

/// _addmm_activation(self, mat1, mat2, *, beta, alpha, use_gelu)
bool addmm_activation(Call& call) {
  if (call.has_output() || !are_alike(call, 0, 3) || call[3].isComplexDouble() ||
      call[4].isComplexDouble())
    return false;
  const at::Tensor sum = at::addmm(call.tensor(0), call.tensor(1), call.tensor(2),
                                   call[3].toScalar(), call[4].toScalar());
  call.finish(call[5].toBool() ? at::gelu(sum) : at::relu(sum));
  return true;
}

}  // namespace

const std::vector<Kernel>& transformer_kernels() {
  static const std::vector<Kernel> kernels = {
      {"_native_multi_head_attention", multi_head_attention, "f"},
      {"_transformer_encoder_layer_fwd", encoder_layer, "f"},
      {"_addmm_activation", addmm_activation, "f"},
  };
  return kernels;
}

}  // namespace spyre::aten
