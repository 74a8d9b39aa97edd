# SPDX-License-Identifier: Apache-2.0
"""Compiled reductions of rows with infinities and NaN follow the CPU, in every float dtype."""

import math

import pytest
import torch
import torch.nn.functional as F

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
]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
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
    torch._dynamo.reset()
    actual = torch.compile(run, backend="spyre")(values.to("spyre")).cpu()
    expected = run(values.float()).to(actual.dtype)
    # The host has bfloat16 with eight bits, to which both sides round.
    rtol = 2.0**-7 if dtype is torch.bfloat16 else 2.0**-8
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=0, equal_nan=True)
