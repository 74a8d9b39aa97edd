# SPDX-License-Identifier: Apache-2.0
"""Kernels: what passes read and write.

A kernel is one iteration space (parallel loops, then reduce loops), a graph of scalar values and
the stores that it exists for. Values are hash-consed in a `Builder`, so equal expressions are one
object. Where a value is computed (in which phase) is not written here: it follows from what it
depends on, see `codegen/phases.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from spyre_inductor.ir.expr import Expr, as_expr, print_expr, product

_loop_ids = itertools.count()


@dataclass(frozen=True)
class Loop:
    """A loop of a kernel; identity is `id`, so loops of different kernels never mix.

    Attributes:
        parts: into how many cores' shares it is divided; 0 leaves it to the linker.
    """

    extent: Expr
    reduce: bool = False
    parts: int = 0
    id: int = field(default_factory=lambda: next(_loop_ids))


@dataclass(frozen=True)
class Access:
    """An affine host offset: `offset + sum(stride * loop)`; loops without a stride are absent."""

    buffer: str
    strides: tuple[tuple[int, Expr], ...]  # (loop id, stride), sorted by id
    offset: Expr = 0

    @property
    def loops(self) -> frozenset[int]:
        """Loops that it depends on."""
        return frozenset(loop for loop, _ in self.strides)

    def substitute(self, mapping: dict[int, list[tuple[int, Expr]]]) -> Access:
        """The same access after loops have become sums of scaled other loops."""
        if not any(loop in mapping for loop, _ in self.strides):
            return self
        return make_access(self.buffer, substitute_terms(self.strides, mapping), self.offset)


def make_access(buffer: str, strides: dict[int, Expr], offset: Expr) -> Access:
    """Builds an access in normal form."""
    items = tuple(sorted((loop, as_expr(s)) for loop, s in strides.items() if s != 0))
    return Access(buffer, items, as_expr(offset))


def substitute_terms(
    strides: Iterable[tuple[int, Expr]], mapping: dict[int, list[tuple[int, Expr]]]
) -> dict[int, Expr]:
    """Rewrites a linear form over loops."""
    result: dict[int, Expr] = {}
    for loop, stride in strides:
        for new, scale in mapping.get(loop, [(loop, 1)]):
            result[new] = as_expr(result.get(new, 0) + stride * scale)
    return result


class Value:
    """A scalar value: an operation on other values. Made by `Builder` only.

    Attributes:
        op: name of the program instruction.
        args: operands. For load: (index or None, predicate or None).
        type: "F" float32 lanes, "I" int64 lanes, "B" truth lanes.
        attr: load: Access; const_f: float; const_i: Expr; iota: loop id; index_check: (Expr, bool).
        dtype: what Inductor believes the value's dtype to be; decides wrapping and rounding.
    """

    __slots__ = ("args", "attr", "dtype", "op", "type")

    def __init__(
        self, op: str, args: tuple[Value | None, ...], kind: str, attr: Any, dtype: torch.dtype
    ):
        self.op = op
        self.args = args
        self.type = kind
        self.attr = attr
        self.dtype = dtype

    @property
    def is_reduction(self) -> bool:
        """Whether it combines the iterations of the reduce loops."""
        return self.op.startswith("reduce_") or self.op == "dot"

    def direct_loops(self) -> frozenset[int]:
        """Loops that this value depends on itself, not through operands."""
        if self.op == "load":
            return self.attr.loops
        if self.op == "iota":
            return frozenset((self.attr,))
        return frozenset()


class Builder:
    """Makes values, one object per distinct expression."""

    def __init__(self) -> None:
        self._table: dict[tuple[Any, ...], Value] = {}

    def make(
        self,
        op: str,
        args: tuple[Value | None, ...],
        kind: str,
        dtype: torch.dtype,
        attr: Any = None,
    ) -> Value:
        """The value of this description, made if it is new."""
        # repr keeps 0.0 and -0.0, and nan and nan, apart and together as they should be
        attr_key = repr(attr) if isinstance(attr, float) else attr
        key = (op, tuple(id(arg) for arg in args), attr_key, dtype)
        value = self._table.get(key)
        if value is None:
            value = self._table[key] = Value(op, args, kind, attr, dtype)
        return value


@dataclass(frozen=True)
class Store:
    """A value written to memory; `add` adds to what is there."""

    access: Access
    value: Value
    index: Value | None = None
    predicate: Value | None = None
    add: bool = False

    def operands(self) -> Iterator[Value]:
        """Values that the store needs."""
        yield self.value
        if self.index is not None:
            yield self.index
        if self.predicate is not None:
            yield self.predicate


@dataclass
class Kernel:
    """One stage of a program to be.

    Attributes:
        origins: names of the graph operations it came from, for logs and reports.
        checks: values computed for their effect alone (index checks).
        notes: what passes want reports to say of it.
    """

    loops: list[Loop]
    stores: list[Store]
    builder: Builder
    name: str = "kernel"
    origins: tuple[str, ...] = ()
    checks: tuple[Value, ...] = ()
    notes: tuple[str, ...] = ()
    _values: list[Value] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def parallel(self) -> list[Loop]:
        """Parallel loops, outermost first."""
        return [loop for loop in self.loops if not loop.reduce]

    @property
    def reduce(self) -> list[Loop]:
        """Reduce loops, outermost first."""
        return [loop for loop in self.loops if loop.reduce]

    def roots(self) -> list[Value]:
        """Values that the kernel exists for."""
        return [v for store in self.stores for v in store.operands()] + list(self.checks)

    def values(self) -> list[Value]:
        """Every value needed, operands first. Kernels are not changed once made, so it is kept."""
        if self._values is None:
            self._values = topological(self.roots())
        return self._values

    def loads(self) -> list[Value]:
        """Loads, each once."""
        return [value for value in self.values() if value.op == "load"]

    def accesses(self) -> Iterator[Access]:
        """Every access, loads then stores."""
        for value in self.loads():
            yield value.attr
        for store in self.stores:
            yield store.access

    def reads(self) -> set[str]:
        """Names of buffers that it reads."""
        return {value.attr.buffer for value in self.loads()}

    def writes(self) -> set[str]:
        """Names of buffers that it writes."""
        return {store.access.buffer for store in self.stores}

    def has_dot(self) -> bool:
        """Whether it is a matrix product."""
        return any(value.op == "dot" for value in self.values())

    def numel(self, reduce: bool | None = None) -> Expr:
        """Iterations of the parallel loops, the reduce loops, or (None) all."""
        return product(
            loop.extent for loop in self.loops if reduce is None or loop.reduce == reduce
        )

    def rewritten(
        self, rewrite: Callable[[Value, tuple[Value | None, ...]], Value], **changes: Any
    ) -> Kernel:
        """A kernel whose values are remade bottom-up by `rewrite(value, new operands)`."""
        memo: dict[int, Value] = {}
        for value in self.values():
            args = tuple(None if arg is None else memo[id(arg)] for arg in value.args)
            memo[id(value)] = rewrite(value, args)
        stores = [
            replace(
                store,
                value=memo[id(store.value)],
                index=None if store.index is None else memo[id(store.index)],
                predicate=None if store.predicate is None else memo[id(store.predicate)],
            )
            for store in self.stores
        ]
        checks = tuple(memo[id(value)] for value in self.checks)
        return replace(self, stores=stores, checks=checks, **changes)

    def with_loops(self, loops: list[Loop], mapping: dict[int, list[tuple[int, Expr]]]) -> Kernel:
        """The same computation over other loops; `mapping` gives old loops as sums of new ones."""
        make = self.builder.make

        def rewrite(value: Value, args: tuple[Value | None, ...]) -> Value:
            if value.op == "load":
                return make("load", args, value.type, value.dtype, value.attr.substitute(mapping))
            if value.op == "iota" and value.attr in mapping:
                return self._iota_sum(mapping[value.attr])
            return make(value.op, args, value.type, value.dtype, value.attr)

        kernel = self.rewritten(rewrite, loops=loops)
        stores = [replace(s, access=s.access.substitute(mapping)) for s in kernel.stores]
        return replace(kernel, stores=stores)

    def _iota_sum(self, terms: list[tuple[int, Expr]]) -> Value:
        make, dtype = self.builder.make, torch.int64
        total: Value | None = None
        for loop, scale in terms:
            term = make("iota", (), "I", dtype, loop)
            if scale != 1:
                term = make("mul_i", (term, make("const_i", (), "I", dtype, scale)), "I", dtype)
            total = term if total is None else make("add_i", (total, term), "I", dtype)
        return make("const_i", (), "I", dtype, 0) if total is None else total

    def split(self, loop: Loop, inner: Expr, outer: Expr) -> tuple[Kernel, Loop, Loop]:
        """Splits a loop in two; returns the kernel and the outer and the inner loop."""
        outer_loop, inner_loop = Loop(outer, loop.reduce), Loop(inner, loop.reduce)
        loops: list[Loop] = []
        for each in self.loops:
            loops.extend((outer_loop, inner_loop) if each.id == loop.id else (each,))
        mapping = {loop.id: [(outer_loop.id, inner), (inner_loop.id, 1)]}
        return self.with_loops(loops, mapping), outer_loop, inner_loop

    def text(self) -> str:
        """For logs: the loops, the values and the stores."""
        names = {loop.id: f"{'r' if loop.reduce else 'i'}{n}" for n, loop in enumerate(self.loops)}

        def access(a: Access) -> str:
            terms = [f"{print_expr(s)}*{names.get(loop, '?')}" for loop, s in a.strides]
            return f"{a.buffer}[{' + '.join([*terms, print_expr(a.offset)])}]"

        lines = [f"kernel {self.name} from {', '.join(self.origins) or 'nothing'}"]
        lines += [
            f"  loop {names[loop.id]} < {print_expr(loop.extent)}"
            + (" reduce" if loop.reduce else "")
            + (f" parts {loop.parts}" if loop.parts else "")
            for loop in self.loops
        ]
        numbers: dict[int, int] = {}
        for number, value in enumerate(self.values()):
            numbers[id(value)] = number
            args = " ".join("-" if a is None else f"%{numbers[id(a)]}" for a in value.args)
            attr = value.attr
            shown = (
                access(attr)
                if isinstance(attr, Access)
                else names.get(attr, str(attr))
                if value.op == "iota"
                else ""
                if attr is None
                else str(attr)
            )
            lines.append(f"  %{number} = {value.op} {shown} {args}".rstrip())
        for store in self.stores:
            extra = "".join(
                f" {label} %{numbers[id(v)]}"
                for label, v in (("at", store.index), ("if", store.predicate))
                if v is not None
            )
            verb = "store_add" if store.add else "store"
            lines.append(f"  {verb} {access(store.access)} %{numbers[id(store.value)]}{extra}")
        return "\n".join(lines)


def topological(roots: Iterable[Value]) -> list[Value]:
    """Values that `roots` need, operands before users, each once."""
    order: list[Value] = []
    seen: set[int] = set()
    stack: list[tuple[Value, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        value, done = stack.pop()
        if done:
            order.append(value)
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        stack.append((value, True))
        stack.extend(
            (arg, False) for arg in reversed(value.args) if arg is not None and id(arg) not in seen
        )
    return order
