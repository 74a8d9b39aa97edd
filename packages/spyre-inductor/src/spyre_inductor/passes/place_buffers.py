# SPDX-License-Identifier: Apache-2.0
"""Placement of buffers that live inside one program.

Before: every store writes a buffer allocated by the host.
After: stores of removable buffers that no kernel loads are gone, and with them kernels that store nothing;
removable buffers that are still loaded are temporaries of the program, and such temporaries whose lives
do not overlap share memory.
"""

from __future__ import annotations

from dataclasses import replace

from spyre_inductor.ir.kernel import Access, Kernel, Value
from spyre_inductor.ir.program import TEMP, Buffer, Program


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
                if store.access.buffer in loaded or not program.buffers[store.access.buffer].removable
            ]
            changed = changed or len(stores) != len(kernel.stores)
            if stores or kernel.checks:
                kernels.append(kernel if len(stores) == len(kernel.stores) else replace(kernel, stores=stores))
        program.kernels = kernels
        if not changed:
            return


def share_temporaries(program: Program) -> None:
    """Gives temporaries of equal shape and dtype with disjoint lives one buffer. Runs last."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, kernel in enumerate(program.kernels):
        for access in kernel.accesses():
            first.setdefault(access.buffer, place)
            last[access.buffer] = place
    free: dict[tuple[object, ...], list[tuple[int, str]]] = {}
    renamed: dict[str, str] = {}
    for name in sorted(first, key=lambda n: first[n]):
        buffer = program.buffers[name]
        if buffer.kind != TEMP:
            continue
        pool = free.setdefault(_shape_key(buffer), [])
        for n, (end, owner) in enumerate(pool):
            if end < first[name]:
                renamed[name] = owner
                pool[n] = (last[name], owner)
                break
        else:
            pool.append((last[name], name))
    if renamed:
        program.kernels = [_rename(kernel, renamed) for kernel in program.kernels]


def _shape_key(buffer: Buffer) -> tuple[object, ...]:
    return (buffer.dtype, tuple(map(str, buffer.size)), tuple(map(str, buffer.stride)))


def _rename(kernel: Kernel, names: dict[str, str]) -> Kernel:
    def access(a: Access) -> Access:
        return replace(a, buffer=names.get(a.buffer, a.buffer))

    def rewrite(value: Value, args: tuple[Value | None, ...]) -> Value:
        attr = access(value.attr) if value.op == "load" else value.attr
        return kernel.builder.make(value.op, args, value.type, value.dtype, attr)

    renamed = kernel.rewritten(rewrite)
    return replace(renamed, stores=[replace(s, access=access(s.access)) for s in renamed.stores])
