# SPDX-License-Identifier: Apache-2.0
"""Runs of steps that the VM fuses give the bits that each op gives alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import pointwise, run, stage

FUSED_UNARY = ["neg", "abs", "exp", "tanh", "relu", "gelu", "silu", "inf_from_sen169"]
FUSED_BINARY = ["add", "sub", "mul", "div", "maximum"]
OTHER_UNARY = ["floor", "log1p"]  # these end a run
ROWS = [1, 2, 5, 33, 70]
COLS = [1, 7, 31, 32, 33, 64, 65, 129, 300]


def inputs(rows: int, cols: int, seed: int) -> list[torch.Tensor]:
    """Blocks of two formats, one number for each row, one for each column."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    values = [draw(rows, cols), draw(rows, cols).half(), draw(rows, 1), draw(cols).half()]
    return [v.to("spyre") for v in values]


@dataclass
class Trace:
    """Instructions of a stage, and the value of each register, computed op by op."""

    sources: list[torch.Tensor]
    shape: tuple[int, int]
    lines: list[str] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # registers that hold numbers
    outputs: list[tuple[int, torch.dtype]] = field(default_factory=list)  # register, stored as

    def load(self, source: int) -> int:
        wide = self.sources[source].cpu().float().expand(self.shape).contiguous()
        return self._add(f"load a{source}", wide)

    def op(self, name: str, *args: int) -> int:
        out = torch.empty(self.shape, device="spyre")
        value = pointwise(name, [self.values[a].to("spyre") for a in args], out)
        return self._add(name + "".join(f" %{a}" for a in args), value)

    def lesser(self, left: int, right: int) -> int:
        """By a comparison, whose result is held, and a choice, which is not fused."""
        a, b = self.values[left], self.values[right]
        less = self._add(f"lt %{left} %{right}", a)
        self.numbers.pop()
        return self._add(f"where %{less} %{left} %{right}", torch.where(a < b, a, b))

    def maximum_of_rows(self, register: int) -> int:
        value = self.values[register].amax(-1, keepdim=True).expand(self.shape).contiguous()
        return self._add(f"reduce_max %{register}", value)

    def store(self, register: int, dtype: torch.dtype) -> None:
        stored = register
        if dtype == torch.float16:  # an infinity, which is an infinity again when read
            stored = self._add(f"inf_to_sen169 %{register}", self.values[register])
            self.numbers.pop()
        self.lines.append(f"store a{len(self.sources) + len(self.outputs)} %{stored}")
        self.outputs.append((register, dtype))

    def _add(self, text: str, value: torch.Tensor) -> int:
        self.lines.append(f"%{len(self.values)} = {text}")
        self.values.append(value)
        self.numbers.append(len(self.values) - 1)
        return self.numbers[-1]

    def check(self, reduce: int = 0) -> None:
        outputs = [torch.empty(self.shape, dtype=d, device="spyre") for _, d in self.outputs]
        tensors = [*self.sources, *outputs]
        accesses = []
        for i, t in enumerate(tensors):
            wide = t.expand(self.shape) if i < len(self.sources) else t
            accesses.append((i, wide.stride(), 0))
        run(stage(tensors, self.shape, accesses, "\n".join(self.lines), reduce), tensors)
        for (register, dtype), got in zip(self.outputs, outputs, strict=True):
            want = self.values[register].to("spyre").to(dtype).cpu()
            torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)


def draw_ops(data: st.DataObject, trace: Trace, count: int, stores: bool) -> None:
    """Adds instructions that mostly go on with what was computed last."""
    for _ in range(count):
        last = trace.numbers[-1]
        some = data.draw(st.one_of(st.just(last), st.sampled_from(trace.numbers)))
        kind = data.draw(
            st.sampled_from(["load", "unary", "binary", "other", "lesser"] + ["store"] * stores)
        )
        if kind == "load":
            trace.load(data.draw(st.integers(0, len(trace.sources) - 1)))
        elif kind == "unary":
            trace.op(data.draw(st.sampled_from(FUSED_UNARY)), some)
        elif kind == "binary":
            pair = [last, some] if data.draw(st.booleans()) else [some, last]
            trace.op(data.draw(st.sampled_from(FUSED_BINARY)), *pair)
        elif kind == "lesser":
            trace.lesser(last, some)
        elif kind == "other":
            trace.op(data.draw(st.sampled_from(OTHER_UNARY)), some)
        else:
            trace.store(some, data.draw(st.sampled_from([torch.float32, torch.float16])))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), rows=st.sampled_from(ROWS), cols=st.sampled_from(COLS))
