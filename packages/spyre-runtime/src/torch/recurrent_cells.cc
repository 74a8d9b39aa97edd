// SPDX-License-Identifier: Apache-2.0
// The fused LSTM and GRU cells that nn.LSTM and nn.GRU call on every device but the CPU, composed
// of other operators: PyTorch has no CPU kernel to fall back to.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <tuple>

namespace spyre::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor with_bias(const at::Tensor& gates, const OptionalTensor& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

/// Gates in PyTorch's order: input, forget, cell, output. The workspace holds them activated.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates,
                                                         const at::Tensor& hidden_gates,
                                                         const at::Tensor& cx,
                                                         const OptionalTensor& input_bias,
                                                         const OptionalTensor& hidden_bias) {
  const at::Tensor gates =
      with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias);
  const auto parts = gates.chunk(4, 1);
  const at::Tensor in = parts[0].sigmoid();
  const at::Tensor forget = parts[1].sigmoid();
  const at::Tensor cell = parts[2].tanh();
  const at::Tensor out = parts[3].sigmoid();
  const at::Tensor cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const OptionalTensor& grad_hy, const OptionalTensor& grad_cy, const at::Tensor& cx,
    const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  const bool has_hy = grad_hy.has_value() && grad_hy->defined();
  const bool has_cy = grad_cy.has_value() && grad_cy->defined();
  if (!has_hy && !has_cy) return {};
  const auto parts = workspace.chunk(4, 1);
  const at::Tensor &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
  const at::Tensor squashed = cy.tanh();
  const at::Tensor hy = has_hy ? *grad_hy : at::zeros_like(cy);
  at::Tensor grad_cell_state = hy * out * (1 - squashed * squashed);
  if (has_cy) grad_cell_state = grad_cell_state + *grad_cy;
  const at::Tensor grad_gates =
      at::cat({grad_cell_state * cell * in * (1 - in), grad_cell_state * cx * forget * (1 - forget),
               grad_cell_state * in * (1 - cell * cell), hy * squashed * out * (1 - out)},
              1);
  return {grad_gates, grad_cell_state * forget, has_bias ? grad_gates.sum(0) : at::Tensor()};
}

/// Gates in PyTorch's order: reset, input (update), new. The workspace holds reset, input, new, the
/// previous hidden state and the hidden part of the new gate with its bias.
std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates,
                                            const at::Tensor& hidden_gates, const at::Tensor& hx,
                                            const OptionalTensor& input_bias,
                                            const OptionalTensor& hidden_bias) {
  const auto input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const at::Tensor reset = (input[0] + hidden[0]).sigmoid();
  const at::Tensor update = (input[1] + hidden[1]).sigmoid();
  const at::Tensor fresh = (input[2] + reset * hidden[2]).tanh();
  return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const at::Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &hx = parts[3],
                   &hidden_new = parts[4];
  const at::Tensor grad_update = grad_hy * (hx - fresh) * (1 - update) * update;
  const at::Tensor grad_new = grad_hy * (1 - update) * (1 - fresh * fresh);
  const at::Tensor grad_reset = grad_new * hidden_new * (1 - reset) * reset;
  const at::Tensor grad_input = at::cat({grad_reset, grad_update, grad_new}, 1);
  const at::Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_new * reset}, 1);
  return {grad_input, grad_hidden, grad_hy * update, has_bias ? grad_input.sum(0) : at::Tensor(),
          has_bias ? grad_hidden.sum(0) : at::Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace
}  // namespace spyre::aten
