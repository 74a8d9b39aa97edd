// SPDX-License-Identifier: Apache-2.0
// Batch and weight normalisation, composed; their statistics are float32 throughout.
#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var_mean.h>

#include <cmath>

#include "torch/ops/kernels.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;

bool all_float(const Call& call, int first, int last) {
  for (int i = first; i <= last; ++i) {
    const std::optional<at::Tensor> tensor = call.maybe_tensor(i);
    if (tensor && (!is_float_on_device(*tensor) || tensor->device() != call.tensor(0).device()))
      return false;
  }
  return true;
}

/// All dimensions but one.
std::vector<int64_t> others(const at::Tensor& tensor, int64_t kept) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (d != kept) dims.push_back(d);
  }
  return dims;
}

/// A value for each channel, beside [batch, channels, ...].
at::Tensor along_channels(const at::Tensor& tensor, const at::Tensor& like) {
  std::vector<int64_t> size(like.dim(), 1);
  size[1] = tensor.numel();
  return wide(tensor).reshape(size);
}

/// running = (1 - momentum) * running + momentum * fresh
void follow(const std::optional<at::Tensor>& running, const at::Tensor& fresh, double momentum) {
  if (!running) return;
  running->copy_(wide(*running) * (1 - momentum) + fresh.flatten() * momentum);
}

/// native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps), and
/// without the running statistics.
template <bool has_running>
bool batch_norm(Call& call) {
  const at::Tensor& self = call.tensor(0);
  constexpr int kOptions = has_running ? 5 : 3;
  // What it writes are the running statistics, which are not its results.
  if (!is_float_on_device(self) || self.dim() < 2 || self.numel() == 0 ||
      call.signature().has_out || !all_float(call, 1, kOptions - 1))
    return false;
  for (int i = 1; i < kOptions; ++i) {
    const std::optional<at::Tensor> tensor = call.maybe_tensor(i);
    // The CPU's kernel reads beyond what is too short.
    TORCH_CHECK(!tensor || (tensor->dim() == 1 && tensor->numel() == self.size(1)),
                call.signature().name, " got ", call.signature().argument_names[i], " of shape ",
                tensor ? tensor->sizes() : at::IntArrayRef(), " for ", self.size(1),
                " channels; give it one number for each");
  }
  const bool is_training = call[kOptions].toBool();
  const double momentum = call[kOptions + 1].toDouble(), eps = call[kOptions + 2].toDouble();
  std::optional<at::Tensor> running_mean, running_var;
  if (has_running) {
    running_mean = call.maybe_tensor(3);
    running_var = call.maybe_tensor(4);
  }
  if (!is_training && (!running_mean || !running_var)) return false;
  const at::Tensor x = wide(self);
  at::Tensor mean, inverse;
  if (is_training) {
    at::Tensor variance;
    std::tie(variance, mean) = at::var_mean(x, others(self, 1), /*correction=*/0, /*keepdim=*/true);
    inverse = at::rsqrt(variance + eps);
    const auto count = static_cast<double>(self.numel() / self.size(1));
    follow(running_mean, mean, momentum);
    follow(running_var, variance * (count / (count - 1)), momentum);
  } else {
    mean = along_channels(*running_mean, self);
    inverse = at::rsqrt(along_channels(*running_var, self) + eps);
  }
  at::Tensor scale = inverse;
  if (const auto weight = call.maybe_tensor(1)) scale = scale * along_channels(*weight, self);
  at::Tensor out = (x - mean) * scale;
  if (const auto bias = call.maybe_tensor(2)) out = out + along_channels(*bias, self);
  out = out.to(self.scalar_type()).contiguous(self.suggest_memory_format());  // as the CPU's
  if (is_training) {
    call.finish({std::move(out), mean.flatten(), inverse.flatten()});
  } else {
    const at::Tensor none = empty({0}, ScalarType::Float, self.device());
    call.finish({std::move(out), none, none});
  }
  return true;
}

