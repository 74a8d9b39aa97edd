# SPDX-License-Identifier: Apache-2.0
"""Work division: how each stage's parallel loops are shared out over the cores.

Before: loops without parts. After: outer parallel loops are divided over at most SENCORES cores.
The loop that lanes run along (stride one in some store) is cut only at whole sticks. Loops with
symbolic extents are left to the linker, which knows the numbers. Results never depend on the
division.
"""

from __future__ import annotations

from dataclasses import replace

from spyre_inductor.ir.kernel import Kernel, Loop
from spyre_inductor.ir.program import Program

STICK_BYTES = 128


def divide_work(program: Program, cores: int) -> None:
    """Sets `parts` of the loops of every kernel."""
    program.kernels = [_divide(kernel, program, cores) for kernel in program.kernels]


def _divide(kernel: Kernel, program: Program, cores: int) -> Kernel:
    if any(store.add or store.index is not None for store in kernel.stores):
        return kernel  # scatters run in order; the linker divides them if it can prove it harmless
    left = cores
    loops: list[Loop] = []
    for loop in kernel.loops:
        parts = 0
        if not loop.reduce and left > 1 and isinstance(loop.extent, int):
            parts = _parts(loop.extent // _grain(kernel, program, loop), left)
            left //= max(parts, 1)
            parts = 0 if parts == 1 else parts
        loops.append(replace(loop, parts=parts))
    return replace(kernel, loops=loops)


def _grain(kernel: Kernel, program: Program, loop: Loop) -> int:
    """Smallest piece of a loop that one core may take: a stick, if lanes run along it."""
    grain = 1
    for store in kernel.stores:
        if dict(store.access.strides).get(loop.id) == 1:
            grain = max(grain, STICK_BYTES // max(_device_bytes(program, store.access.buffer), 1))
    return grain


def _device_bytes(program: Program, name: str) -> int:
    """Bytes of an element on the device, where bool takes two and uint8 four."""
    dtype = program.buffers[name].dtype
    return {"torch.bool": 2, "torch.uint8": 4}.get(str(dtype), dtype.itemsize)


def _parts(pieces: int, cores: int) -> int:
    """As many equal shares as there are cores for, even ones preferred over idle cores."""
    if pieces <= 1:
        return 1
    if pieces <= cores:
        return pieces
    for parts in range(cores, cores // 2, -1):
        if pieces % parts == 0:
            return parts
    return cores
