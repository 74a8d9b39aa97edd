# SPDX-License-Identifier: Apache-2.0
"""Gathers, scatters and what else computes addresses."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers import check


def test_gathers():
    w, i = torch.randn(10, 24).half(), torch.randint(0, 10, (4, 7))
    check(
        lambda w, i: (
            F.embedding(i, w) * 2,
            w[i, :5],
            w.index_select(0, i[0]),
            w[:, i[0]],
            w[-1],
            w[i[0], i[1]],
        ),
        w,
        i,
    )
    x, j = torch.randn(12, 5).half(), torch.randint(0, 5, (12, 2))
    check(lambda x, j: (x.gather(1, j), torch.take_along_dim(x, j, 1)), x, j)


def test_negative_indices():
    check(lambda x, i: x[i] + 1, torch.randn(6, 5), torch.tensor([-1, 0, -6, 5]))


def test_index_out_of_range_raises():
    fn = torch.compile(lambda x, i: x[i] + 1, backend="spyre")
    with pytest.raises(IndexError):
        fn(torch.randn(6, 5, device="spyre"), torch.tensor([0, 6]).to("spyre")).cpu()
    torch.spyre.synchronize()


OUT_OF_RANGE = {
    "constant": lambda x: x[[0, 9]],
    "negative": lambda x: x[torch.tensor([0, -9], device=x.device)],
    "computed": lambda x: x[torch.arange(3, device=x.device) * 4],
    "under a mask": lambda x: F.pad(x[torch.arange(3, device=x.device) * 4], (1, 1, 1, 1)),
    "of data": lambda x: x[(x[:2, 0] * 0).long() + 9],
    "reduced": lambda x: x.index_select(0, torch.full((2,), 9, device=x.device)).sum(),
    "gather": lambda x: x.gather(0, torch.full((1, 7), 9, device=x.device)),
    "take": lambda x: x.take(torch.tensor([100], device=x.device)),
    "embedding": lambda x: F.embedding(torch.tensor([9], device=x.device), x),
    "scatter": lambda x: x.scatter(0, torch.full((1, 7), 9, device=x.device), 1.0),
    "scatter_add": lambda x: x.scatter_add(0, torch.full((1, 7), 9, device=x.device), x),
    "index_put": lambda x: x.index_put((torch.tensor([9], device=x.device),), x[:1]),
    "index_fill": lambda x: x.index_fill(0, torch.tensor([9], device=x.device), 1.0),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.full((5,), 9, device=x.device)),
    "of nothing": lambda x: x[:0][torch.zeros(1, dtype=torch.int64, device=x.device)],
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE.keys())
def test_known_indices_out_of_range_raise(fn, dynamic):
    x = torch.randn(5, 7, device="spyre")
    with pytest.raises(IndexError, match=r"index (-?\d+ is out of range for a size of \d+|is out)"):
        torch.compile(fn, backend="spyre", dynamic=dynamic)(x).cpu()
    torch.spyre.synchronize()


def test_computed_indices_in_range():
    x = torch.randn(9, 4)
    for dynamic in (False, True):
        check(lambda x: x[torch.arange(3, device=x.device) * 4] + 1, x, dynamic=dynamic)
        check(
            lambda x: x.index_add(0, torch.arange(3, device=x.device) * 4, x[:3]),
            x,
            dynamic=dynamic,
        )


def test_scatters():
    x, i, v = torch.randn(12, 5), torch.randint(0, 12, (12, 5)), torch.randn(3, 5)
    check(lambda x, i: torch.zeros_like(x).scatter_add(0, i, x), x, i)
    check(lambda x, v: x.index_copy(0, torch.tensor([2, 0, 7], device=x.device), v), x, v)
    check(
        lambda x, v: x.index_put((torch.tensor([2, 0, 2], device=x.device),), v, accumulate=True),
        x,
        v,
    )
    check(lambda x: x.slice_scatter(x[:4] * 2, 0, 3, 7), x)


SCATTERS = {
    "slice": lambda x: x.slice_scatter(x[:, :1] * 2, 1, 1, 2),
    "select": lambda x: x.select_scatter(x[:, 0] * 2, 1, -1),
    "diagonal": lambda x: x.diagonal_scatter(x[0] * 2),
    "index_put": lambda x: x.index_put((torch.arange(2, device=x.device),), x[2:4] * 2),
    "index_put twice": lambda x: x.index_put((x[0].long() * 0,), x[0]).slice_scatter(
        x[:1] * 2, 0, 3, 4
    ),
}


@pytest.mark.parametrize("read", [lambda y: y, lambda y: y.t(), lambda y: y + 1])
@pytest.mark.parametrize("scatter", SCATTERS.values(), ids=SCATTERS.keys())
def test_a_scatter_into_an_input_that_is_written_later(scatter, read):
    def run(x):
        y = scatter(x)
        x.add_(1)
        return read(y), x + y, x

    x = torch.arange(16.0).view(4, 4)
    ours = x.to("spyre")
    check(lambda x: run(x.clone()), x)
    actual = torch.compile(run, backend="spyre")(ours)
    expected = run(x)
    for a, b in zip((*actual, ours), (*expected, x), strict=True):
        assert torch.equal(a.cpu(), b)


def test_one_hot_and_masks():
    i = torch.randint(0, 9, (4, 5))
    check(
        lambda i: (F.one_hot(i, 9), (i[:, None] == i[:, :, None]).float(), i.ne(3).cumsum(1)),
        i,
        fallbacks=1,
    )


def test_assertions_reach_the_host():
    fn = torch.compile(lambda i: F.one_hot(i, 9), backend="spyre")
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        fn(torch.tensor([3, 9]).to("spyre"))


def test_pool_and_interpolate():
    x = torch.randn(1, 3, 8, 8)
    check(
        lambda x: (
            F.avg_pool2d(x, 3, 2, 1),
            F.max_pool2d(x, 2),
            F.interpolate(x, scale_factor=2.0),
            F.interpolate(x, size=(5, 11), mode="bilinear"),
        ),
        x,
        fallbacks=4,
    )


def test_convolution_runs_eagerly():
    check(
        lambda x, w: F.relu(F.conv2d(x, w, padding=1)) + 1,
        torch.randn(1, 3, 8, 8),
        torch.randn(2, 3, 3, 3),
        tolerance=2e-2,
    )
