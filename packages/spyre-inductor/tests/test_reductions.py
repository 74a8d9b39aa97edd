# SPDX-License-Identifier: Apache-2.0
"""Reductions, softmax and norms: one program, one stage where the space allows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers import check

DIMS = [(-1,), (0,), (0, 2), (1,), (0, 1, 2)]


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_reductions(dims, dtype):
    x = torch.randn(5, 9, 70).to(dtype)
    check(
        lambda x: (
            x.sum(dims),
            x.mean(dims, keepdim=True),
            x.amax(dims),
            x.amin(dims),
            x.var(dims),
            x.std(dims),
            torch.logsumexp(x, dims),
            (x > 0).sum(dims),
            torch.linalg.vector_norm(x, dim=dims),
        ),
        x,
        tolerance=2e-2 if dtype is torch.float16 else 1e-4,
    )


def test_integer_and_bool_reductions():
    x = torch.randint(-9, 9, (5, 9, 20))
    check(
        lambda x: (
            x.sum(1),
            x.amax((0, 2)),
            x.prod(2),
            (x > 0).any(1),
            (x > -9).all(),
            x.to(torch.int8).sum(0),
        ),
        x,
    )


def test_any_of_uint8_is_uint8():
    def run(x):
        return x.any(1), x.any(), x.any((0, 1), keepdim=True), x.all(1)

    x = torch.tensor([[1, 0], [2, 3], [0, 0]], dtype=torch.uint8)
    check(run, x)
    results = torch.compile(run, backend="spyre")(x.to("spyre"))
    assert {result.dtype for result in results} == {torch.uint8}


def test_arg_reductions():
    x = torch.randint(0, 5, (6, 7, 8)).float()
    check(
        lambda x: (
            x.argmax(),
            x.argmin(1),
            x.transpose(0, 2).argmax(),
            x.argmax(0, keepdim=True),
            x.max(1),
            x.min(2),
        ),
        x,
        fallbacks=2,
    )


@pytest.mark.parametrize(
    ("shape", "dim"), [((4, 96), -1), ((3, 5, 7), 0), ((2, 3, 130), 2), ((70,), 0), ((4, 1), 1)]
)
def test_softmax(shape, dim):
    log = check(
        lambda x: (torch.softmax(x, dim), torch.log_softmax(x, dim)), torch.randn(shape).half() * 4
    )
    assert len(log.programs) == 1


def test_norms_are_one_stage():
    x, w, b = torch.randn(6, 96).half(), torch.randn(96).half(), torch.randn(96).half()
    log = check(lambda x, w, b: F.layer_norm(x + b, (96,), w, b), x, w, b, tolerance=2e-2)
    assert [len(p.kernels) for p, _ in log.programs] == [1]
    log = check(lambda x, w: F.rms_norm(x, (96,), w), x, w, tolerance=2e-2)
    assert [len(p.kernels) for p, _ in log.programs] == [1]
    check(lambda x: (F.group_norm(x, 2), F.instance_norm(x)), torch.randn(3, 4, 10))
    check(
        lambda x, m, v: F.batch_norm(x, m, v), torch.randn(3, 4, 10), torch.randn(4), torch.rand(4)
    )


def test_empty_reductions():
    check(lambda x: (x.sum(1), x.prod(1), x.mean(0)), torch.zeros(3, 0))


def test_large_reduction():
    check(lambda x: (x.sum(), x.mean(), x.amax()), torch.rand(300, 500), tolerance=1e-3)


def test_losses():
    x, y = torch.randn(6, 10), torch.randint(0, 10, (6,))
    check(
        lambda x, y: (
            F.cross_entropy(x, y),
            F.nll_loss(x, y, reduction="none"),
            F.mse_loss(x, x * 2),
        ),
        x,
        y,
    )
