# SPDX-License-Identifier: Apache-2.0
"""Gradients of native operators against the CPU's."""

import pytest
import torch
import torch.nn.functional as F
from compare import as_held, mismatch, to_device

CASES = {
    "arithmetic": (lambda x, y: (x * y + x / (y.abs() + 1) - 2 * y) * 0.5, [(4, 70), (4, 70)]),
    "broadcast": (lambda x, y: (x + y) * y, [(3, 5, 7), (5, 1)]),
    "exp_log": (lambda x: (x.exp() + 1).log() + x.tanh() + x.sigmoid(), [(9, 33)]),
    "gelu": (lambda x: F.gelu(x) + F.gelu(x, approximate="tanh"), [(6, 65)]),
    "activations": (
        lambda x: (
            F.silu(x)
            + F.relu(x)
            + F.leaky_relu(x)
            + F.elu(x)
            + F.softplus(x)
            + F.hardswish(x)
            + F.hardtanh(x)
            + F.logsigmoid(x)
            + F.mish(x)
            + F.hardsigmoid(x)
        ),
        [(5, 64)],
    ),
    "pow_sqrt": (lambda x: (x.abs() + 1).sqrt() + x.pow(3) + (x.abs() + 1).rsqrt(), [(8, 8)]),
    "softmax": (lambda x: F.softmax(x, -1) * F.log_softmax(x, 0), [(6, 50)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (40,), w, b), [(3, 4, 40), (40,), (40,)]),
    "reductions": (
        lambda x: x.sum(0) * x.mean(0) + x.amax(0) + x.var(0) + x.norm(dim=0) + x.max(0).values,
        [(7, 20)],
    ),
    "matmul": (lambda x, y: x @ y, [(5, 20), (20, 9)]),
    "batched": (lambda x, y: torch.bmm(x, y.transpose(1, 2)), [(2, 5, 20), (2, 9, 20)]),
    "linear": (lambda x, w, b: F.linear(x, w, b), [(2, 3, 20), (9, 20), (9,)]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(1, 2, 6, 16)] * 3),
    "shape": (
        lambda x: torch.cat([x[:, ::2], x.flip(1)], 1).transpose(0, 1).reshape(-1)[3:],
        [(4, 10)],
    ),
    "pad_and_where": (lambda x: torch.where(x > 0, F.pad(x, (0, 0)), x * 2).tril(), [(6, 6)]),
    "losses": (lambda x, y: F.mse_loss(x, y) + F.smooth_l1_loss(x, y), [(6, 6), (6, 6)]),
    "clamp": (
        lambda x, y: x.clamp(-0.5, 0.5) + torch.maximum(x, y) + torch.minimum(x, y),
        [(9, 9)] * 2,
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, dtype: torch.dtype) -> None:
    function, shapes = CASES[name]
    values = [as_held(torch.randn(shape).to(dtype)) for shape in shapes]
    reference = [v.float().clone().requires_grad_() for v in values]
    device = [to_device(v).requires_grad_() for v in values]
    expected, actual = function(*reference), function(*device)
    weight = as_held(torch.randn(expected.shape).to(dtype))
    expected.backward(weight.float())
    actual.backward(weight.to("spyre"))
    downcasts = name in ("matmul", "batched", "linear", "attention")
    loose = dtype is torch.float16 or downcasts
    rtol, atol = (2.0**-6, 2.0**-6) if loose else (1e-4, 1e-5)
    for a, e in zip(
        [actual, *(d.grad for d in device)], [expected, *(r.grad for r in reference)], strict=True
    ):
        found = mismatch(a, e, rtol=rtol, atol=atol, half=True, strides=False)
        assert found is None, f"{name}: {found}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_embedding(dtype: torch.dtype) -> None:
    weight = as_held(torch.randn(11, 30).to(dtype))
    indices = torch.tensor([[1, 3, 3], [10, 0, 3]])
    for padding in (None, 3):
        reference = weight.float().clone().requires_grad_()
        device = to_device(weight).requires_grad_()
        expected = F.embedding(indices, reference, padding_idx=padding)
        actual = F.embedding(indices.to("spyre"), device, padding_idx=padding)
        expected.square().sum().backward()
        actual.square().sum().backward()
        for a, e in ((actual, expected), (device.grad, reference.grad)):
            found = mismatch(a, e, rtol=2.0**-7, atol=2.0**-9, half=True, strides=False)
            assert found is None, found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_gather_scatter_gradients(dtype: torch.dtype) -> None:
    values = as_held(torch.randn(6, 8).to(dtype))
    wide = torch.randint(0, 6, (4, 8))
    rows = torch.tensor([0, 5, 5, 2])
    reference = values.float().clone().requires_grad_()
    device = to_device(values).requires_grad_()
    for x, place in ((reference, "cpu"), (device, "spyre")):
        i, r = wide.to(place), rows.to(place)
        result = x.gather(0, i) + x[r] + x.index_select(0, r) * 2
        result.square().sum().backward()
    found = mismatch(
        device.grad, reference.grad, rtol=2.0**-6, atol=2.0**-7, half=True, strides=False
    )
    assert found is None, found


def test_training_step_reduces_loss() -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(20, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 5)
    ).to("spyre")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, target = torch.randn(32, 20).to("spyre"), torch.randint(0, 5, (32,)).to("spyre")
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0], losses
