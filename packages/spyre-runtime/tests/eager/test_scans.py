# SPDX-License-Identifier: Apache-2.0
"""Running sums and products, which take log2(n) stages of a program."""

import pytest
import torch
from compare import as_held, mismatch, to_device

INF = float("inf")


@pytest.mark.parametrize("length", [1, 2, 3, 64, 65, 1000])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.int64, torch.int32, torch.bool], ids=str
)
def test_running_sums(length: int, dtype: torch.dtype) -> None:
    values = as_held((torch.randn(3, length, 4) * 2).to(dtype))
    torch.spyre.reset_fallbacks()
    for view in (values, values.transpose(0, 2), values[:, ::2]):
        reference = view.float() if dtype is torch.float16 else view
        for dim in range(3):
            found = mismatch(
                to_device(view).cumsum(dim),
                reference.cumsum(dim),
                rtol=2.0**-9 if dtype is torch.float16 else 1e-5,
                atol=1e-6,
                half=True,
            )
            assert found is None, found
    assert torch.spyre.fallbacks() == {}


@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_running_products(length: int) -> None:
    integers = torch.randint(-9, 9, (3, length, 5))
    torch.spyre.reset_fallbacks()
    for values in (torch.rand(3, length, 5) + 0.5, integers, integers.int(), integers > 0):
        for dim in (0, 1, -1):
            expected = values.cumprod(dim)
            found = mismatch(values.to("spyre").cumprod(dim), expected, rtol=1e-4, atol=0)
            assert found is None, found
    assert torch.spyre.fallbacks() == {}


def test_dtypes_wrap_and_widen_as_on_the_cpu() -> None:
    narrow = torch.tensor([200, 100, 100], dtype=torch.uint8)
    halves = torch.tensor([0.1, 0.2, 300.7]).half()
    for run in (
        lambda d: narrow.to(d).cumsum(0),
        lambda d: narrow.to(d).cumsum_(0),
        lambda d: narrow.to(d).cumsum(0, dtype=torch.int8),
        lambda d: narrow.to(d).cumsum(0, dtype=torch.float32),
        lambda d: torch.cumsum(narrow.to(d), 0, out=torch.zeros(3, device=d)),
        lambda d: as_held(halves).to(d).cumsum(0, dtype=torch.float32),
        lambda d: torch.tensor(7, device=d).cumsum(0),
        lambda d: torch.zeros(0, 3, device=d).cumsum(1),
    ):
        assert mismatch(run("spyre"), run("cpu"), rtol=1e-6, atol=0) is None


def test_infinities_of_halves_cancel_to_nan() -> None:
    row = torch.tensor([1.0, INF, 2.0, -INF, 3.0]).half()
    expected = row.float().cumsum(0)
    assert mismatch(row.to("spyre").cumsum(0), expected, rtol=0, atol=0, half=True) is None


LARGE, TINY = 3e38, 1e-30
ROWS = [
    [LARGE, LARGE, -LARGE, -LARGE, 1.0],
    [1.0, 1e8, -1e8, 1.0, 2.0**-24],
    [LARGE, INF, LARGE, 1.0, 2.0],
    [INF, -INF, 1.0, 2.0, 3.0],
    [1.0, float("nan"), LARGE, LARGE, -LARGE],
    [-0.0, -0.0, 0.0, -LARGE, -LARGE],
    [1e-44, TINY, 1e-38, 1e-20, 1.0],
]
FACTORS = [
    [1e30, 1e30, TINY, TINY, -1.0],
    [TINY, TINY, 1e30, 1e30, 3.0],
    [1e-42, 2.0, 1e20, 1e22, 1e-10],
    [1e20, INF, TINY, 0.0, 1.0],
    [-0.0, 1e30, 1e30, TINY, -1.0],
    [1e-44, 1e-2, 1e2, 1e38, 1e6],
]


@pytest.mark.parametrize("repeat", [1, 9])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_float32_is_accumulated_beyond_float32(name: str, repeat: int) -> None:
    rows = torch.tensor(ROWS if name == "cumsum" else FACTORS)
    rows = torch.cat([rows, torch.ones(len(rows), 5 * (repeat - 1))], 1)
    for values, dim in ((rows, 1), (rows.t().contiguous(), 0)):
        expected = getattr(values, name)(dim)
        found = getattr(values.to("spyre"), name)(dim).cpu()
        assert torch.equal(found.isfinite(), expected.isfinite())
        torch.testing.assert_close(found, expected, rtol=2.0**-23, atol=2e-45, equal_nan=True)


def test_long_sums_are_as_exact_as_on_the_cpu() -> None:
    values = torch.randn(2, 3000) * 1000 + 1e6
    torch.testing.assert_close(
        values.to("spyre").cumsum(1).cpu(), values.cumsum(1), rtol=2.0**-23, atol=0
    )


def test_products_beyond_half_are_infinite() -> None:
    row = torch.tensor([60000.0, 60000.0, -60000.0, -60000.0, 2.0]).half()
    assert row.to("spyre").cumprod(0).cpu()[1:].tolist() == [INF, -INF, INF, INF]
