# SPDX-License-Identifier: Apache-2.0
"""Chains of views, writes and reductions drawn at random: compiled, eager and host agree."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

DTYPES = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
)
SIZES = ((63, 65), (1, 130), (0, 3), (5,), (3, 1, 4), (2, 3, 2, 5), ())


def _dim(x, n):
    return n % x.dim()


def _part(x, y, a, b):
    """A slice with an offset and a step."""
    d = _dim(x, a)
    return torch.ops.aten.slice(x, d, b % (x.shape[d] + 1), None, 1 + a % 3)


def _column(x, y, a, b):
    d = _dim(x, a)
    return x.select(d, b % x.shape[d]) if x.shape[d] else x


def _write_part(x, y, a, b):
    _part(x, y, a, b).copy_(_part(x.clone(), y, a, b).flip(0) if x.dim() else x)
    return x


def _windows(x, y, a, b):
    d = _dim(x, a)
    return x.unfold(d, 2, 1 + b % 2).clone() if x.shape[d] > 1 else x


def _index(x, y, a, b):
    return torch.arange(x.shape[0], device=x.device).roll(a)[: 1 + b % 3]


def _write_rows(x, y, a, b):
    x[_index(x, y, a, b)] = 1
    return x


def _scatter(x, y, a, b):
    d = _dim(x, a)
    if not x.shape[d]:
        return x
    first = x.narrow(d, 0, 1)
    return x.slice_scatter(first, d, x.shape[d] - 1, x.shape[d])


def _update_cache(x, y, a, b):
    """Writes a row of a cache in place, then reads all of it."""
    if x.shape[0]:
        x[b % x.shape[0]].copy_(x[a % x.shape[0]].clone())
    return x.sum(0)


def _out(x, y, a, b):
    return torch.add(x, x, out=torch.empty_like(x))


NEEDS_DIMENSIONS = {
    "part": _part,
    "column": _column,
    "write part": _write_part,
    "windows": _windows,
    "gather rows": lambda x, y, a, b: x[_index(x, y, a, b)],
    "write rows": _write_rows,
    "scatter": _scatter,
    "cache": _update_cache,
    "flip": lambda x, y, a, b: x.flip(_dim(x, a)),
    "roll": lambda x, y, a, b: x.roll(b, _dim(x, a)),
    "transpose": lambda x, y, a, b: x.transpose(_dim(x, a), _dim(x, b)),
    "cat": lambda x, y, a, b: torch.cat([x, x], _dim(x, a)),
    "pad": lambda x, y, a, b: F.pad(x, (a % 3, b % 2), value=1),
    "sum": lambda x, y, a, b: x.sum(_dim(x, a), keepdim=b % 2 == 0),
    "any": lambda x, y, a, b: x.any(_dim(x, a)),
    "softmax": lambda x, y, a, b: x.float().softmax(_dim(x, a)),
}
OTHERS = {
    "stack": lambda x, y, a, b: torch.stack([x, x], b % (x.dim() + 1)),
    "expand": lambda x, y, a, b: x.unsqueeze(0).expand(2, *x.shape) == 1,
    "flatten": lambda x, y, a, b: x.reshape(-1),
    "where": lambda x, y, a, b: torch.where(x > 0, x, 0 if x.dtype != torch.bool else x),
    "cast": lambda x, y, a, b: x.to(DTYPES[a % 5]),
    "double": lambda x, y, a, b: x + x,
    "together": lambda x, y, a, b: x + y if x.shape == y.shape else x,
    "add in place": lambda x, y, a, b: x.logical_not_() if x.dtype is torch.bool else x.add_(1),
    "fill in place": lambda x, y, a, b: x.masked_fill_(x > 0, 1),
    "out": _out,
}
OPERATIONS = NEEDS_DIMENSIONS | OTHERS

steps = st.lists(
    st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 7), st.integers(0, 7)),
    min_size=2,
    max_size=6,
)


# with dynamic shapes Inductor has the host compute a size for it
SIZES_FOR_THE_HOST = [
    ("any", 5, 3),
    ("transpose", 2, 3),
    ("part", 3, 3),
    ("flatten", 4, 4),
    ("stack", 0, 3),
    ("pad", 5, 2),
]


def chain(drawn):
    def run(x, y):
        pool = [x, y]
        for name, a, b in drawn:
            source, other = pool[(a + b) % len(pool)], pool[b % len(pool)]
            if (name in NEEDS_DIMENSIONS and source.dim() == 0) or source.numel() > 20000:
                continue
            pool.append(OPERATIONS[name](source, other, a, b))
        return pool[2:]

    return run


@pytest.mark.parametrize("dynamic", [False, True])
def test_chains(dynamic):
    @settings(
        max_examples=12,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[
            Phase.explicit,
            Phase.generate,
        ],  # a chain is short, and each try at a shorter one compiles it
    )
    @example(SIZES_FOR_THE_HOST, torch.int64, (2, 3, 2, 5), True)
    @given(steps, st.sampled_from(DTYPES), st.sampled_from(SIZES), st.booleans())
    def compare(drawn, dtype, size, strided):
        torch._dynamo.reset()
        torch.manual_seed(len(drawn))
        shape = (*size[:-1], 2 * size[-1] + 1) if strided and size else size

        def inputs(device):
            made = torch.arange(2 * torch.Size(shape).numel()) % 7 - (dtype.is_signed * 3)
            pair = made.to(dtype).to(device).view(2, *shape).unbind()
            return [x[..., 1::2] if strided and size else x for x in pair]

        run = chain(drawn)
        compiled = torch.compile(run, backend="spyre", dynamic=dynamic)
        results = []
        for function, device in ((compiled, "spyre"), (run, "spyre"), (run, "cpu")):
            args = inputs(device)
            results.append([each.cpu() for each in (*function(*args), *args)])
        halves = any(x.dtype in (torch.float16, torch.bfloat16) for x in results[0])
        for actual, eager, expected in zip(*results, strict=True):
            assert actual.dtype == eager.dtype == expected.dtype
            for other in (eager, expected):
                torch.testing.assert_close(
                    actual,
                    other,
                    rtol=2.0**-6 if halves else 1e-5,
                    atol=2.0**-6 if halves else 1e-5,
                )

    compare()
