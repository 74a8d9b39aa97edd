# SPDX-License-Identifier: Apache-2.0
"""Peepholes: groups of values that the device has one instruction for.

Before: activations as Inductor decomposes them, masks with parts that always hold. After:
`gelu`, `gelu_tanh` and `silu` where the decomposition is theirs; multiplications by one and
conditions known for the whole iteration space (`iota >= 0`) gone. A group of instructions costs a
pass over the block each, the fused one a single pass.
"""

from __future__ import annotations

import math

import torch

from spyre_inductor.ir.expr import Expr
from spyre_inductor.ir.kernel import Kernel, Value

_F = torch.float32


def simplify(kernel: Kernel) -> Kernel:
    """Rewrites every value bottom-up; unchanged values stay the same objects."""
    extents = {loop.id: loop.extent for loop in kernel.loops}
    make = kernel.builder.make

    def truth(known: bool) -> Value:
        return make("i2b", (make("const_i", (), "I", torch.int64, int(known)),), "B", torch.bool)

    def rewrite(value: Value, args: tuple[Value | None, ...]) -> Value:
        remade = make(value.op, args, value.type, value.dtype, value.attr)
        known = _comparison(remade, extents)
        if known is not None:
            return truth(known)
        shorter = _logic(remade)
        if shorter is not None:
            return shorter
        for rule in _RULES.get(value.op, ()):
            found = rule(remade)
            if found is None:
                continue
            op, operand = found
            return operand if op is None else make(op, (operand,), "F", _F)
        return remade

    return kernel.rewritten(rewrite)


def _integer(value: Value | None) -> int | None:
    if value is None or value.op != "const_i" or not isinstance(value.attr, int):
        return None
    return value.attr


def _comparison(value: Value, extents: dict[int, Expr]) -> bool | None:
    """What a comparison of a loop's number with a constant always gives, or None."""
    if value.op not in ("ge_i", "lt_i") or value.args[0] is None or value.args[0].op != "iota":
        return None
    bound = _integer(value.args[1])
    extent = extents.get(value.args[0].attr)
    if bound is None or not isinstance(extent, int):
        return None
    if bound <= 0:
        return value.op == "ge_i"
    if bound >= extent:
        return value.op == "lt_i"
    return None


def _truth(value: Value | None) -> bool | None:
    """The truth of a constant condition, or None."""
    number = _integer(value.args[0]) if value is not None and value.op == "i2b" else None
    return None if number is None else bool(number)


def _logic(value: Value) -> Value | None:
    """Drops operands of and, or and where that are constant."""
    if value.op in ("and_b", "or_b"):
        neutral = value.op == "and_b"
        for one, other in (value.args, value.args[::-1]):
            known = _truth(one)
            if known is not None:
                return other if known == neutral else one
    if value.op in ("where", "where_i", "where_b"):
        known = _truth(value.args[0])
        if known is not None:
            return value.args[1] if known else value.args[2]
    return None


def _constant(value: Value | None) -> float | None:
    return value.attr if value is not None and value.op == "const_f" else None


def _scaled(value: Value | None) -> tuple[Value, float] | None:
    """Value == operand * constant."""
    if value is None or value.op != "mul":
        return None
    a, b = value.args
    for operand, factor in ((a, b), (b, a)):
        number = _constant(factor)
        if number is not None and operand is not None:
            return operand, number
    return None


def _plus_one(value: Value | None) -> Value | None:
    """Value == operand + 1."""
    if value is None or value.op != "add":
        return None
    a, b = value.args
    if _constant(b) == 1.0:
        return a
    return b if _constant(a) == 1.0 else None


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6)


def _gelu(value: Value) -> tuple[str, Value] | None:
    """(x/2) * (erf(x * sqrt(1/2)) + 1), or with tanh(sqrt(2/pi) * (x + 0.044715 x^3))."""
    for left, right in (value.args, value.args[::-1]):
        half, inner = _scaled(left), _plus_one(right)
        if half is None or inner is None or half[1] != 0.5:
            continue
        x = half[0]
        if inner.op == "erf":
            scaled = _scaled(inner.args[0])
            if scaled and scaled[0] is x and _close(scaled[1], math.sqrt(0.5)):
                return "gelu", x
        if inner.op == "tanh" and _is_tanh_argument(inner.args[0], x):
            return "gelu_tanh", x
    return None


def _is_tanh_argument(value: Value | None, x: Value) -> bool:
    scaled = _scaled(value)
    if scaled is None or not _close(scaled[1], math.sqrt(2 / math.pi)) or scaled[0].op != "add":
        return False
    a, b = scaled[0].args
    cube = _scaled(b if a is x else a)
    if (a is not x and b is not x) or cube is None or not _close(cube[1], 0.044715):
        return False
    return _is_cube(cube[0], x)


def _is_cube(value: Value, x: Value) -> bool:
    if value.op == "pow":
        return value.args[0] is x and _constant(value.args[1]) == 3.0
    if value.op != "mul":
        return False
    a, b = value.args
    square = b if a is x else a if b is x else None
    return square is not None and square.op == "mul" and square.args == (x, x)


def _silu(value: Value) -> tuple[str, Value] | None:
    """X * sigmoid(x)."""
    for x, gate in (value.args, value.args[::-1]):
        if gate is not None and x is not None and gate.op == "sigmoid" and gate.args[0] is x:
            return "silu", x
    return None


def _times_one(value: Value) -> tuple[None, Value] | None:
    scaled = _scaled(value)
    return (None, scaled[0]) if scaled is not None and scaled[1] == 1.0 else None


_RULES = {"mul": (_times_one, _gelu, _silu)}
