# SPDX-License-Identifier: Apache-2.0
"""Sizes and strides: Python ints where known, sympy over size symbols where not.

Most graphs are static, and sympy arithmetic costs microseconds an operation, so every number that
can be an int is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import sympy
from torch.utils._sympy.functions import (
    CeilDiv,
    CleanDiv,
    FloorDiv,
    Identity,
    Max,
    Min,
    Mod,
    ModularIndexing,
    PythonMod,
)

from spyre_inductor.errors import UnsupportedError

Expr: TypeAlias = "int | sympy.Expr"


def as_expr(value: object) -> Expr:
    """Normalises: an int if the value is a number, else the sympy expression."""
    if isinstance(value, int):
        return value
    if isinstance(value, sympy.Integer):
        return int(value)
    if isinstance(value, sympy.Expr):
        return value
    return int(value)  # type: ignore[call-overload]


def product(values: Iterable[Expr]) -> Expr:
    """Product of sizes; 1 for none."""
    result: Expr = 1
    for value in values:
        result = as_expr(result * value)
    return result


def exact_quotient(a: Expr, b: Expr) -> Expr | None:
    """A / b where b divides a for every value of the symbols, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    if a == b:
        return 1
    if isinstance(a, int):
        return None if a else 0
    quotient = sympy.expand(a / b)
    numerator, denominator = sympy.fraction(sympy.together(quotient))
    if denominator != 1 or any(
        isinstance(node, sympy.Rational) and node.q != 1
        for node in sympy.preorder_traversal(numerator)
    ):
        return None
    return as_expr(quotient)


def is_equal(a: Expr, b: Expr) -> bool:
    """Whether two sizes are equal for every value of the symbols."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return bool(a == b) or sympy.expand(a - b) == 0


def symbols_of(value: Expr) -> set[sympy.Symbol]:
    """Size symbols in an expression."""
    return set() if isinstance(value, int) else set(value.free_symbols)  # type: ignore[arg-type]


def _join(args: Iterable[sympy.Expr], function: str) -> str:
    parts = [print_expr(as_expr(arg)) for arg in args]
    text = parts[0]
    for part in parts[1:]:
        text = f"{function}({text}, {part})"
    return text


def print_expr(value: Expr) -> str:
    """Text of an expression in the syntax of device programs."""
    if isinstance(value, int):
        return str(value)
    if value.is_Symbol:
        return str(value)
    if value.is_Integer:
        return str(int(value))
    args = value.args
    if value.is_Add:
        return "(" + " + ".join(print_expr(as_expr(arg)) for arg in args) + ")"
    if value.is_Mul:
        return "(" + " * ".join(print_expr(as_expr(arg)) for arg in args) + ")"
    if isinstance(value, sympy.Pow) and args[1].is_Integer and 0 < int(args[1]) <= 8:
        return "(" + " * ".join([print_expr(as_expr(args[0]))] * int(args[1])) + ")"
    if isinstance(value, (FloorDiv, CleanDiv)):
        return f"({print_expr(as_expr(args[0]))} // {print_expr(as_expr(args[1]))})"
    if isinstance(value, CeilDiv):
        a, b = (print_expr(as_expr(arg)) for arg in args)
        return f"(({a} + {b} + -1) // {b})"
    if isinstance(value, ModularIndexing):
        a, b, c = (print_expr(as_expr(arg)) for arg in args)
        return f"(({a} // {b}) % {c})"
    if isinstance(value, (Mod, PythonMod)):
        a, b = (print_expr(as_expr(arg)) for arg in args)
        return f"({a} % {b})"
    if isinstance(value, (Min, sympy.Min)):
        return _join(args, "min")
    if isinstance(value, (Max, sympy.Max)):
        return _join(args, "max")
    if isinstance(value, sympy.Abs):
        inner = print_expr(as_expr(args[0]))
        return f"max({inner}, (0 - {inner}))"
    if isinstance(value, Identity):
        return print_expr(as_expr(args[0]))
    raise UnsupportedError(
        f"size expression {value} has {type(value).__name__}, which a program cannot compute; "
        f"the op runs eagerly instead"
    )