/// native_batch_norm_backward(grad, input, weight, running_mean, running_var, mean, inverse,
/// training, eps, wanted)
bool batch_norm_backward(Call& call) {
  const at::Tensor& grad_out = call.tensor(0);
  const at::Tensor& self = call.tensor(1);
  if (!is_float_on_device(grad_out) || self.dim() < 2 || self.numel() == 0 || call.has_output() ||
      !all_float(call, 1, 6))
    return false;
  const bool is_training = call[7].toBool();
  const c10::List<bool> wanted = call[9].toBoolList();
  const std::optional<at::Tensor> weight = call.maybe_tensor(2);
  const std::optional<at::Tensor> mean = call.maybe_tensor(is_training ? 5 : 3);
  const std::optional<at::Tensor> spread = call.maybe_tensor(is_training ? 6 : 4);
  if (!mean || !spread) return false;
  const at::Tensor grad = wide(grad_out);
  at::Tensor inverse = along_channels(*spread, self);
  if (!is_training) inverse = at::rsqrt(inverse + call[8].toDouble());
  const at::Tensor normal = (wide(self) - along_channels(*mean, self)) * inverse;
  const std::vector<int64_t> dims = others(self, 1);
  const at::Tensor grad_bias = at::sum(grad, dims, /*keepdim=*/true);
  const at::Tensor grad_weight = at::sum(grad * normal, dims, /*keepdim=*/true);
  std::vector<at::Tensor> results(3);
  if (wanted[0]) {
    const at::Tensor scale = weight ? inverse * along_channels(*weight, self) : inverse;
    const auto count = static_cast<double>(self.numel() / self.size(1));
    const at::Tensor centred =
        is_training ? grad - (grad_bias + normal * grad_weight) / count : grad;
    results[0] = (centred * scale).to(self.scalar_type());
  }
  const ScalarType dtype = weight ? weight->scalar_type() : self.scalar_type();
  if (wanted[1]) results[1] = grad_weight.flatten().to(dtype);
  if (wanted[2]) results[2] = grad_bias.flatten().to(dtype);
  call.finish(std::move(results));
  return true;
}

/// v * g / |v|, with a norm for each index of `dim`; also the norms.
bool weight_norm(Call& call) {
  const at::Tensor& v = call.tensor(0);
  const at::Tensor& g = call.tensor(1);
  if (!is_float_on_device(v) || !is_float_on_device(g) || call.has_output()) return false;
  const at::Tensor x = wide(v);
  const at::Tensor norm = at::sqrt(at::sum(x * x, others(v, call[2].toInt()), /*keepdim=*/true));
  call.finish({(x * (wide(g) / norm)).to(v.scalar_type()), norm});
  return true;
}

bool weight_norm_backward(Call& call) {
  if (!all_float(call, 0, 3) || !is_float_on_device(call.tensor(0)) || call.has_output())
    return false;
  const at::Tensor grad = wide(call.tensor(0)), v = wide(call.tensor(1)), g = wide(call.tensor(2));
  const at::Tensor& norm = call.tensor(3);
  const at::Tensor along = at::sum(grad * v, others(v, call[4].toInt()), /*keepdim=*/true) / norm;
  const at::Tensor grad_v = (grad - v * (along / norm)) * (g / norm);
  call.finish({grad_v.to(call.tensor(1).scalar_type()), along.to(call.tensor(2).scalar_type())});
  return true;
}

}  // namespace

const std::vector<Kernel>& batch_norm_kernels() {
  static const std::vector<Kernel> kernels = {
      {"native_batch_norm", batch_norm<true>, "f"},
      {"_native_batch_norm_legit", batch_norm<true>, "f"},
      {"_native_batch_norm_legit.no_stats", batch_norm<false>, "f"},
      {"native_batch_norm_backward", batch_norm_backward, "f"},
      {"_weight_norm_interface", weight_norm, "f"},
      {"_weight_norm_interface_backward", weight_norm_backward, "f"},
  };
  return kernels;
}

}  // namespace spyre::aten
