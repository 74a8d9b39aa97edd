# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools and interpolations over images: values, gradients and memory formats."""

import math

import pytest
import torch
import torch.nn.functional as F
from compare import mismatch, to_device


def assert_same(actual, expected, tolerance):
    assert mismatch(actual, expected, rtol=tolerance, atol=tolerance, half=False) is None


WINDOWS = {
    "conv2d": lambda x, w: F.conv2d(x, w, stride=2, padding=1),
    "grouped conv2d": lambda x, w: F.conv2d(x, w[:, :4], groups=2),
    "conv_transpose2d": lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1), stride=2),
    "conv3d": lambda x, w: F.conv3d(x[:, :, None], w[:, :, None]),
    "max_pool2d": lambda x, w: F.max_pool2d(x, 3, 2, 1),
    "indices of max_pool2d": lambda x, w: F.max_pool2d(x, 2, return_indices=True)[1] + w.sum() * 0,
    "avg_pool2d": lambda x, w: F.avg_pool2d(x, 3, 2, 1),
    "adaptive_avg_pool2d": lambda x, w: F.adaptive_avg_pool2d(x, (3, 2)),
    "nearest": lambda x, w: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x, w: F.interpolate(x, size=(9, 5), mode="bilinear"),
    "group_norm": lambda x, w: F.group_norm(x, 2),
    "pixel_shuffle": lambda x, w: F.pixel_shuffle(x, 2),
    "pad": lambda x, w: F.pad(x, (1, 2, 0, 1)),
    "relu of conv": lambda x, w: F.conv2d(x, w).relu().mul(2),
}


@pytest.mark.filterwarnings("ignore:aten.*runs on the CPU")
@pytest.mark.parametrize("which", ["input", "weight", "both"])
@pytest.mark.parametrize("name", WINDOWS)
def test_channels_last_stays(name, which):
    torch.manual_seed(0)
    found = []
    draw = [torch.randint(-4, 5, s).float() for s in ((2, 8, 6, 8), (4, 8, 3, 3))]
    for number, kind in enumerate(("input", "weight")):
        if which in (kind, "both"):
            draw[number] = draw[number].contiguous(memory_format=torch.channels_last)
    for device in ("spyre", "cpu"):
        x, w = (to_device(t) if device == "spyre" else t.clone() for t in draw)
        x.requires_grad_(), w.requires_grad_()
        out = WINDOWS[name](x, w)
        out.backward((torch.arange(out.numel()).view(out.shape) % 5).to(out))
        grads = [t.grad for t in (x, w) if t.grad is not None]
        found.append([out.detach(), *grads])
    for actual, expected in zip(*found, strict=True):
        assert_same(actual, expected, 1e-5)


