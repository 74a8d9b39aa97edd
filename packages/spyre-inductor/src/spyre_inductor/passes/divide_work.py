# SPDX-License-Identifier: Apache-2.0
"""Work division: how each stage's parallel loops are shared out over the cores.

Before: loops without parts. After: parallel loops are divided over at most SENCORES cores, outer
ones first. The loop that lanes run along (stride one in some store) is cut only at whole sticks. A
core addresses a span of 256 MB of a buffer: where a share would reach over more, loops are divided
first that make it shorter. Loops with symbolic extents are left to the linker, which knows the
numbers. Stages that scatter are not divided: two iterations may write to one place, and what is
there in the end, or the order of the sum, is that of the iterations; only the linker, which knows
every offset, may prove otherwise. Results never depend on the division.
"""

from __future__ import annotations

import math
from dataclasses import replace

from spyre_inductor.ir.kernel import Access, Kernel, Loop
from spyre_inductor.ir.program import Program
from spyre_inductor.passes.propagate_layouts import STICK_BYTES, element_bytes

SPAN_BYTES = 256 << 20  # of one buffer, that one core can address in a stage


def divide_work(program: Program, cores: int) -> None:
    """Sets `parts` of the loops of every kernel."""
    program.kernels = [_divide(kernel, program, cores) for kernel in program.kernels]


def _divide(kernel: Kernel, program: Program, cores: int) -> Kernel:
    if any(store.add or store.index is not None for store in kernel.stores):
        return replace(kernel, notes=(*kernel.notes, "scatters in order, on one core"))
    pieces = {loop.id: _pieces(kernel, program, loop) for loop in kernel.loops}
    parts, notes = _divide_spans(kernel, program, pieces, cores)
    left = cores // math.prod(parts.values())
    loops: list[Loop] = []
    for loop in kernel.loops:
        first = parts.get(loop.id, 1)
        more = _parts(pieces[loop.id] // first, left)
        left //= more
        loops.append(replace(loop, parts=0 if first * more == 1 else first * more))
    return replace(kernel, loops=loops, notes=(*kernel.notes, *notes))


def _pieces(kernel: Kernel, program: Program, loop: Loop) -> int:
    """Into how many shares a loop can be cut."""
    if loop.reduce or not isinstance(loop.extent, int):
        return 1
    return loop.extent // _grain(kernel, program, loop)


def _grain(kernel: Kernel, program: Program, loop: Loop) -> int:
    """Smallest piece of a loop that one core may take: a stick, if lanes run along it."""
    grain = 1
    for store in kernel.stores:
        if dict(store.access.strides).get(loop.id) == 1:
            grain = max(grain, STICK_BYTES // element_bytes(program.buffers[store.access.buffer]))
    return grain


def _parts(pieces: int, cores: int) -> int:
    """As many equal shares as there are cores for, even ones preferred over idle cores."""
    if pieces <= 1 or cores <= 1:
        return 1
    if pieces <= cores:
        return pieces
    for parts in range(cores, cores // 2, -1):
        if pieces % parts == 0:
            return parts
    return cores


# --- spans ----------------------------------------------------------------------------------------


def _divide_spans(
    kernel: Kernel, program: Program, pieces: dict[int, int], cores: int
) -> tuple[dict[int, int], list[str]]:
    """Parts that keep every core's span of every buffer short, and notes on what stays too long."""
    parts: dict[int, int] = {}
    notes: list[str] = []
    for access in dict.fromkeys(kernel.accesses()):
        layout = program.buffers[access.buffer].layout
        if layout is None or layout.device_nbytes <= SPAN_BYTES:
            continue
        while (span := _span(kernel, program, access, parts)) > SPAN_BYTES:
            taken = math.prod(parts.values())
            divisible = [
                (stride * _share(loop, parts), loop)
                for loop in kernel.loops
                for stride in (dict(access.strides).get(loop.id, 0),)
                if isinstance(stride, int)
                and stride
                and parts.get(loop.id, 1) < pieces[loop.id]
                and taken // parts.get(loop.id, 1) * (parts.get(loop.id, 1) + 1) <= cores
            ]
            if not divisible:
                notes.append(
                    f"a core reaches over {span >> 20} MB of {access.buffer}, "
                    f"more than the {SPAN_BYTES >> 20} MB it can address: the card needs "
                    f"several rounds"
                )
                break
            loop = max(divisible, key=lambda each: each[0])[1]
            parts[loop.id] = parts.get(loop.id, 1) + 1
    return parts, notes


def _share(loop: Loop, parts: dict[int, int]) -> int:
    """Iterations of a loop on one core."""
    assert isinstance(loop.extent, int)
    return -(-loop.extent // parts.get(loop.id, 1))


def _span(kernel: Kernel, program: Program, access: Access, parts: dict[int, int]) -> int:
    """Bytes of memory from the first to the last element that one core touches, 0 if unknown."""
    buffer = program.buffers[access.buffer]
    strides = dict(access.strides)
    reach = 0
    for loop in kernel.loops:
        stride = strides.get(loop.id, 0)
        if not isinstance(loop.extent, int) or not isinstance(stride, int):
            return 0
        reach += abs(stride) * max(_share(loop, parts) - 1, 0)
    assert buffer.layout is not None
    last = min(reach, math.prod(n for n in buffer.size if isinstance(n, int)) - 1)
    return (buffer.layout.device_offset(last) + 1) * element_bytes(buffer)
