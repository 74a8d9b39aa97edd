# SPDX-License-Identifier: Apache-2.0
"""Overflow of the half dtypes is infinite, as on the CPU.

Before: a stored float16 or bfloat16 is what was computed; beyond the range of its format that is
stored as NaN. After: what may be beyond goes through `inf_to_sen169` first, which makes it the
format's stand-in for infinity.
"""

from __future__ import annotations

from dataclasses import replace

from spyre_inductor.ir.kernel import Kernel, Store, Value
from spyre_inductor.ir.program import Program
from spyre_inductor.ops.table import SEN169_DTYPES, SEN169_OVERFLOW

# Results no larger than the operands, and results that are small whatever the operands are.
_OF_OPERANDS = (
    *("where", "maximum", "minimum", "fmax", "fmin", "neg", "abs", "relu", "copysign"),
    *("reduce_max", "reduce_min"),
)
_SMALL = (
    *("round_sen169", "inf_to_sen169", "sigmoid", "tanh", "sin", "cos", "erf", "erfc", "sign"),
    "b2f",
)


def keep_infinities(program: Program) -> None:
    """Makes overflow infinite in every store of a half dtype."""
    halves = {name for name, buffer in program.buffers.items() if buffer.dtype in SEN169_DTYPES}
    program.kernels = [_keep(kernel, halves) for kernel in program.kernels]


def _keep(kernel: Kernel, halves: set[str]) -> Kernel:
    known: dict[Value, bool] = {}
    stores = [
        _kept(kernel, store)
        if store.access.buffer in halves and not store.add and not _is_in_range(store.value, known)
        else store
        for store in kernel.stores
    ]
    return kernel if stores == kernel.stores else replace(kernel, stores=stores)


def _kept(kernel: Kernel, store: Store) -> Store:
    value = store.value
    infinite = kernel.builder.make("inf_to_sen169", (value,), "F", value.dtype)
    return replace(store, value=infinite)


def _is_in_range(value: Value, known: dict[Value, bool]) -> bool:
    """Whether a half dtype surely holds the value."""
    if value not in known:
        known[value] = _judge(value, known)
    return known[value]


def _judge(value: Value, known: dict[Value, bool]) -> bool:
    if value.op == "load":
        return value.dtype in SEN169_DTYPES
    if value.op == "const_f":
        return bool(abs(value.attr) < SEN169_OVERFLOW)
    if value.op in _OF_OPERANDS:
        operands = [arg for arg in value.args if arg is not None and arg.type == "F"]
        return all(_is_in_range(operand, known) for operand in operands)
    return value.op in _SMALL
