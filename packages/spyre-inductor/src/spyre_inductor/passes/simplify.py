# SPDX-License-Identifier: Apache-2.0
"""Peepholes: groups of values that the device has one instruction for.

Before: activations as Inductor decomposes them, masks with parts that always hold. After:
`gelu`, `gelu_tanh` and `silu` where the decomposition is theirs, `inf_from_sen169` and
`inf_to_sen169` where a cast keeps infinities; softmax with one reciprocal a row, and with what is
done about rows without a finite value done once a row; multiplications by one and conditions known
for the whole iteration space (`iota >= 0`) gone. A group of instructions costs a pass over the
block each, the fused one a single pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch

from spyre_inductor.ir.expr import Expr
from spyre_inductor.ir.kernel import Kernel, Value
from spyre_inductor.ops.table import SEN169_INFINITY

_F = torch.float32
_Make: TypeAlias = Callable[..., Value]


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
        for rebuild in _REBUILDS.get(value.op, ()):
            other = rebuild(remade, make)
            if other is not None:
                return other
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


def _infinity(value: Value) -> tuple[str, Value] | None:
    """Where(x is infinite, infinity of the other format, x)."""
    test, infinity, x = value.args
    if test is None or infinity is None or x is None or infinity.op != "copysign":
        return None
    size, sign = infinity.args
    tested = test.args[0] if test.op in ("isinf", "isinf_sen169") else None
    if tested is not None and tested.op == "round_sen169" and tested is not x:
        tested = tested.args[0]
    if tested is not x or sign is not x:
        return None
    wanted = (test.op, _constant(size))
    if wanted == ("isinf_sen169", math.inf):
        return "inf_from_sen169", x
    return ("inf_to_sen169", x) if wanted == ("isinf", SEN169_INFINITY) else None


def _inverse(value: Value, make: _Make) -> Value | None:
    """Not(a == b), not(a != b): also of a NaN, which equals nothing."""
    test = value.args[0]
    opposite = {"eq": "ne", "ne": "eq"}.get(test.op) if test is not None else None
    if test is None or opposite is None:
        return None
    return make(opposite, test.args, "B", torch.bool)


def _any_above(value: Value, make: _Make) -> Value | None:
    """Any(x != -infinity): the largest is another number; a NaN is the largest of all."""
    test = value.args[0]
    if test is None or test.op != "ne":
        return None
    x, bound = test.args
    if x is None or _constant(bound) != -math.inf:
        return None
    return make("ne", (make("reduce_max", (x,), "F", x.dtype), bound), "B", torch.bool)


def _weights(value: Value | None) -> tuple[Value, Value, Value] | None:
    """Value == exp(x - max(x)) / sum(exp(x - max(x))): gives x, its maximum and the sum."""
    if value is None or value.op != "div":
        return None
    weight, total = value.args
    if weight is None or total is None or weight.op != "exp" or total.op != "reduce_sum":
        return None
    centred = weight.args[0]
    if total.args[0] is not weight or centred is None or centred.op != "sub":
        return None
    x, top = centred.args
    if x is None or top is None or top.op != "reduce_max" or top.args[0] is not x:
        return None
    return x, top, total


def _softmax(value: Value, make: _Make) -> Value | None:
    """The weights by one reciprocal a row."""
    if _weights(value) is None:
        return None
    weight, total = value.args
    return make("mul", (weight, make("reciprocal", (total,), "F", _F)), "F", value.dtype)


def _safe_softmax(value: Value, make: _Make) -> Value | None:
    """Where(max(x) == -infinity, 0, weights).

    Such a row gets 0 for its maximum, weights and a sum of 0 with that, and 0 in place of the
    reciprocal.
    """
    masked, zero, product = value.args
    if masked is None or product is None or _constant(zero) != 0.0 or product.op != "mul":
        return None
    weight, inverse = product.args
    if weight is None or inverse is None or inverse.op != "reciprocal":
        return None
    found = _weights(make("div", (weight, inverse.args[0]), "F", product.dtype))
    if found is None or not _is_masked(masked, found[0]):
        return None
    x, top, total = found
    top = make("where", (masked, zero, top), "F", _F)
    weight = make("exp", (make("sub", (x, top), "F", _F),), "F", weight.dtype)
    total = make("reduce_sum", (weight,), "F", total.dtype)
    inverse = make("where", (masked, zero, make("reciprocal", (total,), "F", _F)), "F", _F)
    return make("mul", (weight, inverse), "F", value.dtype)


def _is_masked(test: Value, x: Value) -> bool:
    """Test == (max(x) == -infinity)."""
    if test.op != "eq":
        return False
    top, bound = test.args
    is_top = top is not None and top.op == "reduce_max" and top.args[0] is x
    return is_top and _constant(bound) == -math.inf


_RULES = {"mul": (_times_one, _gelu, _silu), "where": (_infinity,)}
_REBUILDS = {
    "not_b": (_inverse,),
    "reduce_any": (_any_above,),
    "div": (_softmax,),
    "where": (_safe_softmax,),
}
