# SPDX-License-Identifier: Apache-2.0
"""Layouts, division and scratchpad planning of hand-made programs, and what a stage costs."""

from __future__ import annotations

import math

import pytest
import torch
from spyre_inductor import estimate as costs
from spyre_inductor.codegen.text import print_program
from spyre_inductor.ir.kernel import Builder, Kernel, Loop, Store, make_access
from spyre_inductor.ir.program import LX, TEMP, Buffer, Program
from spyre_inductor.passes.divide_work import SPAN_BYTES, _span, divide_work
from spyre_inductor.passes.plan_lx import plan_lx
from spyre_inductor.passes.propagate_layouts import propagate_layouts
from spyre_runtime import Program as Loaded

HALF = torch.float16


def strides_of(sizes):
    return [math.prod(sizes[n + 1 :]) for n in range(len(sizes))]


def buffer(name, sizes, strides=None, dtype=HALF, kind="arg"):
    strides = strides_of(sizes) if strides is None else strides
    return Buffer(name, dtype, list(sizes), list(strides), kind)


def copy(source, target, extents, source_strides, target_strides, builder=None):
    builder = builder or Builder()
    loops = [Loop(extent) for extent in extents]
    ids = [loop.id for loop in loops]
    load = make_access(source.name, dict(zip(ids, source_strides, strict=True)), 0)
    store = make_access(target.name, dict(zip(ids, target_strides, strict=True)), 0)
    value = builder.make("load", (None, None), "F", source.dtype, load)
    return Kernel(loops, [Store(store, value)], builder, f"copy_{source.name}")


def program(buffers, kernels):
    made = Program("p", kernels, {each.name: each for each in buffers})
    propagate_layouts(made)
    return made


@pytest.mark.parametrize(
    ("sizes", "strides", "device_size"),
    [
        ([4, 128], None, [4, 2, 64]),
        ([4, 60], [1, 4], [60, 1, 64]),
        ([2, 1, 3, 4], [12, 7, 1, 3], [2, 4, 1, 64]),
        ([4, 60], [100, 1], [6, 64]),  # a part of something wider: 360 elements in a row
        ([3, 5], [0, 1], [1, 64]),
        ([], [], [1, 64]),
    ],
)
def test_layouts_are_those_of_tensors(sizes, strides, device_size):
    one = buffer("x", sizes, strides)
    out = buffer("y", [1])
    made = program([one, out], [copy(one, out, [1], [1], [1])])
    assert made.buffers["x"].layout.device_size == device_size


def test_layouts_of_symbolic_sizes_are_left_open():
    import sympy

    size = sympy.Symbol("s0", integer=True, positive=True)
    one, out = buffer("x", [size, 4], [4, 1]), buffer("y", [1])
    made = program([one, out], [copy(one, out, [1], [1], [1])])
    assert made.buffers["x"].layout is None
    assert costs.estimate(made.kernels[0], made) is None


@pytest.mark.parametrize("cores", [1, 4, 32])
def test_spans_stay_within_what_a_core_addresses(cores):
    """A transposed copy of 1 GB, whose outer loop is too short to divide."""
    x, y = buffer("x", [2, 1 << 14, 1 << 14]), buffer("y", [2, 1 << 14, 1 << 14])
    extents = [2, 1 << 14, 1 << 14]
    flipped = [1 << 28, 1, 1 << 14]  # lanes of the store run along the loop that jumps in x
    made = program([x, y], [copy(x, y, extents, flipped, strides_of(extents))])
    divide_work(made, cores)
    (kernel,) = made.kernels
    parts = {loop.id: max(loop.parts, 1) for loop in kernel.loops}
    assert math.prod(parts.values()) <= cores
    spans = [_span(kernel, made, access, parts) for access in kernel.accesses()]
    if cores == 32:
        assert max(spans) <= SPAN_BYTES
        assert not kernel.notes
    if cores == 1:
        assert any("1024 MB" in note for note in kernel.notes)


def test_small_buffers_are_divided_outermost_first():
    x, y = buffer("x", [8, 256]), buffer("y", [8, 256])
    made = program([x, y], [copy(x, y, [8, 256], [256, 1], [256, 1])])
    divide_work(made, 32)
    assert [loop.parts for loop in made.kernels[0].loops] == [8, 4]  # 4 sticks a row
    divide_work(made, 2)
    assert [loop.parts for loop in made.kernels[0].loops] == [2, 0]


