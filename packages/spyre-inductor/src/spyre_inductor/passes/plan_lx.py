# SPDX-License-Identifier: Apache-2.0
"""LX planning: temporaries that a core makes and the same core uses stay in its scratchpad.

Before: buffers inside a program are device memory. After: a temporary is `lx` if every kernel that
touches it divides the same loops into the same parts with respect to that buffer, so that no core
needs another's share, and if the shares fit the scratchpad. One whose life has ended leaves its
memory to the next of its shape. Values are stored in the same format, so results are the same bit
for bit.
"""

from __future__ import annotations

import math
from dataclasses import replace

from spyre_inductor.ir.expr import Expr, as_expr, is_equal
from spyre_inductor.ir.kernel import Access, Kernel, Value
from spyre_inductor.ir.program import LX, TEMP, Program

Share = tuple[tuple[int, int, Expr], ...]  # (extent, parts, stride in the buffer) of divided loops


def plan_lx(program: Program, lx_bytes: int) -> None:
    """Moves temporaries to the scratchpad where that is correct and they fit."""
    lives = _lives(program)
    slots: dict[
        tuple[object, ...], list[tuple[int, str]]
    ] = {}  # shape and share -> (end of use, owner)
    used = 0
    renamed: dict[str, str] = {}
    for name, (first, last) in sorted(lives.items(), key=lambda item: item[1]):
        buffer = program.buffers[name]
        if buffer.kind != TEMP:
            continue
        share = _common_share(program, name)
        if share is None:
            buffer.why = "stays in device memory: its kernels divide it differently"
            continue
        if not share:
            buffer.why = "stays in device memory: its kernels are not divided"
            continue
        if buffer.layout is None:
            buffer.why = "stays in device memory: its size is not known"
            continue
        parts = math.prod(n for _, n, _ in share)
        largest = math.prod(-(-extent // n) for extent, n, _ in share)
        each = -(-buffer.layout.device_nbytes * largest // math.prod(e for e, _, _ in share))
        pool = slots.setdefault(
            (buffer.dtype, *map(str, buffer.size + buffer.stride), *map(str, share)), []
        )
        place = next((n for n, (end, _) in enumerate(pool) if end < first), None)
        if place is not None:  # takes over the memory of one that is no longer used
            owner = pool[place][1]
            pool[place] = (last, owner)
            renamed[name] = owner
            continue
        if used + each > lx_bytes:
            buffer.why = (
                f"stays in device memory: {each} bytes a core do not fit, "
                f"{used} of {lx_bytes} are taken"
            )
            continue
        used += each
        pool.append((last, name))
        buffer.kind = LX
        buffer.why = f"in the scratchpad, {each} bytes on each of {parts} cores"
    if renamed:
        program.kernels = [_rename(kernel, renamed) for kernel in program.kernels]


def _rename(kernel: Kernel, names: dict[str, str]) -> Kernel:
    def access(a: Access) -> Access:
        return replace(a, buffer=names.get(a.buffer, a.buffer))

    def rewrite(value: Value, args: tuple[Value | None, ...]) -> Value:
        attr = access(value.attr) if value.op == "load" else value.attr
        return kernel.builder.make(value.op, args, value.type, value.dtype, attr)

    remade = kernel.rewritten(rewrite)
    return replace(remade, stores=[replace(s, access=access(s.access)) for s in remade.stores])


def _lives(program: Program) -> dict[str, tuple[int, int]]:
    lives: dict[str, tuple[int, int]] = {}
    for place, kernel in enumerate(program.kernels):
        for access in kernel.accesses():
            first, _ = lives.get(access.buffer, (place, place))
            lives[access.buffer] = (first, place)
    return lives


def _common_share(program: Program, name: str) -> Share | None:
    shares: set[Share] = set()
    for kernel in program.kernels:
        for value in kernel.loads():
            if value.attr.buffer == name:
                if any(arg is not None for arg in value.args):
                    return None
                shares.add(_share(kernel, value.attr))
        for store in kernel.stores:
            if store.access.buffer == name:
                if store.add or store.index is not None or store.predicate is not None:
                    return None
                shares.add(_share(kernel, store.access))
    if len(shares) != 1:
        return None
    share = shares.pop()
    # a loop that is divided but does not move in the buffer: every core would need all of it
    return None if any(stride == 0 for _, _, stride in share) else share


def _share(kernel: Kernel, access: Access) -> Share:
    """Divided loops. Two that walk the buffer as one, the outer cut to single steps, are one."""
    strides = dict(access.strides)
    shares: list[tuple[int, int, Expr]] = []
    for loop in kernel.loops:
        if loop.parts <= 1 or not isinstance(loop.extent, int):
            continue
        extent, parts, stride = loop.extent, loop.parts, strides.get(loop.id, 0)
        if shares and extent % parts == 0:
            outer_extent, outer_parts, outer_stride = shares[-1]
            if outer_parts == outer_extent and is_equal(outer_stride, as_expr(stride * extent)):
                shares.pop()
                extent, parts = outer_extent * extent, outer_parts * parts
        shares.append((extent, parts, stride))
    return tuple(shares)
