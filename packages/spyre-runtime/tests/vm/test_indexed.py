# SPDX-License-Identifier: Apache-2.0
"""Gathers, scatters, predicates and index checks."""

from __future__ import annotations

import pytest
import torch
from programs import run, stage


def device(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.to("spyre") for t in tensors]


@pytest.mark.parametrize("size", [(10, 64), (10, 100), (30, 1), (200, 384)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
def test_embedding(size: tuple[int, int], dtype: torch.dtype) -> None:
    rows, width = size
    table = torch.arange(rows * width).remainder(97).to(dtype).reshape(size)
    index = torch.randint(-rows, rows, (37,), generator=torch.Generator().manual_seed(0))
    out = torch.empty(37, width, dtype=dtype, device="spyre")
    tensors = [*device(table, index), out]
    body = f"""phase
    %0 = load a1
    %1 = index_check %0 {rows} wrap
    %2 = const_i {width}
    %3 = mul_i %1 %2
    %4 = load a0 [%3]
    store a2 %4"""
    accesses = [(0, [0, 1], 0), (1, [1, 0], 0), (2, [width, 1], 0)]
    run(stage(tensors, [37, width], accesses, body), tensors)
    assert torch.equal(out.cpu(), table[index])


@pytest.mark.parametrize("size", [(10, 100, 30), (3, 64, 70)])
def test_gather_along_lanes(size: tuple[int, int, int]) -> None:
    rows, width, count = size
    source = torch.randn(rows, width).half()
    index = torch.randint(0, width, (rows, count))
    out = torch.empty(rows, count, dtype=torch.float16, device="spyre")
    tensors = [*device(source, index), out]
    accesses = [(0, [width, 0], 0), (1, [count, 1], 0), (2, [count, 1], 0)]
    run(
        stage(
            tensors, [rows, count], accesses, "phase\n%0 = load a1\n%1 = load a0 [%0]\nstore a2 %1"
        ),
        tensors,
    )
    assert torch.equal(out.cpu(), source.to("spyre").cpu().gather(1, index))


@pytest.mark.parametrize("size", [(5, 100, 3, 4), (1, 64, 0, 7), (70, 3, 1, 1)])
def test_a_predicate_keeps_loads_inside(size: tuple[int, int, int, int]) -> None:
    rows, width, left, right = size
    source = torch.randn(rows, width)
    total = width + left + right
    out = torch.ones(rows, total, device="spyre")
    tensors = [*device(source), out]
    body = f"""phase
    %0 = iota 1
    %1 = const_i {left}
    %2 = const_i {left + width}
    %3 = ge_i %0 %1
    %4 = lt_i %0 %2
    %5 = and_b %3 %4
    %6 = load a0 if %5
    store a1 %6"""
    run(stage(tensors, [rows, total], [(0, [width, 1], -left), (1, [total, 1], 0)], body), tensors)
    assert torch.equal(out.cpu(), torch.nn.functional.pad(source, (left, right)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("add", [False, True])
def test_scatter_keeps_the_order_of_iterations(dtype: torch.dtype, add: bool) -> None:
    index = torch.randint(0, 100, (3000,), generator=torch.Generator().manual_seed(0))
    source = torch.randint(-9, 9, (3000,), generator=torch.Generator().manual_seed(1)).to(dtype)
    out = torch.zeros(100, dtype=dtype, device="spyre")
    tensors = [*device(source, index), out]
    op = "store_add" if add else "store"
    body = f"phase\n%0 = load a0\n%1 = load a1\n{op} a2 [%1] %0"
    run(stage(tensors, [3000], [(0, [1], 0), (1, [1], 0), (2, [0], 0)], body), tensors)
    want = torch.zeros(100, dtype=dtype)
    for i, v in zip(index.tolist(), source.tolist(), strict=True):
        want[i] = want[i] + v if add else v
    assert torch.equal(out.cpu(), want)


def test_an_index_out_of_range_is_an_index_error_and_the_device_lives_on() -> None:
    source, out = torch.zeros(4, device="spyre"), torch.zeros(4, device="spyre")
    index = torch.tensor([0, 1, 9, 2], device="spyre")
    tensors = [source, index, out]
    accesses = [(0, [0], 0), (1, [1], 0), (2, [1], 0)]
    for check in ("%1 = index_check %0 4", "%2 = const_i 1\n%1 = mul_i %0 %2"):
        text = stage(
            tensors, [4], accesses, f"phase\n%0 = load a1\n{check}\n%3 = load a0 [%1]\nstore a2 %3"
        )
        with pytest.raises(IndexError, match="index 9 is out of range for a size of 4"):
            run(text, tensors)
    assert (source + 1).cpu().tolist() == [1.0] * 4
