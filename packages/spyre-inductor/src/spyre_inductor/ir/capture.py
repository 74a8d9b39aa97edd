# SPDX-License-Identifier: Apache-2.0
"""Lowering: an Inductor loop body becomes a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import sympy
import torch
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import (
    CeilDiv,
    CleanDiv,
    FloatPow,
    FloatTrueDiv,
    FloorDiv,
    Identity,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    ModularIndexing,
    PowByNatural,
    PythonMod,
    ToFloat,
    Where,
)
from typing_extensions import override

from spyre_inductor.errors import UnsupportedError
from spyre_inductor.ir.expr import Expr, as_expr, product
from spyre_inductor.ir.indexing import LoopSpace, NotAffineError
from spyre_inductor.ir.kernel import Builder, Kernel, Store, Value, make_access
from spyre_inductor.ops import table
from spyre_inductor.ops.handler import ValueHandler
from spyre_inductor.ops.table import lane_type


class Body(Protocol):
    """What is used of torch._inductor.loop_body.LoopBody."""

    iter_vars: Sequence[sympy.Symbol]
    reduce_vars: Sequence[sympy.Symbol]
    var_ranges: dict[sympy.Symbol, sympy.Expr]
    indexing_exprs: dict[str, sympy.Expr]

    def __call__(self, *indices: Sequence[sympy.Symbol], allow_same_symbol_in_index: bool) -> Any:
        """Runs the body under the current operations handler."""
        ...


def capture(
    body: Body,
    builder: Builder,
    dtype_of: Callable[[str], torch.dtype],
    buffer_of: Callable[[str], str],
) -> Kernel:
    """Records one loop body.

    Args:
        body: the loop body.
        builder: makes the values; kernels of one program share it.
        dtype_of: dtype of a buffer by Inductor's name for it.
        buffer_of: Inductor's name to the name of the memory behind it (mutations rename).

    Raises:
        UnsupportedError: the body uses what the device does not have.
    """
    space = LoopSpace(body.iter_vars, body.reduce_vars, body.var_ranges)
    space.split_for(body.indexing_exprs.values())
    handler = CaptureHandler(builder, space, dtype_of, buffer_of)
    with V.set_ops_handler(handler):
        body(body.iter_vars, body.reduce_vars, allow_same_symbol_in_index=True)
    return Kernel(space.ordered(), handler.stores, builder, checks=tuple(handler.checks))


class CaptureHandler(ValueHandler):
    """Adds memory to `ValueHandler`: loads, stores, indices, masks."""

    def __init__(
        self,
        builder: Builder,
        space: LoopSpace,
        dtype_of: Callable[[str], torch.dtype],
        buffer_of: Callable[[str], str],
    ):
        super().__init__(builder)
        self.space = space
        self.stores: list[Store] = []
        self.checks: list[Value] = []
        self._dtype_of = dtype_of
        self._buffer_of = buffer_of
        self._indirect: dict[sympy.Symbol, Value] = {}
        self._mask: Value | None = None

    # --- indices ---

    def _address(self, index: sympy.Expr) -> tuple[dict[int, Expr], Expr, Value | None]:
        """Splits an index into affine strides, an offset and what a register must hold."""
        index = sympy.sympify(index)
        try:
            strides, offset = self.space.linear(index)
            return strides, offset, None
        except NotAffineError:
            pass
        strides, offset, rest = {}, 0, []
        for term in sympy.Add.make_args(sympy.expand(index)):
            try:
                part, constant = self.space.linear(term)
            except NotAffineError:
                rest.append(term)
                continue
            for loop, stride in part.items():
                strides[loop] = as_expr(strides.get(loop, 0) + stride)
            offset = as_expr(offset + constant)
        return strides, offset, self._integer_value(sympy.Add(*rest))

    def _integer_value(self, e: sympy.Expr) -> Value:
        """Computes an index expression in integer registers."""
        int64 = torch.int64
        if e.is_Integer:
            return self.integer(int(e))
        if e.is_Symbol:
            if e in self._indirect:
                return self._indirect[e]
            if e in self.space.variables:
                return self._iota(self.space.variables[e])
            return self.integer(e)
        if not any(s in self._indirect or s in self.space.variables for s in e.free_symbols):
            return self.integer(e)
        if e.is_Add or e.is_Mul:
            op = "add_i" if e.is_Add else "mul_i"
            values = [self._integer_value(arg) for arg in e.args]
            total = values[0]
            for value in values[1:]:
                total = self.emit(op, total, value, dtype=int64)
            return total
        if isinstance(e, sympy.Pow) and e.args[1].is_Integer and 0 < int(e.args[1]) <= 8:
            base = self._integer_value(e.args[0])
            total = base
            for _ in range(int(e.args[1]) - 1):
                total = self.emit("mul_i", total, base, dtype=int64)
            return total
        if isinstance(e, Identity):
            return self._integer_value(e.args[0])
        if isinstance(e, ModularIndexing):
            x, d, m = (self._integer_value(arg) for arg in e.args)
            if e.args[1] != 1:
                x = self.emit("floordiv_i", x, d, dtype=int64)
            return self.emit("remainder_i", x, m, dtype=int64)
        if isinstance(e, CeilDiv):
            x, d = (self._integer_value(arg) for arg in e.args)
            negated = self.emit("floordiv_i", self.emit("neg_i", x, dtype=int64), d, dtype=int64)
            return self.emit("neg_i", negated, dtype=int64)
        if isinstance(e, Where):
            return self.where(*(self._condition(e.args[0]), *map(self._integer_value, e.args[1:])))
        for kinds, op in (
            ((FloorDiv, CleanDiv), "floordiv_i"),
            ((Mod, PythonMod), "remainder_i"),
            ((Min, sympy.Min), "minimum_i"),
            ((Max, sympy.Max), "maximum_i"),
            ((sympy.Abs,), "abs_i"),
        ):
            if isinstance(e, kinds):
                values = [self._integer_value(arg) for arg in e.args]
                if op == "abs_i":
                    return self.emit(op, values[0], dtype=int64)
                total = values[0]
                for value in values[1:]:
                    total = self.emit(op, total, value, dtype=int64)
                return total
        raise UnsupportedError(
            f"index expression {e} has {type(e).__name__}, which the device cannot compute"
        )

    def _float_value(self, e: sympy.Expr) -> Value:
        """Computes a real expression over sizes, such as 1 / sqrt(head_dim), in float registers."""
        float32 = torch.float32
        if e.is_Number and not e.is_Integer:
            return self.constant(float(e), float32)
        if isinstance(e, ToFloat):
            return self._float_value(e.args[0])
        if e.is_Add or e.is_Mul:
            values = [self._float_value(arg) for arg in e.args]
            total = values[0]
            for value in values[1:]:
                total = self.emit("add" if e.is_Add else "mul", total, value, dtype=float32)
            return total
        for kinds, op in (
            ((IntTrueDiv, FloatTrueDiv), "div"),
            ((FloatPow, PowByNatural, sympy.Pow), "pow"),
        ):
            if isinstance(e, kinds):
                return self.emit(op, *(self._float_value(arg) for arg in e.args), dtype=float32)
        return self.to_dtype(self._integer_value(e), float32)

    def _condition(self, e: sympy.Basic) -> Value:
        for kind, op in (
            (sympy.Lt, "lt"),
            (sympy.Le, "le"),
            (sympy.Gt, "gt"),
            (sympy.Ge, "ge"),
            (sympy.Eq, "eq"),
            (sympy.Ne, "ne"),
        ):
            if isinstance(e, kind):
                return self._compare(op, tuple(self._integer_value(arg) for arg in e.args))
        raise UnsupportedError(f"condition {e} of type {type(e).__name__} in an index expression")

    def _iota(self, terms: list[tuple[int, Expr]]) -> Value:
        total: Value | None = None
        for loop, scale in terms:
            term = self.emit("iota", dtype=torch.int64, attr=loop)
            if scale != 1:
                term = self.emit("mul_i", term, self.integer(scale), dtype=torch.int64)
            total = term if total is None else self.emit("add_i", total, term, dtype=torch.int64)
        assert total is not None
        return total

    @override
    def index_expr(self, expr: sympy.Expr, dtype: torch.dtype) -> Value:
        expr = sympy.sympify(expr)
        if lane_type(dtype) == "F" and expr.is_integer is not True:
            return self.to_dtype(self._float_value(expr), dtype)
        value = self._integer_value(expr)
        return (
            self.to_dtype(value, dtype)
            if lane_type(dtype) != "I"
            else self.wrap(value, dtype, dtype)
        )

    @override
    def value_expr(self, expr: sympy.Expr, dtype: torch.dtype) -> Value:
        return self.index_expr(expr, dtype)

    @override
    def indirect_indexing(
        self, index_var: Any, size: sympy.Expr, check: bool = True, wrap_neg: bool = True
    ) -> sympy.Symbol:
        value = self.as_type(self.value(index_var), "I")
        if check or wrap_neg:
            value = self.emit(
                "index_check",
                value,
                self._mask,
                dtype=torch.int64,
                attr=(as_expr(size), bool(wrap_neg)),
            )
        symbol = sympy.Symbol(f"lane_index{len(self._indirect)}", integer=True)
        self._indirect[symbol] = value
        return symbol

    @override
    def check_bounds(self, index: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        """Makes the check, and keeps what follows from touching memory where it fails.

        Such an index is part of addresses, and one that is out of range by itself would otherwise
        be an address outside of its buffer, which no program may have.
        """
        if not lower and not upper:
            return
        bound = as_expr(size)
        value = self._integer_value(sympy.sympify(index))
        checked = self.emit(
            "index_check", value, self._mask, dtype=torch.int64, attr=(bound, False)
        )
        self.checks.append(checked)
        inside = self.logical_and(
            self._compare("ge", (checked, self.integer(0))),
            self._compare("lt", (checked, self.integer(bound))),
        )
        self._mask = inside if self._mask is None else self.logical_and(self._mask, inside)

    # --- memory ---

    @override
    def load(self, name: str, index: sympy.Expr) -> Value:
        strides, offset, dynamic = self._address(index)
        access = make_access(self._buffer_of(name), strides, offset)
        return self.emit("load", dynamic, self._mask, dtype=self._dtype_of(name), attr=access)

    @override
    def load_seed(self, name: str, offset: Any) -> Value:
        return self.load(name, sympy.sympify(offset))

    @override
    def store(self, name: str, index: sympy.Expr, value: Value, mode: Any = None) -> None:
        strides, offset, dynamic = self._address(index)
        access = make_access(self._buffer_of(name), strides, offset)
        stored = self._for_buffer(value, name)
        if mode not in (None, "atomic_add"):
            raise UnsupportedError(f"the device has no store mode {mode!r}")
        self.stores.append(Store(access, stored, dynamic, self._mask, mode == "atomic_add"))

    @override
    def store_reduction(self, name: str, index: sympy.Expr, value: Value) -> None:
        strides, offset, dynamic = self._address(index)
        access = make_access(self._buffer_of(name), strides, offset)
        self.stores.append(Store(access, self._for_buffer(value, name), dynamic))

    def _for_buffer(self, value: Any, name: str) -> Value:
        dtype = self._dtype_of(name)
        value = self.value(value)
        if value.type == "F" and lane_type(dtype) == "I":
            return self.to_dtype(value, dtype)
        value = self.as_type(value, lane_type(dtype))
        if value.type == "I":
            # stores wrap by themselves, but fusion hands the value on without the store
            return self.wrap(value, dtype, value.dtype)
        while dtype in table.SEN169_DTYPES and value.op == table.ROUND[dtype]:
            value = value.args[0]  # the store itself rounds
        return value

    @override
    def masked(self, mask: Value, body: Callable[[], Any], other: Any) -> Value:
        outer = self._mask
        mask = self.as_type(self.value(mask), "B")
        self._mask = mask if outer is None else self.logical_and(outer, mask)
        try:
            result = self.value(body())
        finally:
            self._mask = outer
        fill = (
            self.constant(other, result.dtype) if isinstance(other, (bool, int, float)) else other
        )
        if (
            result.op == "load"
            and fill.op in ("const_f", "const_i")
            and fill.attr == 0
            and str(fill.attr)[0] != "-"
        ):
            return result  # lanes that do not load read zero
        return self.where(mask, result, fill)

    @override
    def reduce_count(self) -> Value:
        count = product(loop.extent for loop in self.space.loops.values() if loop.reduce)
        if isinstance(count, int):
            return self.constant(float(count), torch.float32)
        return self.as_type(self.integer(count), "F")
