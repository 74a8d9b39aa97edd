# SPDX-License-Identifier: Apache-2.0
"""What is left out to save time changes neither programs nor results."""

from __future__ import annotations

import contextlib
import gc
import sys

import pytest
import torch
from helpers import compare, to_device
from spyre_inductor import torch_compat, torch_savings
from spyre_inductor.report_log import recording


def write_rows(x, y):
    out = x.clone()
    out[1:3] = y[1:3]
    out.index_put_((torch.tensor([0, 3], device=x.device),), y[:2])
    return out.t() + x.view(-1).view(8, 4).t().t()


FUNCTIONS = {
    "no-op of an expanded operand": lambda x, y: (x[:1].expand(4, 8) + 0).view(-1) * y.view(-1),
    "uniform constants": lambda x, y: x * torch.ones_like(y).t().t() + torch.zeros_like(x.t()).t(),
    "constant of another order": lambda x, y: (torch.full_like(x.t(), 2.0), x @ y.t()),
    "casts": lambda x, y: (x.float() @ y.float().t()).half().softmax(-1),
    "writes": write_rows,
    "split": lambda x, y: [a * b for a, b in zip(x.chunk(2), y.split(2), strict=True)],
    "var_mean": lambda x, y: torch.var_mean(x - y, -1),
    "device of an index": lambda x, y: x[torch.arange(2)] + y[:2],
    "in place": lambda x, y: x.add_(y).relu_(),
}


def compiled(fn, args, dynamic):
    torch._dynamo.reset()
    with recording() as log, torch_compat.fresh_caches():
        result = torch.compile(fn, backend="spyre", dynamic=dynamic)(*to_device(args))
    return result, [text.text for _, text in log.programs]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_programs_are_the_same_without(fn, dynamic, monkeypatch):
    args = torch.randn(4, 8).half(), torch.randn(4, 8).half()
    expected = fn(*(arg.clone().float() for arg in args))
    short, short_texts = compiled(fn, [arg.clone() for arg in args], dynamic)
    monkeypatch.setattr(torch_compat, "saving", contextlib.nullcontext)
    full, full_texts = compiled(fn, [arg.clone() for arg in args], dynamic)
    assert short_texts == full_texts
    compare(short, expected, 8e-3)
    compare(full, expected, 8e-3)


def test_backward_is_the_same_without(monkeypatch):
    x = torch.randn(4, 8, requires_grad=True)

    def gradient(leaf):
        torch._dynamo.reset()
        with torch_compat.fresh_caches():
            fn = torch.compile(lambda t: (t * 2 + 0).softmax(-1).t().relu(), backend="spyre")
            fn(leaf).square().sum().backward()
        return leaf.grad.cpu()

    short = gradient(to_device(x))
    monkeypatch.setattr(torch_compat, "saving", contextlib.nullcontext)
    assert torch.equal(short, gradient(to_device(x)))


def test_the_collector_comes_back():
    def broken(*args):
        raise RuntimeError("broken")

    assert gc.isenabled()
    torch.compile(lambda x: x + 1, backend="spyre")(torch.ones(3, device="spyre"))
    assert gc.isenabled()
    with pytest.raises(RuntimeError, match="broken"), torch_savings.saving():
        broken()
    assert gc.isenabled()
    gc.disable()
    try:
        with torch_savings.saving():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_templates_are_parsed_after_import():
    torch.compile(lambda x: x + 1, backend="spyre")(torch.ones(3, device="spyre"))
    template = sys.modules["torch._inductor.codegen.common"].KernelTemplate
    assert template._template_from_string("{{ x }}").render(x=3) == "3"


def test_savings_last_as_long_as_the_outer_compilation():
    def is_saving():
        return getattr(torch_savings._active, "on", False)

    with torch_savings.saving():
        with torch_savings.saving():
            assert is_saving()
        assert is_saving()
    assert not is_saving()
