# SPDX-License-Identifier: Apache-2.0
"""Restickify: operands of matrix products with sticks along a batch loop are copied into order.

Before: a dot may read an operand whose stride-one loop is one of its batch loops, so that every
stick the matrix units fetch holds one useful element, or one at offsets that are not affine in its
loops, which no dot can read. After: such an operand is first copied by a kernel of its own to a
temporary with the product's own order, contraction or column innermost, where sticks are whole
rows. Values and their dtype are copied unchanged, so the product is the same bit for bit.
"""

from __future__ import annotations

from spyre_inductor.ir.expr import Expr, as_expr
from spyre_inductor.ir.kernel import Kernel, Loop, Store, Value, make_access, topological
from spyre_inductor.ir.program import TEMP, Buffer, Program
from spyre_inductor.passes.propagate_layouts import layout_of


def insert_restickify(program: Program) -> None:
    """Inserts copy kernels before the products that need them."""
    kernels: list[Kernel] = []
    for kernel in program.kernels:
        dot = next((v for v in kernel.values() if v.op == "dot"), None)
        if dot is not None:
            for operand, other in (dot.args, dot.args[::-1]):
                if (
                    operand is not None
                    and other is not None
                    and _needs_copy(kernel, operand, other)
                ):
                    copy, kernel = _split_off(program, kernel, operand)
                    kernels.append(copy)
        kernels.append(kernel)
    program.kernels = kernels


def _needs_copy(kernel: Kernel, operand: Value, other: Value) -> bool:
    if any(arg is not None for arg in operand.args):
        return True  # a dot reads at affine offsets alone
    strides = dict(operand.attr.strides)
    sticks = [loop for loop in kernel.loops if strides.get(loop.id) == 1 and loop.extent != 1]
    batch = operand.attr.loops & other.attr.loops
    return bool(sticks) and all(loop.id in batch and not loop.reduce for loop in sticks)


def _split_off(program: Program, kernel: Kernel, operand: Value) -> tuple[Kernel, Kernel]:
    """A kernel that copies the operand into order, and the product reading the copy."""
    moving = frozenset().union(*(value.direct_loops() for value in topological([operand])))
    loops = [loop for loop in kernel.loops if loop.id in moving]
    strides: list[Expr] = []
    step: Expr = 1
    for loop in reversed(loops):
        strides.insert(0, step)
        step = as_expr(step * loop.extent)
    source = operand.attr.buffer
    name = f"restick{sum(b.startswith('restick') for b in program.buffers)}"
    buffer = program.buffers[name] = Buffer(
        name,
        program.buffers[source].dtype,
        [loop.extent for loop in loops],
        strides,
        TEMP,
        removable=True,
        why=f"{source} with its sticks along the product's loops",
    )
    buffer.layout = layout_of(buffer)
    inside = make_access(name, {loop.id: s for loop, s in zip(loops, strides, strict=True)}, 0)
    copy = Kernel(
        loops,
        [Store(inside, operand)],
        kernel.builder,
        f"restickify_{kernel.name}",
        kernel.origins,
    )
    fresh = [Loop(loop.extent) for loop in loops]
    mapping = {old.id: [(new.id, as_expr(1))] for old, new in zip(loops, fresh, strict=True)}
    make = kernel.builder.make

    def rewrite(v: Value, args: tuple[Value | None, ...]) -> Value:
        if v is operand:
            return make("load", (None, None), v.type, v.dtype, inside)
        return make(v.op, args, v.type, v.dtype, v.attr)

    return copy.with_loops(fresh, mapping), kernel.rewritten(rewrite)
