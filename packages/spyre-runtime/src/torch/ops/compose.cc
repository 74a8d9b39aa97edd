// SPDX-License-Identifier: Apache-2.0
// Operators that have no composite kernel in PyTorch, put together from ones that are native here.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/addr_native.h>
#include <ATen/ops/all.h>
#include <ATen/ops/any.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/le.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

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

/// Numbers, not truths.
bool has_numbers(const at::Tensor& tensor) {
  const char type = type_class(tensor.scalar_type());
  return type == 'f' || type == 'i';
}

/// isin(elements, test_elements, assume_unique, invert): each against each.
bool isin(Call& call) {
  const at::Tensor& elements = call.tensor(0);
  const at::Tensor& tests = call.tensor(1);
  if (!is_spyre(elements) || !is_spyre(tests) || elements.device() != tests.device() ||
      !has_numbers(elements) || !has_numbers(tests) ||
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

/// histc(self, bins, min, max) with bounds.
bool histc(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const c10::ScalarType dtype = self.scalar_type();
  const at::Tensor out = call.output();
  TORCH_CHECK(!out.defined() || out.scalar_type() == dtype,
              "torch.histogram: input tensor and hist tensor should have the same dtype, but got "
              "input ",
              dtype, " and hist ", out.defined() ? out.scalar_type() : dtype,
              "; give an out of the dtype of the input");
  const int64_t bins = call[1].toInt();
  if (!is_spyre(self) || !has_numbers(self) || bins < 1 ||
      !call.outputs_are(self.device(), {dtype}))
    return false;
  // An element that equals a bound lies inside, so bounds are rounded as elements are.
  const double bounds[] = {call[2].toScalar().toDouble(), call[3].toScalar().toDouble()};
  const double low = stored_number(bounds[0], dtype), high = stored_number(bounds[1], dtype);
  // Equal bounds stand for those of the elements.
  if (!(low < high) || !std::isfinite(bounds[0]) || !std::isfinite(bounds[1])) return false;
  const at::Tensor x = wide(self.reshape({-1}));
  const at::Tensor is_inside = at::logical_and(at::ge(x, low), at::le(x, high));
  const at::Tensor bin = at::floor((x - low) * static_cast<double>(bins) / (high - low))
                             .clamp_max(static_cast<double>(bins - 1));
  const at::Tensor counts = at::zeros({bins}, self.options().dtype(c10::ScalarType::Long));
  counts.scatter_add_(0, at::where(is_inside, bin, 0).to(c10::ScalarType::Long),
                      is_inside.to(c10::ScalarType::Long));
  call.deliver({counts.to(dtype)});
  return true;
}

/// addr(self, vec1, vec2, beta, alpha): PyTorch's composition, which every device gets but the CPU,
/// rounds between its parts and changes the shape of self in place.
bool addr(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& rows = call.tensor(1);
  const at::Tensor& columns = call.tensor(2);
  const c10::ScalarType dtype = self.scalar_type();
  for (const at::Tensor* tensor : {&self, &rows, &columns}) {
    if (!is_spyre(*tensor) || tensor->device() != self.device() || tensor->scalar_type() != dtype)
      return false;
  }
  if (!has_numbers(self) || rows.dim() != 1 || columns.dim() != 1 ||
      !call.outputs_are(self.device(), {dtype}))
    return false;
  const bool is_float = type_class(dtype) == 'f';
  if (call[3].isComplexDouble() || call[4].isComplexDouble() ||
      (!is_float && (call[3].isDouble() || call[4].isDouble())))
    return false;
  const int64_t size[] = {rows.size(0), columns.size(0)};
  if (call.signature().is_in_place ? !self.sizes().equals(size)
                                   : !at::is_expandable_to(self.sizes(), size))
    return false;
  auto compute = [&](const at::Tensor& x) { return is_float ? wide(x) : x; };
  call.deliver({at::native::math_addr(compute(self), compute(rows), compute(columns),
                                      call[3].toScalar(), call[4].toScalar())
                    .to(dtype)});
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

}  // namespace

const std::vector<Kernel>& compose_kernels() {
  static const std::vector<Kernel> kernels = {
      {"log_sigmoid_forward", log_sigmoid_forward, "f"},
      {"mse_loss", mse_loss, "f"},
      {"mse_loss_backward", mse_loss_backward, "f"},
      {"isin.Tensor_Tensor", isin, "fi"},
      {"equal", equal, "fib"},
      {"histc", histc, "fi"},
      {"addr", addr, "fi"},
      {"pixel_shuffle", pixels<at::native::math_pixel_shuffle>, "fib"},
      {"pixel_unshuffle", pixels<at::native::math_pixel_unshuffle>, "fib"},
      {"native_dropout", dropout, "f"},
      {"native_dropout_backward", dropout_backward, "f"},
      {"_nested_tensor_from_mask_left_aligned", is_mask_left_aligned, ""},
  };
  return kernels;
}

}  // namespace spyre::aten
