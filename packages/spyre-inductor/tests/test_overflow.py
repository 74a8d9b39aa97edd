# SPDX-License-Identifier: Apache-2.0
"""Compiled, too, halves that overflow are infinite as on the CPU."""

import math

import pytest
import torch
from spyre_inductor.report_log import recording

INF = math.inf
CASES = {
    "masks added": lambda low, big, zero: low + low,
    "mul": lambda low, big, zero: low * big,
    "chain": lambda low, big, zero: (low * 2 - big) * 3,
    "exp": lambda low, big, zero: torch.exp(zero + 100),
    "division by zero": lambda low, big, zero: big / zero,
    "sum": lambda low, big, zero: torch.stack([low, low]).sum(0),
    "tested": lambda low, big, zero: torch.where(torch.isinf(low + low), low, zero),
    "wide": lambda low, big, zero: (low + low).float(),
    "cast": lambda low, big, zero: (zero.float() + 1e30).to(zero.dtype),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_an_overflow_is_infinite(case: str, dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    given = [torch.full((70,), value, dtype=dtype) for value in (-INF, INF, 0.0)]
    expected = CASES[case](*given)
    if case == "cast" and dtype is torch.bfloat16:  # the CPU's has a wider range
        expected = torch.full_like(expected, INF)
    assert expected.isinf().all()
    with recording() as log, torch._inductor.config.patch(force_disable_caches=True):
        actual = torch.compile(CASES[case], backend="spyre")(*(x.to("spyre") for x in given))
    assert not log.fallbacks
    assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_product_that_overflows_is_infinite(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    x = torch.full((70, 70), 6e4, dtype=dtype, device="spyre")
    for run in (torch.mm, lambda x, y: torch.relu(x @ y + 1)):
        assert (torch.compile(run, backend="spyre")(x, x) == INF).all()


def test_what_cannot_overflow_is_stored_as_it_is() -> None:
    def bounded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, torch.maximum(x, y), torch.sigmoid(-y))

    torch._dynamo.reset()
    x = torch.ones(70, dtype=torch.float16, device="spyre")
    with recording() as log, torch._inductor.config.patch(force_disable_caches=True):
        torch.compile(bounded, backend="spyre")(x, x)
        torch.compile(torch.add, backend="spyre")(x, x)
    texts = [text.text for _, text in log.programs]
    assert ["inf_to_sen169" in text for text in texts] == [False, True]
