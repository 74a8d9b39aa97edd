# SPDX-License-Identifier: Apache-2.0
"""Convolutions are sums of products over a window, with what follows as their epilogue."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers import check, compare

CASES = {
    "padded": ((2, 3, 9, 9), (8, 3, 3, 3), {"padding": 1}),
    "pointwise": ((2, 8, 9, 7), (8, 8, 1, 1), {"stride": 2}),
    "depthwise": ((1, 4, 12), (4, 1, 4), {"padding": 3, "groups": 4}),
    "grouped": ((2, 6, 8, 8), (4, 3, 2, 3), {"groups": 2, "dilation": 2, "padding": (1, 2)}),
    "strided": ((2, 3, 70, 70), (5, 3, 7, 7), {"stride": 2, "padding": 3}),
    "volume": ((1, 2, 4, 5, 6), (3, 2, 2, 2, 2), {"padding": 1}),
}
CONVOLUTIONS = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_convolution_with_an_epilogue(case, dtype):
    size, weight_size, settings = CASES[case]
    convolution = CONVOLUTIONS[len(size)]
    x, w, b = (torch.randn(s).to(dtype) for s in (size, weight_size, weight_size[:1]))
    log = check(
        lambda x, w, b: torch.relu(convolution(x, w, b, **settings)) + 1, x, w, b, tolerance=3e-2
    )
    (program,) = [p for p, _ in log.programs]
    assert len(program.kernels) <= 2  # at most the padding goes first


def test_convolution_of_any_size():
    weight, bias = torch.randn(8, 3, 3, 3).half(), torch.randn(8).half()
    held = weight.to("spyre"), bias.to("spyre")

    def run(x):
        w, b = (weight.float(), bias.float()) if x.device.type == "cpu" else held
        return F.conv2d(x, w, b, stride=2, padding=1)

    for size in ((2, 3, 9, 7), (3, 3, 12, 10)):
        check(run, torch.randn(size).half(), tolerance=3e-2, dynamic=True)


@pytest.mark.parametrize("rank", [1, 2])
def test_convolution_where_every_size_is_symbolic(rank):
    compiled = torch.compile(
        lambda x, w: CONVOLUTIONS[rank + 2](x, w, padding="same"), backend="spyre", dynamic=True
    )
    for extents, taps in (((9, 11), (4, 2)), ((6, 5), (2, 2)), ((1, 1), (2, 3)), ((8, 8), (3, 3))):
        x, w = torch.randn(2, 3, *extents[:rank]), torch.randn(4, 3, *taps[:rank])
        result = compiled(x.half().to("spyre"), w.half().to("spyre"))
        compare(result, CONVOLUTIONS[rank + 2](x, w, padding="same"), 3e-2)


def test_transposed_convolution_runs_eagerly():
    x, w = torch.randn(2, 4, 5).half(), torch.randn(4, 3, 3).half()
    check(lambda x, w: F.conv_transpose1d(x, w, stride=2) + 1, x, w, tolerance=3e-2, fallbacks=1)


def test_gradients_of_a_convolution():
    x, w = torch.randn(2, 3, 6, 6).requires_grad_(), torch.randn(4, 3, 3, 3).requires_grad_()

    def gradients(x, w):
        return torch.autograd.grad(F.conv2d(x, w, padding=1).square().sum(), (x, w))

    check(gradients, x, w, tolerance=5e-2, fallbacks=1)
