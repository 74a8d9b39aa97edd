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
