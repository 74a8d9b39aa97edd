# SPDX-License-Identifier: Apache-2.0
"""Operations that do what eager ones do, where decompositions or programs alone would not."""

from __future__ import annotations

import functools

import pytest
import torch
from helpers import check, to_device

DIVISIONS = {
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "fmod": torch.fmod,
}


@pytest.mark.parametrize("divide", DIVISIONS.values(), ids=DIVISIONS.keys())
@pytest.mark.parametrize("dtype", [torch.int64, torch.int8])
def test_integer_division_by_zero_raises(divide, dtype):
    x, y = torch.tensor([5, -7, 9]).to(dtype), torch.tensor([2, 2, -4]).to(dtype)
    compiled = torch.compile(divide, backend="spyre")
    assert torch.equal(compiled(*to_device((x, y))).cpu(), divide(x, y))
    y[1] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(*to_device((x, y)))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.compile(lambda t: divide(t, 0), backend="spyre")(x.to("spyre"))


@pytest.mark.parametrize("divide", DIVISIONS.values(), ids=DIVISIONS.keys())
def test_division_by_other_constants_stays_in_the_program(divide):
    x = torch.tensor([5, -7, 9])
    check(lambda t: divide(t, -3) + divide(t, t.size(0)), x)
    check(lambda t: divide(t, torch.full_like(t, 4)), x)
    check(lambda t: divide(t.float(), 0), x)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_the_mean_of_nothing_is_nan(shape):
    check(lambda t: torch.var_mean(t, -1), torch.zeros(shape))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize(
    ("name", "training"),
    [
        ("native_batch_norm", True),
        ("native_batch_norm", False),
        ("_native_batch_norm_legit", True),
        ("_native_batch_norm_legit", False),
        ("_native_batch_norm_legit.no_stats", True),  # without them it cannot but train
    ],
)
def test_batch_norms_save_what_eager_saves(dtype, training, name):
    x = torch.randn(4, 3, 5, dtype=dtype)
    running = torch.randn(3, dtype=dtype), torch.rand(3, dtype=dtype) + 1

    def norm(x, mean, var):
        batch_norm = functools.reduce(getattr, name.split("."), torch.ops.aten)
        running = () if name.endswith("no_stats") else (mean, var)
        return batch_norm(x, None, None, *running, training, 0.1, 1e-5)

    args = to_device((x, *running))
    expected = norm(args[0], args[1].clone(), args[2].clone())
    actual = torch.compile(norm, backend="spyre")(*args)
    for a, b in zip(actual, expected, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        torch.testing.assert_close(a.cpu().float(), b.cpu().float(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_logsumexp_of_infinite_rows(dtype):
    inf = float("inf")
    rows = [[inf, 1, 2], [-inf, -inf, -inf], [-inf, 1, 2], [inf, inf, 3], [1, 2, 3]]
    check(lambda t: torch.logsumexp(t, -1), torch.tensor(rows, dtype=dtype))
