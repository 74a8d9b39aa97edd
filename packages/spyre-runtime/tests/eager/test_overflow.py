# SPDX-License-Identifier: Apache-2.0
"""Halves that overflow are infinite, as on the CPU, whatever operator makes them."""

import math

import pytest
import torch

INF = math.inf
HALVES = [torch.float16, torch.bfloat16]
LARGE = [1e9, -1e9, 3e9, -3e9, 5e9]

# Whatever stays out of range on the way out of these is infinite on the CPU's float16 too.
CASES = {
    "masks added": lambda low, big, zero: low + low,
    "a mask and the lowest number": lambda low, big, zero: low + torch.full_like(low, -6e4) * 1e5,
    "sub": lambda low, big, zero: low - big,
    "alpha": lambda low, big, zero: torch.add(low, low, alpha=3),
    "mul": lambda low, big, zero: low * big,
    "mul by a number": lambda low, big, zero: low * 2,
    "in place": lambda low, big, zero: low.clone().mul_(4),
    "div": lambda low, big, zero: big / 1e-6,
    "division by zero": lambda low, big, zero: big / zero,
    "reciprocal": lambda low, big, zero: zero.reciprocal(),
    "rsqrt": lambda low, big, zero: zero.rsqrt(),
    "exp": lambda low, big, zero: torch.exp(zero + 100),
    "log": lambda low, big, zero: torch.log(zero),
    "pow": lambda low, big, zero: low**3,
    "square": lambda low, big, zero: big.square(),
    "fma": lambda low, big, zero: torch.addcmul(low, low, big),
    "sum": lambda low, big, zero: torch.stack([low, low]).sum(0),
    "prod": lambda low, big, zero: torch.stack([low, big]).prod(0),
    "cumsum": lambda low, big, zero: torch.stack([low, low]).cumsum(0)[1],
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_an_overflow_is_infinite(case: str, dtype: torch.dtype) -> None:
    given = [torch.full((5,), value, dtype=dtype) for value in (-INF, INF, 0.0)]
    expected = CASES[case](*given)
    assert expected.isinf().all()
    actual = CASES[case](*(x.to("spyre") for x in given))
    assert torch.equal(actual.isinf().cpu(), expected.isinf())
    assert torch.equal(actual.cpu(), expected)


PRODUCTS = {
    "mm": lambda x: x @ x,
    "bmm": lambda x: x[None] @ x[None],
    "addmm": lambda x: torch.addmm(x, x, x),
    "linear": lambda x: torch.nn.functional.linear(x, x, x[0]),
    "baddbmm": lambda x: torch.baddbmm(x[None], x[None], x[None], beta=0.5),
    "conv": lambda x: torch.nn.functional.conv1d(x, x[:, :, None]),
    "vector": lambda x: torch.mv(x, x[0]),
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("case", PRODUCTS)
def test_a_product_that_overflows_is_infinite(case: str, dtype: torch.dtype) -> None:
    x = torch.full((8, 8), 6e4, dtype=dtype, device="spyre")
    assert (PRODUCTS[case](x) == INF).all()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("source", [torch.float32, torch.int64], ids=str)
def test_a_cast_beyond_the_range_is_infinite(source: torch.dtype, dtype: torch.dtype) -> None:
    values = torch.tensor([2**40, -(2**40), 2**33, 3, 0]).to(source)
    if source.is_floating_point:
        values[2] = torch.finfo(torch.float32).min
    x = values.to("spyre")
    signs = values.sign()
    expected = torch.tensor([INF, INF, INF, 3, 0]) * torch.where(signs == 0, 1, signs)
    for actual in (x.to(dtype), torch.zeros(5, dtype=dtype, device="spyre").copy_(x), x * one(x)):
        assert torch.equal(actual.to(dtype).cpu(), expected.to(dtype))


def one(x: torch.Tensor) -> torch.Tensor:
    """The factor 1, in the dtype of `x`."""
    return torch.ones_like(x)


def test_numbers_beyond_half_pass_through() -> None:
    """What SEN169 holds is not clamped: float16 values may leave half's range and come back."""
    x = torch.tensor(LARGE, device="spyre")
    there = x.half()
    torch.testing.assert_close((there / 2**20).cpu().float(), x.cpu() / 2**20, rtol=2**-10, atol=0)
    torch.testing.assert_close(x.bfloat16().cpu().float(), x.cpu(), rtol=2**-7, atol=0)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_nan_stays_nan(dtype: torch.dtype) -> None:
    x = torch.tensor([math.nan, -math.nan, 1.0], dtype=dtype, device="spyre")
    for y in (x + 1, x * 2, x.exp(), x / 3, x.float().to(dtype)):
        assert y.isnan().cpu().tolist() == [True, True, False]
        assert not y.isinf().any()
