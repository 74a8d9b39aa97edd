# SPDX-License-Identifier: Apache-2.0
"""Placement of buffers that live inside one program.

Before: every store writes a buffer allocated by the host. After: stores of removable buffers that
no kernel loads are gone, and with them kernels that store nothing; removable buffers that are still
loaded are temporaries of the program, to which the linker gives memory by their lives.
"""

from __future__ import annotations

from dataclasses import replace

from spyre_inductor.ir.kernel import Kernel
from spyre_inductor.ir.program import TEMP, Program


def place_buffers(program: Program) -> None:
    """Removes dead stores and turns what stays inside into temporaries."""
    _drop_dead_stores(program)
    for name in program.used():
        buffer = program.buffers[name]
        if buffer.removable:
            buffer.kind = TEMP
            buffer.why = "lives inside this program"


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
