# SPDX-License-Identifier: Apache-2.0
"""Results have the CPU's strides, for inputs of any order of dimensions, with and without gaps."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from compare import to_device
from torch.utils._pytree import tree_leaves


def numbers(*shape: int) -> torch.Tensor:
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape) / 7


def channels_last() -> torch.Tensor:
    return numbers(2, 3, 4, 6).contiguous(memory_format=torch.channels_last)


INPUTS = {
    "contiguous": numbers(3, 4, 6),
    "permuted": numbers(3, 4, 6).permute(2, 0, 1),
    "sliced": numbers(4, 8, 6)[:, ::2],
    "sliced and transposed": numbers(4, 8, 6)[:, ::2].transpose(0, 2),
    "sparse": numbers(4, 8, 60)[:, ::2, ::20].transpose(0, 2),
    "expanded": numbers(4, 1, 6).expand(4, 3, 6),
    "expanded and transposed": numbers(4, 1, 6).expand(4, 3, 6).transpose(0, 2),
    "with a dimension of one": numbers(3, 1, 6).permute(2, 1, 0),
    "channels last": channels_last(),
    "channels last, sliced": channels_last()[:, :2],
    "heads": numbers(2, 5, 3, 4).transpose(1, 2),
}


def index(x: torch.Tensor, *values: int) -> torch.Tensor:
    return torch.tensor(values, device=x.device)


def like(x: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A contiguous tensor of the same shape."""
    return torch.ones(x.shape, dtype=dtype, device=x.device)


