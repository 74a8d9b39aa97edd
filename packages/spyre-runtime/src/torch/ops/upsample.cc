// SPDX-License-Identifier: Apache-2.0
// Images in other sizes, composed: a dimension at a time, by the positions that the CPU computes.
#include <ATen/TensorOperators.h>
#include <ATen/native/UpSample.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "torch/ops/kernels.h"
#include "torch/ops/types.h"

namespace spyre::aten {
namespace {

using c10::ScalarType;

/// A dimension of an image, in and out.
struct Axis {
  int64_t dim;  ///< from the end
  int64_t from, to;
  std::optional<double> scale;
};
using Axes = std::array<Axis, 2>;

Axes axes(at::IntArrayRef from, at::IntArrayRef to, const Call& call, int first_scale) {
  const auto scale = [&](int number) {
    const c10::IValue& value = call[first_scale + number];
    return value.isNone() ? std::nullopt : std::optional(value.toDouble());
  };
  return {Axis{-2, from[from.size() - 2], to[0], scale(0)},
          Axis{-1, from[from.size() - 1], to[1], scale(1)}};
}

template <class Number>
at::Tensor on_device(const std::vector<Number>& numbers, const at::Tensor& like) {
  return at::tensor(numbers, at::TensorOptions().dtype(c10::CppTypeToScalarType<Number>::value))
      .to(like.device());
}

bool is_image(const at::Tensor& tensor) {
  return is_float_on_device(tensor) && tensor.dim() == 4 && tensor.numel() != 0;
}

bool are_sizes(at::IntArrayRef sizes, size_t count) {
  return sizes.size() == count &&
         std::all_of(sizes.begin(), sizes.end(), [](auto size) { return size > 0; });
}

bool is_gradient(const Call& call, at::IntArrayRef to, at::IntArrayRef from) {
  const at::Tensor& grad = call.tensor(0);
  return is_image(grad) && are_sizes(to, 2) && are_sizes(from, 4) &&
         grad.sizes().equals({from[0], from[1], to[0], to[1]}) &&
         call.outputs_are(grad.device(), {grad.scalar_type()});
}

at::Tensor finished(const at::Tensor& result, const at::Tensor& like) {
  return result.to(like.scalar_type()).contiguous(like.suggest_memory_format());
}

// --- the nearest
// ----------------------------------------------------------------------------------

std::vector<int64_t> nearest(const Axis& axis, bool is_exact) {
  const auto index = is_exact ? at::native::nearest_exact_idx : at::native::nearest_idx;
  std::vector<int64_t> result;
  for (int64_t i = 0; i < axis.to; ++i) result.push_back(index(i, axis.from, axis.to, axis.scale));
  return result;
}

/// How often each position is repeated, if that is the same for all.
std::optional<int64_t> times(const Axis& axis, const std::vector<int64_t>& indices) {
  if (axis.to % axis.from != 0) return std::nullopt;
  const int64_t count = axis.to / axis.from;
  for (int64_t i = 0; i < axis.to; ++i) {
    if (indices[static_cast<size_t>(i)] != i / count) return std::nullopt;
  }
  return count;
}

template <bool is_exact>
bool upsample_nearest(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const std::vector<int64_t> size = call[1].toIntVector();
  if (!is_image(self) || !are_sizes(size, 2) ||
      !call.outputs_are(self.device(), {self.scalar_type()}))
    return false;
  at::Tensor result = self;
  for (const Axis& axis : axes(self.sizes(), size, call, 2)) {
    const std::vector<int64_t> indices = nearest(axis, is_exact);
    if (const auto count = times(axis, indices)) {
      if (*count == 1) continue;
      std::vector<int64_t> wide_size = result.sizes().vec();
      wide_size.insert(wide_size.end() + axis.dim + 1, *count);
      result = result.unsqueeze(axis.dim).expand(wide_size).flatten(axis.dim - 1, axis.dim);
    } else {
      result = at::index_select(result, axis.dim, on_device(indices, self));
    }
  }
  if (result.is_same(self)) result = self.clone();
  call.deliver({finished(result, self)});
  return true;
}

template <bool is_exact>
bool upsample_nearest_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const std::vector<int64_t> to = call[1].toIntVector(), from = call[2].toIntVector();
  if (!is_gradient(call, to, from)) return false;
  at::Tensor result = wide(grad);
  for (const Axis& axis : axes(from, to, call, 3)) {
    const std::vector<int64_t> indices = nearest(axis, is_exact);
    if (const auto count = times(axis, indices)) {
      result = at::sum(result.unflatten(axis.dim, {axis.from, *count}), axis.dim);
    } else {
      std::vector<int64_t> size = result.sizes().vec();
      size[static_cast<size_t>(4 + axis.dim)] = axis.from;
      result =
          at::zeros(size, result.options()).index_add_(axis.dim, on_device(indices, grad), result);
    }
  }
  call.deliver({finished(result, grad)});
  return true;
}

// --- between two
// ----------------------------------------------------------------------------------

/// The neighbours of each position of a result, and the weight of the second one.
struct Between {
  at::Tensor first, second, weight;
};

Between between(const Axis& axis, bool align_corners, const at::Tensor& like) {
  const auto ratio =
      at::native::area_pixel_compute_scale<float>(axis.from, axis.to, align_corners, axis.scale);
  std::vector<int64_t> first, second;
  std::vector<float> weight;
  for (int64_t i = 0; i < axis.to; ++i) {
    int64_t low = 0, high = 0;
    float low_weight = 0, high_weight = 0;
    at::native::compute_source_index_and_lambda<float, float>(
        low, high, low_weight, high_weight, ratio, i, axis.from, axis.to, align_corners);
    first.push_back(low);
    second.push_back(high);
    weight.push_back(high_weight);
  }
  at::Tensor weights = on_device(weight, like);
  if (axis.dim == -2) weights = weights.unsqueeze(-1);
  return {on_device(first, like), on_device(second, like), weights};
}

bool upsample_bilinear(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const std::vector<int64_t> size = call[1].toIntVector();
  if (!is_image(self) || !are_sizes(size, 2) ||
      !call.outputs_are(self.device(), {self.scalar_type()}))
    return false;
  at::Tensor result = wide(self);
  for (const Axis& axis : axes(self.sizes(), size, call, 3)) {
    const Between taps = between(axis, call[2].toBool(), self);
    result = at::index_select(result, axis.dim, taps.first) * (1 - taps.weight) +
             at::index_select(result, axis.dim, taps.second) * taps.weight;
  }
  call.deliver({finished(result, self)});
  return true;
}

bool upsample_bilinear_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const std::vector<int64_t> to = call[1].toIntVector(), from = call[2].toIntVector();
  if (!is_gradient(call, to, from)) return false;
  at::Tensor result = wide(grad);
  for (const Axis& axis : axes(from, to, call, 4)) {
    const Between taps = between(axis, call[3].toBool(), grad);
    std::vector<int64_t> size = result.sizes().vec();
    size[static_cast<size_t>(4 + axis.dim)] = axis.from;
    result = at::zeros(size, result.options())
                 .index_add_(axis.dim, taps.first, result * (1 - taps.weight))
                 .index_add_(axis.dim, taps.second, result * taps.weight);
  }
  call.deliver({finished(result, grad)});
  return true;
}

}  // namespace

const std::vector<Kernel>& upsample_kernels() {
  static const std::vector<Kernel> kernels = {
      {"upsample_nearest2d", upsample_nearest<false>, "f"},
      {"upsample_nearest2d_backward", upsample_nearest_backward<false>, "f"},
      {"_upsample_nearest_exact2d", upsample_nearest<true>, "f"},
      {"_upsample_nearest_exact2d_backward", upsample_nearest_backward<true>, "f"},
      {"upsample_bilinear2d", upsample_bilinear, "f"},
      {"upsample_bilinear2d_backward", upsample_bilinear_backward, "f"},
  };
  return kernels;
}

}  // namespace spyre::aten
