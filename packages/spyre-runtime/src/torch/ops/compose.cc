// SPDX-License-Identifier: Apache-2.0
// Operators that have no composite kernel in PyTorch, put together from ones that are native here.
#include <ATen/TensorOperators.h>
#include <ATen/ops/all.h>
#include <ATen/ops/any.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/le.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_group_norm_native.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include <cmath>
#include <optional>

#include "torch/ops/kernels.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

/// Of one element with another: what compares each with each takes the CPU's better algorithm
/// beyond that.
constexpr int64_t kMostComparisons = int64_t{1} << 22;

/// log(sigmoid(x)) = -softplus(-x). Contiguous like the CPU's, whose buffer stays empty.
bool log_sigmoid_forward(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!is_float_on_device(self) || call.has_output()) return false;
  at::Tensor result = at::neg(at::softplus(at::neg(self.contiguous()), 1, 50));
  call.finish({std::move(result), empty({0}, self.scalar_type(), self.device())});
  return true;
}

bool mse_loss(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& target = call.tensor(1);
  if (!is_float_on_device(self) || !is_float_on_device(target) || call.has_output() ||
      self.scalar_type() != target.scalar_type() || !self.sizes().equals(target.sizes())) {
    return false;
  }
  const at::Tensor difference = at::sub(self, target);
  at::Tensor loss = at::mul(difference, difference);
  const int64_t reduction = call[2].toInt();  // 0 none, 1 mean, 2 sum
  if (reduction == 1) loss = at::mean(loss);
  if (reduction == 2) loss = at::sum(loss);
  call.finish(std::move(loss));
  return true;
}

bool mse_loss_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& self = call.tensor(1);
  const at::Tensor& target = call.tensor(2);
  if (!is_float_on_device(grad) || !is_float_on_device(self) || !is_float_on_device(target) ||
      call.has_output() || self.scalar_type() != target.scalar_type() ||
      grad.scalar_type() != self.scalar_type() || !self.sizes().equals(target.sizes())) {
    return false;
  }
  const double scale = call[3].toInt() == 1 ? 2.0 / static_cast<double>(self.numel()) : 2.0;
  call.finish(at::mul(at::mul(at::sub(self, target), scale), grad));
  return true;
}

/// isin(elements, test_elements, assume_unique, invert): each against each.
bool isin(Call& call) {
  const at::Tensor& elements = call.tensor(0);
  const at::Tensor& tests = call.tensor(1);
  if (!is_spyre(elements) || !is_spyre(tests) || elements.device() != tests.device() ||
      type_class(elements.scalar_type()) == 0 || type_class(tests.scalar_type()) == 0 ||
      !call.outputs_are(elements.device(), {c10::ScalarType::Bool}) ||
      elements.numel() * tests.numel() > kMostComparisons)
    return false;
  at::Tensor found = at::any(at::eq(elements.unsqueeze(-1), tests.reshape({-1})), -1);
  if (call[3].toBool()) found = found.logical_not();
  call.deliver({std::move(found)});
  return true;
}

bool equal(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& other = call.tensor(1);
  if (!is_spyre(self) || !is_spyre(other) || self.device() != other.device() ||
      self.scalar_type() != other.scalar_type() || type_class(self.scalar_type()) == 0)
    return false;
  const bool is_equal =
      self.sizes().equals(other.sizes()) && at::all(at::eq(self, other)).item<bool>();
  call.finish_values({is_equal});
  return true;
}

/// histc(self, bins, min, max) with bounds: each element against each bin.
bool histc(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor out = call.output();
  TORCH_CHECK(!out.defined() || out.scalar_type() == self.scalar_type(),
              "torch.histogram: input tensor and hist tensor should have the same dtype, but got "
              "input ",
              self.scalar_type(), " and hist ",
              out.defined() ? out.scalar_type() : self.scalar_type(),
              "; give an out of the dtype of the input");
  const int64_t bins = call[1].toInt();
  if (!is_spyre(self) || type_class(self.scalar_type()) == 0 ||
      self.scalar_type() == c10::ScalarType::Bool || bins < 1 ||
      self.numel() * bins > kMostComparisons ||
      !call.outputs_are(self.device(), {self.scalar_type()}))
    return false;
  // Bounds are numbers of the dtype in which elements are compared.
  const double low = call[2].toScalar().to<float>(), high = call[3].toScalar().to<float>();
  // Equal bounds stand for those of the elements.
  if (!(low < high) || !std::isfinite(low) || !std::isfinite(high)) return false;
  const at::Tensor x = self.reshape({-1, 1}).to(c10::ScalarType::Float);
  const at::Tensor bin = at::floor((x - low) * static_cast<double>(bins) / (high - low))
                             .clamp_max(static_cast<double>(bins - 1));
  const at::Tensor is_inside = at::logical_and(at::ge(x, low), at::le(x, high));
  const at::Tensor numbers = at::arange(bins, x.options().dtype(c10::ScalarType::Int));
  const at::Tensor counts = at::sum(at::logical_and(at::eq(bin, numbers), is_inside), 0);
  call.deliver({counts.to(self.scalar_type())});
  return true;
}

