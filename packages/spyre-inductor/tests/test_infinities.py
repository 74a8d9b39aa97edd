# SPDX-License-Identifier: Apache-2.0
"""Compiled reductions of rows with infinities and NaN follow the CPU, in every float dtype."""

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

INF, NAN = math.inf, math.nan
ROWS = [
    [1.0, 2.0, 3.0, -1.0],
    [-INF] * 4,
    [INF] * 4,
    [INF, 1.0, 2.0, 3.0],
    [-INF, 1.0, 2.0, 3.0],
    [NAN, 1.0, 2.0, 3.0],
    [INF, -INF, 1.0, 2.0],
    [-INF, -INF, NAN, 1.0],
    [0.0, -0.0, 0.0, 0.0],
    [INF, 0.0, 1.0, 2.0],
    [65504.0, 65504.0, 1.0, 1.0],
    [65504.0, -65504.0, 65504.0, -65504.0],
    [-60000.0] * 4,
]
DTYPES = [torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "run",
    [
        lambda x: x.logsumexp(1),
        lambda x: x.softmax(1),
        lambda x: x.log_softmax(1),
        lambda x: F.softmin(x, 1),
        lambda x: x.amax(1),
        lambda x: x.amin(1),
        lambda x: x.argmax(1),
        lambda x: x.norm(INF, dim=1),
        lambda x: x.norm(-INF, dim=1),
        lambda x: torch.special.entr(x),
    ],
)
def test_special_rows(run, dtype: torch.dtype) -> None:
    values = torch.tensor(ROWS, dtype=dtype)
    compare(run, values.float(), values)


SUMS = [
    lambda x: x.sum(1),
    lambda x: x.sum((0, 1), keepdim=True),
    lambda x: x.sum(1, dtype=torch.float32),
    lambda x: x.mean(1),
    lambda x: x.mean(0, keepdim=True),
    lambda x: x.prod(1)[:10],  # bfloat16 reaches further than the device
    lambda x: x.prod(1, dtype=torch.float32),
    lambda x: x.nansum(1),
    lambda x: x.var(1)[:10],
    lambda x: x.std(1),
    lambda x: x.var(1, correction=0, keepdim=True)[:10],
    lambda x: torch.linalg.vector_norm(x, 1, 1),
    lambda x: torch.linalg.vector_norm(x, 2, 1),
    lambda x: torch.linalg.vector_norm(x, 3, 1)[:10],
    lambda x: F.layer_norm(x, (4,))[:10],
    lambda x: F.rms_norm(x, (4,), eps=1e-5)[:10],
    lambda x: F.group_norm(x[None, :10, :], 10),
    lambda x: F.batch_norm(x.t()[None, :, :], None, None, training=True)[..., :10],
    lambda x: F.mse_loss(x, torch.ones_like(x), reduction="sum"),
    lambda x: torch.special.logsumexp(x, (0, 1)),
]


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("run", SUMS)
def test_sums_of_halves_with_infinities(run, dtype: torch.dtype) -> None:
    values = torch.tensor(ROWS, dtype=dtype)
    compare(run, values.float(), values)


@pytest.mark.parametrize("run", [lambda x: x.prod(1), lambda x: x.var(1), lambda x: (x * x).sum(1)])
def test_what_halves_cannot_hold_is_infinite(run) -> None:
    values = torch.tensor(ROWS[-3:]).half()
    compare(run, values.float(), values)


@pytest.mark.parametrize("run", SUMS[:10])
def test_infinities_in_long_rows_and_views(run) -> None:
    torch.manual_seed(0)
    values = torch.randn(13, 130).half()
    for row, special in enumerate(ROWS[:10]):
        values[row, torch.randperm(130)[:4]] = torch.tensor(special).half()
    compare(run, values.float(), values)
    compare(lambda x: run(x[:, 3:66]), values.float(), values)
    compare(lambda x: run(x.t().contiguous().t()), values.float(), values)
    compare(lambda x: run(x + 1), values.float(), values)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (3, 1), (2, 63, 5), (2, 1, 65)], ids=str)
@pytest.mark.parametrize(
    "run",
    [
        lambda x: (x.sum(-1), x.sum((0, -1), keepdim=True), x.sum()),
        lambda x: (x.mean(-1), x.mean((0, -1)), x.mean()),
        lambda x: (x.prod(-1), x.prod(0, keepdim=True), x.prod()),
        lambda x: torch.linalg.vector_norm(x, 2, (0, -1), keepdim=True),
        lambda x: (x.var(-1), x.var((0, -1), correction=0), x.nansum(-1)),
        lambda x: (x.softmax(-1), x.softmax(0)),
    ],
)
def test_small_and_empty_rows(run, shape) -> None:
    torch.manual_seed(0)
    values = (torch.randn(shape) * 0.5 + 1).half()
    compare(run, values.float(), values, rtol=2.0**-7)
    if values.numel():
        values.view(-1)[0] = INF
        compare(run, values.float(), values, rtol=2.0**-7)


def compare(run, wide: torch.Tensor, values: torch.Tensor, rtol: float | None = None) -> None:
    """Compiled against eager and against the host in float32."""
    torch._dynamo.reset()
    held = values.to("spyre")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of variances without a degree of freedom
        results = torch.compile(run, backend="spyre")(held), run(held), run(wide)
    # The host has bfloat16 with eight bits, to which both sides round.
    rtol = rtol or (2.0**-7 if values.dtype is torch.bfloat16 else 2.0**-8)
    for actual, eager, expected in zip(*map(pytree.tree_leaves, results), strict=True):
        assert actual.dtype == eager.dtype
        for other in (eager.cpu(), expected.to(actual.dtype)):
            torch.testing.assert_close(
                actual.cpu(),
                other,
                rtol=rtol,
                atol=2.0**-9 if values.numel() > 60 else 0,
                equal_nan=True,
            )