NATIVE = {
    "avg_pool2d": [
        ((2, 3, 8, 9), lambda x: F.avg_pool2d(x, 2)),
        ((2, 3, 8, 9), lambda x: F.avg_pool2d(x, (3, 2), (2, 1), (1, 0))),
        ((2, 3, 8, 9), lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
        ((2, 3, 8, 9), lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
        ((3, 8, 9), lambda x: F.avg_pool2d(x, 4, 3, 2, True, count_include_pad=False)),
        ((2, 3, 8, 9), lambda x: F.avg_pool2d(x, 2, 5, divisor_override=3)),
        ((2, 3, 8, 9), lambda x: F.avg_pool2d(x, 1, 4, ceil_mode=True)),
        ((2, 3, 9), lambda x: F.avg_pool1d(x, 4, 2, 1)),
    ],
    "adaptive_avg_pool2d": [
        ((2, 3, 8, 6), lambda x: F.adaptive_avg_pool2d(x, (4, 2))),
        ((3, 8, 6), lambda x: F.adaptive_avg_pool2d(x, (8, 3))),
        ((2, 3, 8, 6), lambda x: F.adaptive_avg_pool2d(x, 1)),
    ],
    "nearest": [
        ((2, 3, 4, 5), lambda x: F.interpolate(x, scale_factor=2)),
        ((2, 3, 4, 5), lambda x: F.interpolate(x, scale_factor=(3, 1))),
        ((2, 3, 4, 5), lambda x: F.interpolate(x, scale_factor=1.7)),
        ((2, 3, 8, 5), lambda x: F.interpolate(x, size=(5, 11))),
        ((2, 3, 8, 5), lambda x: F.interpolate(x, size=(5, 10), mode="nearest-exact")),
        ((2, 3, 4, 5), lambda x: F.interpolate(x, scale_factor=2.3, recompute_scale_factor=True)),
    ],
    "bilinear": [
        ((2, 3, 4, 5), lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
        (
            (2, 3, 4, 5),
            lambda x: F.interpolate(x, size=(7, 3), mode="bilinear", align_corners=True),
        ),
        ((2, 3, 4, 5), lambda x: F.interpolate(x, scale_factor=0.6, mode="bilinear")),
        ((2, 3, 4, 5), lambda x: F.interpolate(x, size=(1, 5), mode="bilinear")),
    ],
    "group_norm": [
        ((2, 6, 4, 5), lambda x: F.group_norm(x, 3, x[0, :, 0, 0], x[1, :, 1, 1])),
        ((3, 64), lambda x: F.group_norm(x, 2)),
    ],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", NATIVE)
def test_values_and_gradients(name, dtype):
    torch.manual_seed(0)
    torch.spyre.reset_fallbacks()
    half = dtype is torch.float16
    for size, run in NATIVE[name]:
        x = torch.randn(size).to(dtype).to("spyre").requires_grad_()
        reference = x.detach().cpu().float().requires_grad_()
        out, expected = run(x), run(reference)
        limits = {"rtol": 2.0**-8 if half else 1e-5, "atol": 2.0**-8 if half else 1e-6}
        found = mismatch(out.detach(), expected.detach(), half=half, **limits)
        assert found is None, (size, found)
        grad = torch.randint(-3, 4, out.shape)
        out.backward(grad.to(dtype).to("spyre"))
        expected.backward(grad.float())
        found = mismatch(x.grad, reference.grad, half=half, **limits)
        assert found is None, (size, found)
    assert torch.spyre.fallbacks() == {}


def test_infinities_stay_infinite_in_means():
    x = torch.tensor([[1.0, math.inf], [2.0, 3.0]])
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for values in (x, -x):
            found = F.avg_pool2d(values[None].to(dtype).to("spyre"), 2).cpu()
            assert found.item() == values.sum().item()


REFUSED = {
    "window of nothing": lambda x: F.avg_pool2d(x, 0),
    "padding beyond half a window": lambda x: F.avg_pool2d(x, 2, padding=2),
    "window beyond the image": lambda x: F.avg_pool2d(x, 9),
    "divisor of zero": lambda x: F.avg_pool2d(x, 2, divisor_override=0),
    "two dimensions": lambda x: F.avg_pool2d(x[0, 0], 2),
    "adaptive of negative size": lambda x: F.adaptive_avg_pool2d(x, (-1, 2)),
    "no size": lambda x: torch.ops.aten.upsample_nearest2d(x, [0, 2]),
    "one size": lambda x: torch.ops.aten.upsample_bilinear2d(x, [2], False),
    "three dimensions": lambda x: torch.ops.aten.upsample_nearest2d(x[0], [2, 2]),
    "gradient of another size": lambda x: torch.ops.aten.avg_pool2d_backward(
        x, x, [2, 2], [2, 2], [0, 0], False, True, None
    ),
    "gradient of another image": lambda x: torch.ops.aten.upsample_nearest2d_backward(
        x, [9, 9], [2, 3, 4, 4]
    ),
    "gradient of another channel": lambda x: torch.ops.aten.upsample_bilinear2d_backward(
        x, [4, 5], [2, 4, 4, 4], False
    ),
    "out of another dtype": lambda x: torch.ops.aten.avg_pool2d.out(
        x, [2, 2], out=torch.empty(2, 3, 2, 2, device=x.device, dtype=torch.int64)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_on_the_cpu(name):
    torch.spyre.reset_fallbacks()
    x = torch.randn(2, 3, 4, 5)
    with pytest.raises(Exception) as expected:
        REFUSED[name](x)
    with pytest.raises(type(expected.value)):
        REFUSED[name](x.to("spyre"))
    assert torch.spyre.fallbacks() == {}
