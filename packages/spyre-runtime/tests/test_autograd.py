# SPDX-License-Identifier: Apache-2.0
"""Autograd, autocast and training loops, by whatever kernels there are."""

from __future__ import annotations

import pytest
import torch
from tensor_cases import equal

pytestmark = pytest.mark.usefixtures("quiet_fallback")


def test_gradients_accumulate():
    x = torch.ones(3, 70, device="spyre", requires_grad=True)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert equal(x.grad, torch.full((3, 70), 5.0))
    assert x.grad.device.type == "spyre"


def test_gradients_through_copies_and_casts():
    x = torch.ones(3, 70, requires_grad=True)
    x.to("spyre").half().float().cpu().sum().backward()
    assert torch.equal(x.grad, torch.ones(3, 70))
    y = torch.ones(3, 70, device="spyre", requires_grad=True)
    y.t()[3:5].cpu().sum().backward()
    assert y.grad.sum().item() == 6


def test_training_step_and_optimizers():
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    layer.to("spyre")
    x, y = torch.randn(32, 8).to("spyre"), torch.randn(32, 1).to("spyre")
    for kind in (torch.optim.SGD, torch.optim.AdamW):
        optimizer = kind(layer.parameters(), lr=1e-2)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(layer(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0]


def test_autocast():
    layer = torch.nn.Linear(64, 64).to("spyre")
    x = torch.randn(4, 64).to("spyre")
    with torch.autocast("spyre"):
        assert torch.get_autocast_dtype("spyre") == torch.float16
        out = layer(x)
        assert out.dtype == torch.float16
        assert torch.nn.functional.softmax(out, -1).dtype == torch.float32
        with torch.autocast("spyre", enabled=False):
            assert layer(x).dtype == torch.float32
    with torch.autocast("spyre", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    assert torch.amp.GradScaler("spyre").is_enabled()


def test_grad_scaler_steps():
    layer = torch.nn.Linear(8, 1).to("spyre")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("spyre")
    with torch.autocast("spyre"):
        loss = layer(torch.ones(4, 8).to("spyre")).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def test_functional_transforms_and_checkpoint():
    x = torch.randn(5, 7).to("spyre")
    mapped = torch.vmap(lambda v: (v * v).sum())(x)
    assert torch.allclose(mapped.cpu(), (x.cpu() ** 2).sum(1), rtol=1e-3)
    _, tangent = torch.func.jvp(lambda v: v * v, (x,), (torch.ones_like(x),))
    assert torch.allclose(tangent.cpu(), 2 * x.cpu(), rtol=1e-3)
    y = x.clone().requires_grad_()
    torch.utils.checkpoint.checkpoint(
        lambda v: v.tanh() * 2, y, use_reentrant=False
    ).sum().backward()
    assert y.grad.shape == y.shape


def test_modules_and_methods_of_the_backend():
    x = torch.ones(3)
    assert not x.is_spyre
    assert x.spyre().is_spyre
    assert torch.nn.Linear(2, 2).spyre().weight.is_spyre


def test_data_loader_with_pinned_memory():
    data = torch.utils.data.TensorDataset(torch.arange(20.0).view(10, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=5, pin_memory=True)
    total = sum(batch.to("spyre", non_blocking=True).sum().item() for (batch,) in loader)
    assert total == 190


def test_trace():
    traced = torch.jit.trace(lambda v: v + 1, torch.ones(3).to("spyre"), check_trace=False)
    assert equal(traced(torch.zeros(3).to("spyre")), torch.ones(3))