def test_any_run_of_ops(data: st.DataObject, rows: int, cols: int) -> None:
    trace = Trace(inputs(rows, cols, 0), (rows, cols), ["phase"])
    trace.load(data.draw(st.integers(0, 3)))
    draw_ops(data, trace, data.draw(st.integers(1, 12)), stores=True)
    trace.store(trace.numbers[-1], torch.float32)
    trace.check()


@settings(max_examples=30, deadline=None)
@given(data=st.data(), rows=st.sampled_from(ROWS), cols=st.sampled_from(COLS))
def test_around_a_reduction(data: st.DataObject, rows: int, cols: int) -> None:
    trace = Trace(inputs(rows, cols, 1), (rows, cols), ["phase reduce"])
    trace.load(data.draw(st.integers(0, 3)))
    draw_ops(data, trace, data.draw(st.integers(0, 5)), stores=False)
    block = trace.op("mul", trace.numbers[-1], trace.load(0))
    highest = trace.maximum_of_rows(block)
    trace.lines.append("phase reduce")
    trace.numbers = [highest]  # the others end with their phase
    again = trace.load(data.draw(st.integers(0, 3)))
    trace.op("sub", again, highest)
    draw_ops(data, trace, data.draw(st.integers(0, 5)), stores=False)
    trace.store(trace.numbers[-1], torch.float16)
    trace.check(reduce=1)


def test_a_run_longer_than_a_step_takes() -> None:
    trace = Trace(inputs(3, 70, 2), (3, 70), ["phase"])
    register = trace.load(1)
    held = []
    for _ in range(20):
        register = trace.op("add", register, trace.load(3))
        register = trace.op("tanh", register)
        held.append(register)
    for one in held:
        register = trace.op("sub", register, one)
    trace.store(register, torch.float32)
    trace.check()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("shape", [(3, 40, 64), (70, 200, 100), (130, 300, 130)])
def test_epilogue_reads_sums_in_place(bias: bool, twice: bool, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    generator = torch.Generator().manual_seed(3)
    a, b = (torch.randn(s, generator=generator).half().to("spyre") for s in [(m, k), (k, n)])
    c, out = torch.randn(n, generator=generator).to("spyre"), torch.empty(m, n, device="spyre")
    plain, tensors = torch.empty(m, n, device="spyre"), [a, b, c, out]
    dot = "phase reduce\n%0 = load a0\n%1 = load a1\n%2 = dot %0 %1\nphase\n"
    accesses = [(0, (k, 0, 1), 0), (1, (0, 1, n), 0), (2, (0, 1, 0), 0), (3, (n, 1, 0), 0)]
    body = dot + "%3 = load a2\n%4 = add %2 %3\n" if bias else dot + "%4 = neg %2\n"
    body += "%5 = tanh %4\n" + ("%6 = mul %5 %2\n" if twice else "%6 = abs %5\n") + "store a3 %6"
    run(stage(tensors, [m, n, k], accesses, body, reduce=1), tensors)
    run(
        stage([a, b, plain], [m, n, k], [*accesses[:2], (2, (n, 1, 0), 0)], dot + "store a2 %2", 1),
        [a, b, plain],
    )
    sums = plain.cpu()
    first = sums + c.cpu() if bias else -sums
    second = pointwise("tanh", [first.to("spyre")], torch.empty(m, n, device="spyre"))
    want = second * sums if twice else second.abs()
    torch.testing.assert_close(out.cpu(), want, rtol=0, atol=0)
