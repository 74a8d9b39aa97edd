// SPDX-License-Identifier: Apache-2.0
// Operators that have no composite kernel in PyTorch, put together from ones that are native here.
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include "torch/ops/kernels.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

bool is_float_on_device(const at::Tensor& tensor) {
  return is_spyre(tensor) && type_class(tensor.scalar_type()) == 'f';
}

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

/// Composed of views in PyTorch, and contiguous; the CPU's keeps the memory format.
bool pixel_shuffle(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!is_spyre(self) || call.has_output()) return false;
  call.finish(at::native::math_pixel_shuffle(self, call[1].toInt())
                  .contiguous(self.suggest_memory_format()));
  return true;
}

bool pixel_unshuffle(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (!is_spyre(self) || call.has_output()) return false;
  call.finish(at::native::math_pixel_unshuffle(self, call[1].toInt())
                  .contiguous(self.suggest_memory_format()));
  return true;
}

/// PyTorch composes it of a batch norm, which the CPU computes: it computes the whole as well, for
/// inputs of any memory format.
bool group_norm(Call&) { return false; }

/// PyTorch takes squared distances from a matrix product, where what is near cancels: too much for
/// operands of ten bits. False: the CPU computes it.
bool euclidean_distance(Call&) { return false; }

}  // namespace

const std::vector<Kernel>& compose_kernels() {
  static const std::vector<Kernel> kernels = {
      {"log_sigmoid_forward", log_sigmoid_forward, "f"}, {"mse_loss", mse_loss, "f"},
      {"mse_loss_backward", mse_loss_backward, "f"},     {"pixel_shuffle", pixel_shuffle, "fib"},
      {"pixel_unshuffle", pixel_unshuffle, "fib"},       {"native_group_norm", group_norm, ""},
      {"_euclidean_dist", euclidean_distance, ""},
  };
  return kernels;
}

}  // namespace spyre::aten
