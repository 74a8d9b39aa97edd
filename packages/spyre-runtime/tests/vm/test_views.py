# SPDX-License-Identifier: Apache-2.0
"""Copies and reductions over views of any shape and stride, against PyTorch on the CPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import run, stage

DTYPES = [torch.float16, torch.float32, torch.int64, torch.int8, torch.uint8, torch.bool]
SIZES = st.sampled_from([1, 2, 3, 5, 8, 33, 64, 65, 100])


def values(size: list[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(size, generator=generator) < 0.5
    if dtype.is_floating_point:
        return (torch.randint(-64, 64, size, generator=generator) / 8).to(dtype)
    return torch.randint(0, 50, size, generator=generator).to(dtype)


@st.composite
def views(draw: st.DrawFn, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor and a view of it, both on the CPU."""
    size = draw(st.lists(SIZES, max_size=4))
    while len(size) > 0 and torch.Size(size).numel() > 20000:
        size = size[1:]
    base = values(size, dtype, draw(st.integers(0, 1000)))
    view = base
    for step in draw(
        st.lists(
            st.sampled_from(["permute", "slice", "step", "select", "expand", "split"]), max_size=4
        )
    ):
        if view.dim() == 0:
            break
        dim = draw(st.integers(0, view.dim() - 1))
        extent = view.size(dim)
        if step == "permute":
            view = view.permute(draw(st.permutations(range(view.dim()))))
        elif step == "slice":
            start = draw(st.integers(0, extent - 1))
            view = view.narrow(dim, start, draw(st.integers(1, extent - start)))
        elif step == "step":
            view = view[(slice(None),) * dim + (slice(None, None, draw(st.integers(1, 3))),)]
        elif step == "select":
            view = view.select(dim, draw(st.integers(0, extent - 1)))
        elif step == "expand" and view.numel() < 5000:
            view = view.expand(draw(st.integers(1, 3)), *view.shape)
        elif step == "split":
            factors = [f for f in range(1, extent + 1) if extent % f == 0]
            factor = draw(st.sampled_from(factors))
            view = view.unflatten(dim, (factor, extent // factor))
    return base, view


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_copy_of_a_view(dtype: torch.dtype, data: st.DataObject) -> None:
    base, view = data.draw(views(dtype))
    order = data.draw(st.permutations(range(view.dim())))
    dense = torch.empty([view.size(d) for d in order], dtype=dtype, device="spyre")
    out = dense.permute([order.index(d) for d in range(view.dim())]) if view.dim() else dense
    tensors = [base.to("spyre"), out]
    accesses = [(0, view.stride(), view.storage_offset()), (1, out.stride(), 0)]
    run(stage(tensors, view.shape, accesses, "phase\n%0 = load a0\nstore a1 %0"), tensors)
    assert torch.equal(out.cpu(), view)


REDUCTIONS = {
    "reduce_sum": (torch.float32, lambda v: v.sum(-1)),
    "reduce_max": (torch.float16, lambda v: v.amax(-1)),
    "reduce_min": (torch.float32, lambda v: v.amin(-1)),
    "reduce_sum_i": (torch.int64, lambda v: v.sum(-1)),
    "reduce_max_i": (torch.int8, lambda v: v.amax(-1)),
    "reduce_any": (torch.bool, lambda v: v.any(-1)),
    "reduce_all": (torch.bool, lambda v: v.all(-1)),
}


def reduce_program(
    op: str, view: torch.Tensor, base: torch.Tensor, out: torch.Tensor, count: int
) -> str:
    accesses = [(0, view.stride(), view.storage_offset()), (1, [*out.stride(), *[0] * count], 0)]
    body = f"phase reduce\n%0 = load a0\n%1 = {op} %0\nphase\nstore a1 %1"
    return stage([base, out], view.shape, accesses, body, reduce=count)


@pytest.mark.parametrize("op", REDUCTIONS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_reduction_of_a_view(op: str, data: st.DataObject) -> None:
    dtype, reference = REDUCTIONS[op]
    base, view = data.draw(views(dtype))
    count = data.draw(st.integers(0, view.dim()))
    kept = view.shape[: view.dim() - count]
    out = torch.empty(kept, dtype=dtype, device="spyre")
    on_device = base.to("spyre")
    run(reduce_program(op, view, on_device, out, count), [on_device, out])
    torch.testing.assert_close(
        out.cpu(), reference(view.reshape([*kept, -1])).to(dtype), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("size", [(1,), (7, 100), (64, 3), (3, 5000), (2, 70000)])
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_arg_reduction_takes_the_first_and_nan_wins(
    size: tuple[int, ...], dim: int, op: str
) -> None:
    base = values(list(size), torch.float32, 1)
    if base.numel() > 50:
        base.flatten()[::37] = torch.nan
    view = base.movedim(dim, -1)
    out = torch.empty(view.shape[:-1], dtype=torch.int64, device="spyre")
    on_device = base.to("spyre")
    run(reduce_program(f"reduce_{op}", view, on_device, out, 1), [on_device, out])
    flat = view.reshape(-1, view.shape[-1])
    for row, got in zip(flat, out.cpu().flatten().tolist(), strict=True):
        nans = row.isnan().nonzero()
        best = row.max() if op == "argmax" else row.min()
        want = nans[0] if len(nans) else (row == best).nonzero()[0]
        assert got == want


def test_long_sums_stay_accurate() -> None:
    base = torch.rand(3_000_000, generator=torch.Generator().manual_seed(0))
    for view, count in [(base, 1), (base.reshape(-1, 8).t(), 1)]:
        out = torch.empty(view.shape[: view.dim() - count], device="spyre")
        on_device = base.to("spyre")
        run(reduce_program("reduce_sum", view, on_device, out, count), [on_device, out])
        torch.testing.assert_close(out.cpu(), view.double().sum(-1).float(), rtol=1e-6, atol=0)


def test_an_empty_reduction_gives_the_identity() -> None:
    base = torch.empty(0, device="spyre")
    for op, want in [("reduce_sum", 0.0), ("reduce_prod", 1.0), ("reduce_max", float("-inf"))]:
        out = torch.full((3,), 7.0, device="spyre")
        accesses = [(0, [0, 1], 0), (1, [1, 0], 0)]
        body = f"phase reduce\n%0 = load a0\n%1 = {op} %0\nphase\nstore a1 %1"
        run(stage([base, out], [3, 0], accesses, body, reduce=1), [base, out])
        assert out.cpu().tolist() == [want] * 3