UNARY = [
    "exp",
    "neg",
    "abs",
    "sign",
    "floor",
    "sin",
    "sigmoid",
    "relu",
    "isposinf",
    "isneginf",
    "isnan",
    "isinf",
    "logical_not",
    "angle",
    "frac",
    "nan_to_num",
    "square",
    "rsqrt",
    "erfinv",
    "digamma",
    "deg2rad",
    "trunc",
    "round",
    "i0",
    "sgn",
    "tanh",
    "reciprocal",
    "signbit",
    "logit",
    "zeros_like",
    "ones_like",
    "clone",
    "isfinite",
    "empty_like",
    "rand_like",
    "tril",
    "argwhere",
    "nonzero",
    "flipud",
    "fliplr",
    "rot90",
    "argsort",
]
ACTIVATIONS = [
    "gelu",
    "silu",
    "elu",
    "leaky_relu",
    "hardswish",
    "hardsigmoid",
    "softplus",
    "mish",
    "logsigmoid",
    "celu",
    "selu",
    "relu6",
    "hardtanh",
    "hardshrink",
    "softshrink",
    "tanhshrink",
    "softsign",
    "dropout",
    "normalize",
]
OPERATORS = {name: getattr(torch, name) for name in UNARY}
OPERATORS |= {name: getattr(F, name) for name in ACTIVATIONS}
OPERATORS |= {
    "threshold": lambda x: F.threshold(x, 1.0, 2.0),
    "clamp": lambda x: x.clamp(0, 1),
    "pow": lambda x: x**1.7,
    "power of a number": lambda x: 2.0**x,
    "add itself": lambda x: x + x,
    "add contiguous": lambda x: x + like(x),
    "contiguous add": lambda x: like(x) + x,
    "add a row": lambda x: x + torch.ones(x.shape[-1], device=x.device),
    "floor_divide": lambda x: x // x,
    "floor_divide by a number": lambda x: x // 2,
    "integer floor_divide": lambda x: x.int() // (x.int() + 1),
    "fmod": lambda x: torch.fmod(x, x),
    "fmod of integers": lambda x: x.int().fmod(x.int() + 1),
    "remainder": lambda x: x % 2,
    "remainder of a number": lambda x: torch.remainder(2, x),
    "remainder of integers": lambda x: x.int() % (x.int() + 1),
    "compare": lambda x: x > 1,
    "to half": lambda x: x.half(),
    "to int": lambda x: x.int(),
    "atan2": lambda x: torch.atan2(x, x),
    "nextafter": lambda x: torch.nextafter(x, x),
    "gcd": lambda x: torch.gcd(x.int(), x.int()),
    "where": lambda x: torch.where(x > 1, x, x * 2),
    "masked_fill": lambda x: x.masked_fill(x > 1, 0),
    "addcmul": lambda x: torch.addcmul(x, x, x),
    "lerp": lambda x: torch.lerp(x, x, 0.5),
    "flip": lambda x: x.flip(0, 1),
    "rot90 twice": lambda x: x.rot90(2),
    "rot90 back": lambda x: x.rot90(3),
    "roll": lambda x: x.roll(1, 0),
    "list of rows": lambda x: x[[1, 2]],
    "list of columns": lambda x: x[:, [0, 0]],
    "index of rows": lambda x: x[index(x, 1, 0)],
    "index of columns": lambda x: x[:, index(x, 0, 0)],
    "two indices": lambda x: x[index(x, 1, 0), index(x, 0, 0)],
    "two indices apart": lambda x: x[index(x, 1, 0), :, index(x, 0, 0)],
    "matrix of rows": lambda x: x[index(x, 1, 0).repeat(2, 1)],
    "mask": lambda x: x[x > 1],
    "mask of rows": lambda x: x[torch.arange(x.shape[0], device=x.device) > 0],
    "index_select": lambda x: x.index_select(1, index(x, 0, 0)),
    "gather": lambda x: x.gather(0, torch.zeros_like(x).long()),
    "scatter": lambda x: x.scatter(0, torch.zeros_like(x).long(), 1.0),
    "index_add": lambda x: x.index_add(0, index(x, 0), x[:1]),
    "index_copy": lambda x: x.index_copy(0, index(x, 0), x[:1]),
    "index_put": lambda x: x.index_put((index(x, 0),), x[0]),
    "sum": lambda x: x.sum(1),
    "sum over two": lambda x: x.sum((0, 2)),
    "mean": lambda x: x.mean(0, keepdim=True),
    "max": lambda x: x.max(1),
    "argmax": lambda x: x.argmax(1, keepdim=True),
    "var_mean": lambda x: torch.var_mean(x, 0),
    "norm": lambda x: x.norm(dim=1),
    "logsumexp": lambda x: x.logsumexp(1),
    "any": lambda x: (x > 1).any(1),
    "median": lambda x: x.median(1),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(0),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda x: F.group_norm(x, 1),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(0),
    "cummax": lambda x: x.cummax(1),
    "sort": lambda x: x.sort(1),
    "topk": lambda x: x.topk(1, 1),
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "cat": lambda x: torch.cat([x, x], 1),
    "stack": lambda x: torch.stack([x, x]),
    "pad": lambda x: F.pad(x, (1, 1)),
    "repeat": lambda x: x.repeat(2, *[1] * (x.dim() - 1)),
    "moved": lambda x: x.movedim(0, -1) * 1,
    "diag_embed": torch.diag_embed,
    "matmul": lambda x: x @ x.transpose(-1, -2),
    "transposed matmul": lambda x: x.transpose(-1, -2) @ x,
    "linear": lambda x: F.linear(x, torch.ones(3, x.shape[-1], device=x.device)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "attention to narrow values": lambda x: F.scaled_dot_product_attention(x, x, x[..., :2]),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 1),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "mse_loss": lambda x: F.mse_loss(x, x * 2, reduction="none"),
    "bucketize": lambda x: torch.bucketize(x, index(x, 1, 2).float()),
}


@pytest.mark.usefixtures("quiet_fallback")
@pytest.mark.parametrize("name", OPERATORS)
def test_strides(name: str) -> None:
    run = OPERATORS[name]
    tried = 0
    for kind, x in INPUTS.items():
        try:
            expected = tree_leaves(run(x))
        except (RuntimeError, IndexError, ValueError):
            continue  # not for this number of dimensions
        actual = tree_leaves(run(to_device(x)))
        tried += 1
        for a, e in zip(actual, expected, strict=True):
            assert a.shape == e.shape, kind
            assert e.numel() <= 1 or a.stride() == e.stride(), f"{kind}: {tuple(e.shape)}"
    assert tried
