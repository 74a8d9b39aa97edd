# SPDX-License-Identifier: Apache-2.0
"""What a stage moves and computes, and about how long a card would take: a roofline, for reports.

A stage takes as long as the slowest of three things that go on together: device memory, matrix
units, vector units. `CARD` has the figures, none of them measured; who knows better sets a
report's `card`. Nothing else is counted: no launches, no barriers, no misses of the double
buffering. So it is a floor to compare programs by, not a prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from spyre_inductor.codegen.phases import plan_phases
from spyre_inductor.ir.kernel import Access, Kernel, Value
from spyre_inductor.ir.program import LX, Program
from spyre_inductor.passes.propagate_layouts import STICK_BYTES, element_bytes


@dataclass(frozen=True)
class Card:
    """Figures of a Spyre card. The defaults are assumptions: nobody has measured them here.

    Attributes:
        memory: bytes of device memory a second.
        matrix: float16 operations of the matrix units a second, a multiply-add being two.
        lanes: vector operations of one core a second.
    """

    cores: int = 32
    memory: float = 200e9
    matrix: float = 150e12
    lanes: float = 64e9

    def assumptions(self) -> list[str]:
        """Say what an estimate rests on."""
        return [
            f"{self.memory / 1e9:g} GB/s of device memory",
            f"{self.matrix / 1e12:g} TFLOPS of float16 in the matrix units of {self.cores} cores",
            f"{self.lanes / 1e9:g} G vector operations a second and core",
            "scratchpads cost no time, and an operand that cores share is fetched once",
            "set the report's `card` to a spyre_inductor.estimate.Card of other figures",
        ]


CARD = Card()


@dataclass
class Cost:
    """Of one stage; bytes are whole sticks.

    Attributes:
        read: bytes from device memory.
        written: bytes to device memory.
        lx: bytes to and from scratchpads.
        flops: of the matrix units.
        lane_operations: of the vector units.
        cores: that work on it.
        scattered: accesses of which each element costs a stick.
    """

    read: int = 0
    written: int = 0
    lx: int = 0
    flops: int = 0
    lane_operations: int = 0
    cores: int = 1
    scattered: list[str] = field(default_factory=list)

    def parts(self, card: Card = CARD) -> dict[str, float]:
        """Seconds of each thing that may be the slowest."""
        return {
            "memory": (self.read + self.written) / card.memory,
            "matrix units": self.flops / (card.matrix / card.cores * self.cores),
            "vector units": self.lane_operations / (card.lanes * self.cores),
        }

    def seconds(self, card: Card = CARD) -> float:
        """Seconds of the slowest."""
        return max(self.parts(card).values())

    def bound(self, card: Card = CARD) -> str:
        """Name of the slowest."""
        parts = self.parts(card)
        return max(parts, key=lambda name: parts[name])


def estimate(kernel: Kernel, program: Program) -> Cost | None:
    """The cost of a stage, or None if it depends on sizes that are not known yet."""
    if not all(isinstance(loop.extent, int) for loop in kernel.loops):
        return None
    if any(program.buffers[access.buffer].layout is None for access in kernel.accesses()):
        return None
    cost = Cost(cores=math.prod(max(loop.parts, 1) for loop in kernel.loops))
    for phase in plan_phases(kernel):
        loops = {loop.id: loop for loop in kernel.loops if phase.reduce or not loop.reduce}
        iterations = math.prod(int(loop.extent) for loop in loops.values())
        accesses = [(v.attr, v.args[0]) for v in phase.values if v.op == "load"]
        for access, index in dict.fromkeys(accesses):
            _count(cost, kernel, program, access, index, loops, is_write=False)
        for store in phase.stores:
            _count(cost, kernel, program, store.access, store.index, loops, is_write=True)
            if store.add:  # what is there is read first
                _count(cost, kernel, program, store.access, store.index, loops, is_write=False)
        for value in phase.values:
            if value.op == "dot":
                cost.flops += 2 * iterations
            elif value.op not in ("load", "const_f", "const_i", "iota"):
                cost.lane_operations += iterations
    return cost


def _count(
    cost: Cost,
    kernel: Kernel,
    program: Program,
    access: Access,
    index: Value | None,
    loops: Iterable[int],
    is_write: bool,
) -> None:
    buffer = program.buffers[access.buffer]
    assert buffer.layout is not None
    moving = set(access.loops)
    pending = [index] if index is not None else []
    while pending:
        value = pending.pop()
        moving |= value.direct_loops()
        pending += [arg for arg in value.args if arg is not None]
    strides = dict(access.strides)
    elements, run = 1, 1
    for loop in kernel.loops:
        if loop.id in moving and loop.id in loops:
            elements *= int(loop.extent)
            if strides.get(loop.id) == 1:
                run = max(run, int(loop.extent))
    if elements == 0:
        return
    size = element_bytes(buffer)
    if run == 1 and elements > 1:
        cost.scattered.append(access.buffer)
    sticks = elements // run * -(-run * size // STICK_BYTES)
    # neighbours in memory share sticks, so an access never takes more than all of the buffer
    moved = (
        min(sticks * STICK_BYTES, buffer.layout.device_nbytes)
        if index is None
        else (sticks * STICK_BYTES)
    )
    if buffer.kind == LX:
        cost.lx += moved
    elif is_write:
        cost.written += moved
    else:
        cost.read += moved


def show_bytes(count: int) -> str:
    """A size for people."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def show_seconds(seconds: float) -> str:
    """A time for people."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.1f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"
