# SPDX-License-Identifier: Apache-2.0
"""Corner cases of layers and of sorting: what is ignored, tied, NaN, or refused."""

import math

import pytest
import torch
import torch.nn.functional as F
from compare import mismatch

NAN, INF = math.nan, math.inf


def assert_same(actual, expected, tolerance=0.0):
    assert mismatch(actual, expected, rtol=tolerance, atol=tolerance, half=False) is None


@pytest.mark.parametrize("target", [[-100, -100, -100], [1, -100, 2]])
def test_ignored_targets_have_no_gradient(target):
    gradients = []
    for device in ("spyre", "cpu"):
        x = torch.arange(12.0).reshape(3, 4).to(device).requires_grad_()
        F.nll_loss(x, torch.tensor(target, device=device)).backward()
        gradients.append(x.grad)
    assert not gradients[1].isnan().any()
    assert_same(*gradients, tolerance=1e-6)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_a_class_of_no_weight_does_not_hide_nan(reduction):
    x = torch.tensor([[1.0, INF], [2.0, NAN], [3.0, NAN], [4.0, 5.0]])
    target, weight = torch.tensor([1, 1, -100, 0]), torch.tensor([2.0, 0.0])
    arguments = [(x.to(d), target.to(d), weight.to(d)) for d in ("spyre", "cpu")]
    assert_same(*(F.nll_loss(*a, reduction=reduction) for a in arguments), tolerance=1e-6)


def test_max_pool_names_the_last_nan():
    rows = [[NAN, 1, NAN, 2, 3], [4, NAN, 3, 3, -INF], [-INF, 0, 0, NAN, NAN]]
    x = torch.tensor(rows)[None, None]
    for settings in ({"kernel_size": 2, "stride": 1}, {"kernel_size": 3, "padding": 1}):
        pooled = [F.max_pool2d(x.to(d), return_indices=True, **settings) for d in ("spyre", "cpu")]
        for actual, expected in zip(*pooled, strict=True):
            assert_same(actual, expected)


@pytest.mark.parametrize("descending", [False, True])
def test_sorted_tensors_have_the_strides_of_the_input(descending):
    x = torch.randn(3, 13, 4)
    for view in (lambda t: t, lambda t: t.permute(2, 0, 1), lambda t: t[:, ::2].transpose(0, 2)):
        for dim in range(3):
            arguments = {"dim": dim, "descending": descending, "stable": True}
            results = [torch.sort(view(x.to(d)), **arguments) for d in ("spyre", "cpu")]
            for actual, expected in zip(*results, strict=True):
                assert actual.stride() == expected.stride()
                assert_same(actual, expected)


def test_batch_norm_is_contiguous_or_channels_last():
    x = torch.randn(5, 4, 3, 6)
    for view in (
        lambda t: t.permute(3, 2, 1, 0),
        lambda t: t.contiguous(memory_format=torch.channels_last),
    ):
        for training in (False, True):
            strides = []
            for device in ("spyre", "cpu"):
                y = view(x.to(device))
                mean, var = torch.zeros(y.shape[1]).to(device), torch.ones(y.shape[1]).to(device)
                strides.append(F.batch_norm(y, mean, var, training=training).stride())
            assert strides[0] == strides[1]


def test_sums_begin_at_zero():
    x = torch.full((2, 5), -0.0)
    for device in ("spyre", "cpu"):
        assert not x.to(device).cumsum(1).cpu().signbit().any()
        assert x.to(device).cumprod(1).cpu().signbit()[0].tolist() == [1, 0, 1, 0, 1]


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.9), (0.7, 0.8)])
def test_histogram_bounds_are_numbers_of_the_dtype(low, high):
    x = torch.tensor([low, high, (low + high) / 2])
    assert_same(torch.histc(x.to("spyre"), 2, low, high), torch.histc(x, 2, low, high))


def test_histogram_of_halves_counts_what_equals_a_bound():
    for dtype in (torch.float16, torch.bfloat16):
        for low, high in ((0.1, 0.7), (-0.3, 0.9), (0.6, 100.3)):
            x = torch.tensor([low, low, high, math.nan]).to(dtype)
            assert torch.histc(x.to("spyre"), 3, low, high).tolist() == [2, 0, 1]


def test_ldexp_does_not_overflow_between():
    x = torch.tensor([1.0, 1e-30, 3e38, -1e38, 0.0, INF])
    exponents = torch.tensor([200, 140, -200, -130, 300, 5], dtype=torch.int32)
    for dtype in (torch.int32, torch.int64, torch.float32):
        e = exponents.to(dtype)
        expected = torch.ldexp(x, exponents)
        assert_same(torch.ldexp(x.to("spyre"), e.to("spyre")), expected, 1e-6)
    rows = torch.arange(120, dtype=torch.int32).reshape(5, 6, 4).permute(2, 1, 0) % 8
    found = torch.ldexp(x[:5].to("spyre"), rows.to("spyre"))
    assert_same(found, torch.ldexp(x[:5], rows), 1e-6)


def convolve(transposed=False, weight=torch.float32, bias=torch.float32, **settings):
    run = F.conv_transpose2d if transposed else F.conv2d
    size = (2, 2, 3, 3)

    def call(device):
        return run(
            torch.ones(1, 2, 7, 7, device=device),
            torch.ones(size, dtype=weight, device=device),
            torch.ones(2, dtype=bias, device=device),
            **settings,
        )

    return call


REFUSED = {
    "weight of another dtype": convolve(weight=torch.float16),
    "bias of another dtype": convolve(bias=torch.float16),
    "no dilation": convolve(dilation=0),
    "no stride": convolve(stride=0),
    "large output padding": convolve(transposed=True, output_padding=1),
    "class weights of another dtype": lambda d: F.nll_loss(
        torch.ones(2, 3, device=d),
        torch.tensor([0, 1], device=d),
        torch.ones(3, dtype=torch.float16, device=d),
    ),
    "histogram of another dtype": lambda d: torch.histc(
        torch.ones(3, device=d), 2, 0, 1, out=torch.ones(2, dtype=torch.int64, device=d)
    ),
}


@pytest.mark.filterwarnings("ignore:aten.*runs on the CPU")
@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_on_the_cpu(name):
    for device in ("cpu", "spyre"):
        with pytest.raises(RuntimeError):
            REFUSED[name](device)


@pytest.mark.parametrize("includes_self", [True, False])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_scatter_reduce(reduction, includes_self):
    index = torch.tensor([[0, 2, 0, 1], [1, 1, 1, 1]])
    for dtype in (torch.float32, torch.float16, torch.int64)[: 3 if reduction == "sum" else 2]:
        x, source = torch.arange(20).reshape(4, 5).to(dtype), torch.arange(15).reshape(3, 5)
        arguments = (0, index, source.to(dtype), reduction)
        expected = x.scatter_reduce(*arguments, include_self=includes_self)
        torch.spyre.reset_fallbacks()
        there = (0, index.to("spyre"), source.to(dtype).to("spyre"), reduction)
        found = x.to("spyre").scatter_reduce(*there, include_self=includes_self)
        assert torch.spyre.fallbacks() == {}
        assert mismatch(found, expected, rtol=2.0**-9, atol=0) is None
        target = x.to("spyre")
        assert target.scatter_reduce_(*there, include_self=includes_self) is target
        assert torch.equal(target.cpu(), found.cpu())
