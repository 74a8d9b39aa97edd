# SPDX-License-Identifier: Apache-2.0
"""Merges loops that every access walks as one.

Before: loops as fusion left them, often split finer than needed. After: neighbouring loops of one
kind are one loop wherever each access has `outer stride == inner stride * inner extent` and no
value needs their separate numbers; loops of extent one are gone. Fewer loops and longer lanes make
the device faster; nothing else changes.
"""

from __future__ import annotations

from typing import Any

from spyre_inductor.ir.expr import as_expr, is_equal
from spyre_inductor.ir.kernel import Kernel, Loop


def coalesce_loops(kernel: Kernel) -> Kernel:
    """Merges what can be merged, innermost pairs first."""
    kernel = _drop_unit_loops(kernel)
    merged = True
    while merged:
        merged = False
        for place in range(len(kernel.loops) - 1, 0, -1):
            outer, inner = kernel.loops[place - 1], kernel.loops[place]
            if outer.reduce == inner.reduce and _walk_as_one(kernel, outer, inner):
                kernel = _merge(kernel, outer, inner)
                merged = True
                break
    return kernel


def _drop_unit_loops(kernel: Kernel) -> Kernel:
    units: dict[Any, list[Any]] = {loop.id: [] for loop in kernel.loops if loop.extent == 1}
    if not units:
        return kernel
    kept = [loop for loop in kernel.loops if loop.id not in units]
    if kernel.reduce and not any(loop.reduce for loop in kept):
        kept.append(kernel.reduce[-1])  # reductions keep their phase
        units.pop(kernel.reduce[-1].id)
    return kernel.with_loops(kept, units)


def _walk_as_one(kernel: Kernel, outer: Loop, inner: Loop) -> bool:
    for access in kernel.accesses():
        strides = dict(access.strides)
        if not is_equal(strides.get(outer.id, 0), as_expr(strides.get(inner.id, 0) * inner.extent)):
            return False
    pair = (outer.id, inner.id)
    return not any(v.op == "iota" and v.attr in pair for v in kernel.values())


def _merge(kernel: Kernel, outer: Loop, inner: Loop) -> Kernel:
    loop = Loop(as_expr(outer.extent * inner.extent), outer.reduce)
    loops = [loop if each.id == outer.id else each for each in kernel.loops if each.id != inner.id]
    return kernel.with_loops(loops, {outer.id: [], inner.id: [(loop.id, 1)]})
