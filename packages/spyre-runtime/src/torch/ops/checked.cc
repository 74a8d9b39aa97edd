// SPDX-License-Identifier: Apache-2.0
// Operators that the CPU computes for the device and whose kernels there trust what they are given:
// they read and write wherever an index points. What does not fit is refused here; then the call
// goes on to the fallback.
#include "torch/ops/checked.h"

#include <ATen/ops/aminmax.h>

#include <algorithm>

#include "torch/ops/ints.h"

namespace spyre::aten {
namespace {

void check_range(const Call& call, const char* what, const at::Tensor& indices, int64_t size) {
  if (indices.numel() == 0 || !c10::isIntegralType(indices.scalar_type(), /*includeBool=*/false)) {
    return;
  }
  const auto [least, most] = at::aminmax(indices.cpu());
  const auto low = least.item<int64_t>(), high = most.item<int64_t>();
  TORCH_CHECK_INDEX(low >= 0 && high < size, call.signature().name, ": ", what, " ",
                    low < 0 ? low : high, " is out of range; expected 0 to ", size - 1);
}

/// Lengths as a list or as a tensor.
std::vector<int64_t> lengths(const c10::IValue& value) {
  if (!value.isTensor()) return ints(value);
  const at::Tensor host = value.toTensor().to(c10::kCPU, c10::kLong).contiguous();
  return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
}

/// (log_probs, targets, input_lengths, target_lengths, ...): targets are padded to a row for each
/// sequence, or all follow each other. Padding may hold anything.
bool ctc_loss(Call& call) {
  const at::Tensor& probabilities = call.tensor(0);
  const at::Tensor targets = call.tensor(1).cpu();
  if (probabilities.dim() != 3) return false;
  if (targets.dim() != 2) {
    check_range(call, "target", targets, probabilities.size(2));
    return false;
  }
  const std::vector<int64_t> used = lengths(call[3]);
  for (int64_t row = 0; row < targets.size(0); ++row) {
    // Lengths that do not fit are for the CPU to word.
    if (row >= static_cast<int64_t>(used.size())) break;
    const int64_t length = used[static_cast<size_t>(row)];
    if (length < 0 || length > targets.size(1)) break;
    check_range(call, "target", targets[row].slice(0, 0, length), probabilities.size(2));
  }
  return false;
}

/// (grad, self, ..., indices): into the last `kDims` dimensions of self.
template <int64_t kDims, int kIndices>
bool pool_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  if (self.dim() < kDims) return false;
  int64_t positions = 1;
  for (int64_t d = 1; d <= kDims; ++d) positions *= self.size(-d);
  check_range(call, "index", call.tensor(kIndices), positions);
  return false;
}

/// (grad, indices, offset2bag, bag_size, maximum_indices, num_weights, ...)
bool embedding_bag_backward(Call& call) {
  check_range(call, "index", call.tensor(1), call[5].toInt());
  if (call.tensor(0).dim() > 0) check_range(call, "bag", call.tensor(2), call.tensor(0).size(0));
  return false;
}

/// (LU_data, LU_pivots, unpack_data, unpack_pivots): a pivot for each column of each matrix.
bool lu_unpack(Call& call) {
  const at::Tensor& data = call.tensor(0);
  if (data.dim() < 2 || !call[3].toBool()) return false;
  std::vector<int64_t> expected = data.sizes().slice(0, data.dim() - 2).vec();
  expected.push_back(std::min(data.size(-2), data.size(-1)));
  TORCH_CHECK_VALUE(call.tensor(1).sizes() == at::IntArrayRef(expected), call.signature().name,
                    ": the pivots have size ", call.tensor(1).sizes(), "; expected ",
                    at::IntArrayRef(expected), " for matrices of size ", data.sizes());
  return false;
}

}  // namespace

const std::vector<Kernel>& checked_kernels() {
  static const std::vector<Kernel> kernels = {
      {"_ctc_loss", ctc_loss, ""},
      {"_ctc_loss.Tensor", ctc_loss, ""},
      {"adaptive_max_pool2d_backward", pool_backward<2, 2>, ""},
      {"adaptive_max_pool3d_backward", pool_backward<3, 2>, ""},
      {"max_pool3d_with_indices_backward", pool_backward<3, 7>, ""},
      {"_embedding_bag_dense_backward", embedding_bag_backward, ""},
      {"lu_unpack", lu_unpack, ""},
  };
  return kernels;
}

}  // namespace spyre::aten