/// Composed of views in PyTorch, and contiguous; the CPU's keeps the memory format.
template <at::Tensor (*shuffle)(const at::Tensor&, int64_t)>
bool pixels(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!is_spyre(self) || call.has_output()) return false;
  call.finish(shuffle(self, call[1].toInt()).contiguous(self.suggest_memory_format()));
  return true;
}

/// native_group_norm(input, weight, bias, batch, channels, positions, groups, eps): in float32 by
/// PyTorch's composition, which is of batch norms; in the CPU's memory format.
bool group_norm(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const std::optional<at::Tensor> weight = call.maybe_tensor(1), bias = call.maybe_tensor(2);
  auto is_alike = [&](const std::optional<at::Tensor>& x) {
    return !x || (x->device() == self.device() && x->scalar_type() == self.scalar_type());
  };
  const int64_t batch = call[3].toInt(), channels = call[4].toInt(), positions = call[5].toInt(),
                groups = call[6].toInt();
  if (!is_float_on_device(self) || self.numel() == 0 || !is_alike(weight) || !is_alike(bias) ||
      call.has_output())
    return false;
  // The composition divides by them unchecked; the CPU has words for what does not fit.
  const int64_t each = batch > 0 ? self.numel() / batch : 0;
  if (groups <= 0 || channels <= 0 || channels % groups != 0 || each * batch != self.numel() ||
      each / channels != positions || positions * channels != each) {
    return false;
  }
  auto wide = [](const std::optional<at::Tensor>& x) {
    return x ? std::optional(x->to(c10::ScalarType::Float)) : std::nullopt;
  };
  auto [out, mean, inverse] = at::native::math_group_norm(
      self.to(c10::ScalarType::Float).contiguous(), wide(weight), wide(bias), batch, channels,
      positions, groups, call[7].toDouble());
  const c10::ScalarType dtype = self.scalar_type();
  call.finish(
      {out.to(dtype).contiguous(self.suggest_memory_format()), mean.to(dtype), inverse.to(dtype)});
  return true;
}

/// native_dropout(input, p, train): the mask is drawn as any other random tensor of the device.
bool dropout(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const double kept = 1 - call[1].toDouble();
  if (!is_float_on_device(self) || call.has_output()) return false;
  at::Tensor mask = at::empty_like(self, self.options().dtype(c10::ScalarType::Bool));
  if (call.has(2) && !call[2].toBool()) {
    call.finish({self.clone(), mask.fill_(true)});
    return true;
  }
  mask.bernoulli_(kept);
  call.finish({self * mask * (kept == 0 ? 0 : 1 / kept), mask});
  return true;
}

bool dropout_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& mask = call.tensor(1);
  if (!is_float_on_device(grad) || !is_spyre(mask) || call.has_output()) return false;
  call.finish({grad * mask * call[2].toDouble()});
  return true;
}

/// Asks whether padding can become a nested tensor, which saves an encoder the work on it. The
/// device has none: encoders stay dense.
bool is_mask_left_aligned(Call& call) {
  call.finish_values({false});
  return true;
}

/// For operators whose composition in PyTorch is worse than what the CPU computes.
bool leave_to_fallback(Call&) { return false; }

}  // namespace

const std::vector<Kernel>& compose_kernels() {
  static const std::vector<Kernel> kernels = {
      {"log_sigmoid_forward", log_sigmoid_forward, "f"},
      {"mse_loss", mse_loss, "f"},
      {"mse_loss_backward", mse_loss_backward, "f"},
      {"isin.Tensor_Tensor", isin, "fib"},
      {"equal", equal, "fib"},
      {"histc", histc, "fi"},
      {"pixel_shuffle", pixels<at::native::math_pixel_shuffle>, "fib"},
      {"pixel_unshuffle", pixels<at::native::math_pixel_unshuffle>, "fib"},
      {"native_group_norm", group_norm, "f"},
      {"native_dropout", dropout, "f"},
      {"native_dropout_backward", dropout_backward, "f"},
      // Composed of a matrix product of squared distances, in which what is near cancels: too much
      // for operands of ten bits.
      {"_euclidean_dist", leave_to_fallback, ""},
      {"_nested_tensor_from_mask_left_aligned", is_mask_left_aligned, ""},
  };
  return kernels;
}

}  // namespace spyre::aten