def chain(first, second, sizes):
    """Two copies through a temporary, over loops of these extents with these parts."""
    x, t, y = buffer("x", sizes), buffer("t", sizes, kind=TEMP), buffer("y", sizes)
    kernels = []
    for (source, target), loops in (((x, t), first), ((t, y), second)):
        extents = [extent for extent, _ in loops]
        walk = strides_of(extents)
        kernel = copy(source, target, extents, walk, walk)
        for loop, (_, parts) in zip(kernel.loops, loops, strict=True):
            object.__setattr__(loop, "parts", parts)
        kernels.append(kernel)
    return program([x, t, y], kernels)


@pytest.mark.parametrize(
    ("first", "second", "stays"),
    [
        ([(4, 4), (64, 8), (64, 0)], [(4, 4), (64, 8), (64, 0)], True),
        ([(4, 4), (64, 8), (64, 0)], [(256, 32), (64, 0)], True),  # the same rows on each core
        ([(4, 4), (64, 8), (64, 0)], [(4, 2), (64, 8), (64, 0)], False),
        ([(4, 2), (64, 8), (64, 0)], [(256, 16), (64, 0)], False),  # others
        ([(4, 4), (64, 7), (64, 0)], [(256, 28), (64, 0)], False),  # uneven shares
        ([(4, 0), (64, 0), (64, 0)], [(4, 0), (64, 0), (64, 0)], False),
    ],
)
def test_scratchpads_hold_what_cores_make_and_use(first, second, stays):
    made = chain(first, second, [4, 64, 64])
    plan_lx(made, 1 << 20)
    assert (made.buffers["t"].kind == LX) == stays
    assert made.buffers["t"].why
    x = torch.arange(4 * 64 * 64.0).half().to("spyre") % 31
    y = torch.zeros_like(x)
    Loaded(print_program(made).text).launch([x, y], [])
    assert torch.equal(x.cpu(), y.cpu())


def test_the_largest_share_must_fit():
    shares = [(4, 4), (64, 3), (64, 0)]  # 22 of 64 rows on one core
    made = chain(shares, shares, [4, 64, 64])
    plan_lx(made, 22 * 128 - 1)
    assert made.buffers["t"].kind == TEMP
    made = chain(shares, shares, [4, 64, 64])
    plan_lx(made, 22 * 128)
    assert made.buffers["t"].kind == LX
    assert "2816 bytes on each of 12 cores" in made.buffers["t"].why


def test_costs_count_whole_sticks():
    x, y = buffer("x", [8, 60]), buffer("y", [8, 60])
    made = program([x, y], [copy(x, y, [8, 60], [60, 1], [60, 1])])
    cost = costs.estimate(made.kernels[0], made)
    assert (cost.read, cost.written, cost.flops) == (8 * 128, 8 * 128, 0)
    assert cost.bound() == "memory"
    assert cost.seconds() == pytest.approx(2048 / 200e9)


def test_costs_tell_of_elements_that_fetch_sticks_of_their_own():
    x, y = buffer("x", [4096, 640]), buffer("y", [4096])
    made = program([x, y], [copy(x, y, [4096], [640], [1])])
    cost = costs.estimate(made.kernels[0], made)
    assert cost.read == 4096 * 128
    assert cost.scattered == ["x"]


def test_costs_of_a_compiled_product():
    import spyre_inductor

    x, w = (torch.randn(s).half().to("spyre") for s in ((256, 512), (512, 128)))
    report = spyre_inductor.explain(lambda x, w: torch.relu(x @ w), x, w)
    ((_, cost),) = report.costs()
    assert cost.flops == 2 * 256 * 512 * 128
    assert cost.read == (256 * 512 + 512 * 128) * 2
    assert cost.written == 256 * 128 * 2
    assert cost.lane_operations == 256 * 128
    assert "reads 393.2 kB, writes 65.5 kB" in report.text()
    assert "200 GB/s of device memory" in report.text()
    assert "200 GB/s of device memory" in report.html()
    assert "about 2.3 us on a card, held up by its memory" in report.text()
    report.card = costs.Card(memory=100e9)
    assert "100 GB/s of device memory" in report.text()
    assert "about 4.6 us on a card, held up by its memory" in report.text()
