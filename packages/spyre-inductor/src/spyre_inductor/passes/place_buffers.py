# SPDX-License-Identifier: Apache-2.0
"""Placement of buffers that live inside one program.

Before: every store writes a buffer allocated by the host. After: stores of removable buffers that
no kernel loads are gone, and with them kernels that store nothing; removable buffers that are still
loaded are temporaries of the program, to which the linker gives memory by their lives. Their shape
is that of their memory: where the innermost rows are not whole sticks but several side by side are
(heads of 32 channels, say), these are one row, and no stick is padded.
"""

from __future__ import annotations

from dataclasses import replace

from spyre_inductor.ir.kernel import Kernel
from spyre_inductor.ir.program import TEMP, Buffer, Program
from spyre_inductor.passes.propagate_layouts import STICK_BYTES, element_bytes


def place_buffers(program: Program) -> None:
    """Removes dead stores and turns what stays inside into temporaries."""
    _drop_dead_stores(program)
    for name in program.used():
        buffer = program.buffers[name]
        if buffer.removable:
            buffer.kind = TEMP
            buffer.why = "lives inside this program"
            _join_rows(buffer, STICK_BYTES // element_bytes(buffer))


def _join_rows(buffer: Buffer, stick: int) -> None:
    if not all(isinstance(stride, int) for stride in buffer.stride):
        return
    dims = sorted(zip(buffer.size, buffer.stride, strict=True), key=lambda dim: -int(dim[1]))
    while len(dims) > 1 and isinstance(dims[-1][0], int) and dims[-1][0] % stick:
        (outer, step), (inner, one) = dims[-2:]
        if not isinstance(outer, int) or step != inner or one != 1:
            return
        dims[-2:] = [(outer * inner, 1)]
    if dims and isinstance(dims[-1][0], int) and dims[-1][0] % stick == 0:
        buffer.size, buffer.stride = ([*each] for each in zip(*dims, strict=True))


def _drop_dead_stores(program: Program) -> None:
    while True:
        loaded = {name for kernel in program.kernels for name in kernel.reads()}
        kernels: list[Kernel] = []
        changed = False
        for kernel in program.kernels:
            stores = [
                store
                for store in kernel.stores
                if store.access.buffer in loaded
                or not program.buffers[store.access.buffer].removable
            ]
            changed = changed or len(stores) != len(kernel.stores)
            if stores or kernel.checks:
                kernels.append(
                    kernel if len(stores) == len(kernel.stores) else replace(kernel, stores=stores)
                )
        program.kernels = kernels
        if not changed:
            return
