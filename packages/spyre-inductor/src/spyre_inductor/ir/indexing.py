# SPDX-License-Identifier: Apache-2.0
"""From Inductor's index expressions to affine forms over loops.

An index is sympy over loop variables with floor divisions and remainders that views put there. Most
vanish when a loop is split at the divisor: `v = 64*a + b` makes `v // 64` be `a`, `v % 64` be `b`.
`LoopSpace` finds those splits; what still is not affine raises `NotAffineError` and is computed in
integer registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sympy
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import (
    CleanDiv,
    FloorDiv,
    Identity,
    Mod,
    ModularIndexing,
    PythonMod,
)

from spyre_inductor.ir.expr import Expr, as_expr, exact_quotient
from spyre_inductor.ir.kernel import Loop

Linear = tuple[dict[int, Expr], Expr]  # loop id -> stride, and a constant


class NotAffineError(Exception):
    """No affine form; `split`, if there, says which loop to split and the inner length."""

    def __init__(self, split: tuple[int, Expr] | None = None):
        super().__init__("index is not affine")
        self.split = split


class LoopSpace:
    """Loop variables of one loop body and the loops they have been split into."""

    def __init__(
        self,
        parallel: Sequence[sympy.Symbol],
        reduce: Sequence[sympy.Symbol],
        ranges: dict[sympy.Symbol, sympy.Expr],
    ):
        self.loops: dict[int, Loop] = {}
        self.variables: dict[sympy.Symbol, list[tuple[int, Expr]]] = {}
        for symbols, is_reduce in ((parallel, False), (reduce, True)):
            for symbol in symbols:
                loop = Loop(as_expr(ranges[symbol]), is_reduce)
                self.loops[loop.id] = loop
                self.variables[symbol] = [(loop.id, 1)]

    def ordered(self) -> list[Loop]:
        """Loops, parallel ones first, in the order of the variables they came from."""
        loops = [self.loops[loop] for terms in self.variables.values() for loop, _ in terms]
        return sorted(loops, key=lambda loop: loop.reduce)

    def split_for(self, indices: Iterable[sympy.Expr]) -> None:
        """Splits loops until no index can gain from another split."""
        pending = [i for i in indices if i.has(FloorDiv, CleanDiv, ModularIndexing, Mod, PythonMod)]
        for index in pending:
            for _ in range(16):
                try:
                    self.linear(index)
                    break
                except NotAffineError as error:
                    if error.split is None:
                        break
                    self._split(*error.split)

    def _split(self, loop_id: int, inner: Expr) -> None:
        loop = self.loops.pop(loop_id)
        outer_extent = exact_quotient(loop.extent, inner)
        assert outer_extent is not None
        outer, within = Loop(outer_extent, loop.reduce), Loop(inner, loop.reduce)
        self.loops[outer.id], self.loops[within.id] = outer, within
        for terms in self.variables.values():
            for place, (each, scale) in enumerate(terms):
                if each == loop_id:
                    terms[place : place + 1] = [
                        (outer.id, as_expr(scale * inner)),
                        (within.id, scale),
                    ]
                    break

    # --- linear forms ---

    def linear(self, e: sympy.Expr) -> Linear:
        """The affine form of an index.

        Raises:
            NotAffineError: there is none over the loops as they are.
        """
        if e.is_Integer:
            return {}, int(e)
        if self._is_size(e):
            return {}, e
        if e.is_Symbol:
            if e in self.variables:
                return dict(self.variables[e]), 0
            raise NotAffineError
        if e.is_Add:
            total: dict[int, Expr] = {}
            constant: Expr = 0
            for arg in e.args:
                terms, offset = self.linear(arg)
                for loop, stride in terms.items():
                    total[loop] = as_expr(total.get(loop, 0) + stride)
                constant = as_expr(constant + offset)
            return {loop: s for loop, s in total.items() if s != 0}, constant
        if e.is_Mul:
            return self._product(e.args)
        if isinstance(e, (FloorDiv, CleanDiv)):
            return self._floor_div(self.linear(e.args[0]), self._constant(e.args[1]), e)
        if isinstance(e, ModularIndexing):
            divided = self._floor_div(self.linear(e.args[0]), self._constant(e.args[1]), e)
            return self._mod(divided, self._constant(e.args[2]), e)
        if isinstance(e, (Mod, PythonMod)):
            return self._mod(self.linear(e.args[0]), self._constant(e.args[1]), e)
        if isinstance(e, Identity):
            return self.linear(e.args[0])
        raise NotAffineError

    def _is_size(self, e: sympy.Expr) -> bool:
        """Whether no loop moves it: it is made of sizes alone, divided or not."""
        return not any(
            symbol in self.variables or not str(symbol).startswith(("s", "u", "ps"))
            for symbol in e.free_symbols
        )

    def _constant(self, e: sympy.Expr) -> Expr:
        terms, constant = self.linear(e)
        if terms:
            raise NotAffineError
        return constant

    def _product(self, args: Sequence[sympy.Expr]) -> Linear:
        factor: Expr = 1
        linear: Linear | None = None
        for arg in args:
            terms, constant = self.linear(arg)
            if not terms:
                factor = as_expr(factor * constant)
            elif linear is None:
                linear = terms, constant
            else:
                raise NotAffineError
        if linear is None:
            return {}, factor
        return {k: as_expr(s * factor) for k, s in linear[0].items()}, as_expr(linear[1] * factor)

    def _divide(self, linear: Linear, d: Expr) -> tuple[Linear, Linear]:
        """Linear = d * quotient + rest, term by term."""
        quotient: dict[int, Expr] = {}
        rest: dict[int, Expr] = {}
        for loop, stride in linear[0].items():
            q = exact_quotient(stride, d)
            if q is None:
                rest[loop] = stride
            else:
                quotient[loop] = q
        constant = linear[1]
        if isinstance(constant, int) and isinstance(d, int):
            q_constant, r_constant = divmod(constant, d)
        else:
            q = exact_quotient(constant, d)
            q_constant, r_constant = (0, constant) if q is None else (q, 0)
        return (quotient, q_constant), (rest, r_constant)

    def _fits(self, rest: Linear, d: Expr) -> bool:
        """Whether 0 <= rest < d over the whole space."""
        if not rest[0] and rest[1] == 0:
            return True
        if any(isinstance(s, int) and s < 0 for s in rest[0].values()):
            return False
        if isinstance(rest[1], int) and rest[1] < 0:
            return False
        top = as_expr(rest[1] + sum(s * (self.loops[k].extent - 1) for k, s in rest[0].items()))
        if isinstance(top, int) and isinstance(d, int):
            return top < d
        return bool(V.graph.sizevars.statically_known_lt(sympy.sympify(top), sympy.sympify(d)))

    def _suggest(self, rest: Linear, d: Expr) -> tuple[int, Expr] | None:
        """A loop whose split lets d divide its outer part."""
        for loop, stride in sorted(rest[0].items(), key=lambda item: str(item[1])):
            inner = exact_quotient(d, stride)
            if inner is None or inner == 1:
                continue
            outer = exact_quotient(self.loops[loop].extent, inner)
            if outer is not None and outer != 1:
                return loop, inner
        return None

    def _floor_div(self, linear: Linear, d: Expr, e: sympy.Expr) -> Linear:
        if d == 1:
            return linear
        if d == 0:
            raise NotAffineError
        quotient, rest = self._divide(linear, d)
        if self._fits(rest, d):
            return quotient
        raise NotAffineError(self._suggest(rest, d))

    def _mod(self, linear: Linear, m: Expr, e: sympy.Expr) -> Linear:
        if m == 0:
            raise NotAffineError
        _, rest = self._divide(linear, m)
        if self._fits(rest, m):
            return rest
        raise NotAffineError(self._suggest(rest, m))
