# SPDX-License-Identifier: Apache-2.0
"""Fusion: kernels over one iteration space become one.

Before: one kernel for each graph operation that Inductor left, in execution order.
After: fewer kernels in a valid order; values that one kernel stored and the next loaded pass in
registers, unrounded. Stores that nobody needs any more are dropped by `passes/place_buffers.py`.

A kernel joins an earlier one if every value it takes from it is taken at the iteration that stored
it (`ir/align.py` finds the common space), and if nothing between them in the order is disturbed. A
dot takes no producer: its operands are read from memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spyre_inductor.ir.align import NoPairingError, Pairing
from spyre_inductor.ir.expr import Expr, as_expr, is_equal
from spyre_inductor.ir.kernel import Access, Kernel, Loop, Store, Value

MAX_VALUES = 400  # of a fused kernel: more no longer save memory traffic worth the compile time
MAX_BUFFERS = 48


def fuse(kernels: list[Kernel], root_of: Callable[[str], str]) -> list[Kernel]:
    """Fuses a list of kernels in execution order.

    Args:
        kernels: the kernels.
        root_of: the memory that a buffer lies in, for buffers that are parts of others (concat).
    """
    result: list[Kernel] = []
    for kernel in kernels:
        for place in range(len(result) - 1, _earliest(result, kernel, root_of) - 1, -1):
            joined = try_join(result[place], kernel, root_of)
            if joined is not None:
                result[place] = joined
                break
        else:
            result.append(kernel)
    return result


def _earliest(before: list[Kernel], kernel: Kernel, root_of: Callable[[str], str]) -> int:
    """First place in `before` that `kernel` may join: that of the last kernel it depends on."""
    reads = {root_of(b) for b in kernel.reads()}
    writes = {root_of(b) for b in kernel.writes()}
    for place in range(len(before) - 1, -1, -1):
        other_writes = {root_of(b) for b in before[place].writes()}
        other_reads = {root_of(b) for b in before[place].reads()}
        if reads & other_writes or writes & (other_writes | other_reads):
            return place
    return 0


def try_join(a: Kernel, b: Kernel, root_of: Callable[[str], str]) -> Kernel | None:
    """One kernel that does `a` and then `b`, or None."""
    try:
        return _join(a, b, root_of)
    except NoPairingError:
        return None


def _join(a: Kernel, b: Kernel, root_of: Callable[[str], str]) -> Kernel:
    stored = {store.access.buffer: store for store in a.stores}
    links = _links(a, b, stored, root_of)
    if not links and not a.reads() & b.reads():
        raise NoPairingError("nothing shared")
    if b.has_dot():
        raise NoPairingError("a dot reads its operands from memory")
    if a.has_dot() and (b.reduce or not links):
        raise NoPairingError("after a dot only its epilogue runs")
    if a.has_dot() and any(store.add or store.index is not None for store in b.stores):
        raise NoPairingError("iterations of a dot have no order, which a scatter needs")
    if len(a.values()) + len(b.values()) > MAX_VALUES:
        raise NoPairingError("the kernel would grow too large")
    if len(a.reads() | a.writes() | b.reads() | b.writes()) > MAX_BUFFERS:
        raise NoPairingError("the kernel would touch too many buffers")
    pairing = Pairing(a, b)
    pair_rest = _targets(a, b, bool(links))
    for name, offset in links.items():
        if not is_equal(stored[name].access.offset, offset):
            raise NoPairingError(f"{name} is read at another offset")
        store = next(s for s in pairing.a.stores if s.access.buffer == name)
        load = next(v for v in pairing.b.loads() if v.attr.buffer == name)
        pairing.pair_accesses(store.access, load.attr)
    pair_rest(pairing)
    return _combine(pairing, bool(links))


def _links(
    a: Kernel, b: Kernel, stored: dict[str, Store], root_of: Callable[[str], str]
) -> dict[str, Expr]:
    """Buffers b loads of those a stores; refuses hazards that a common iteration does not cure."""
    links: dict[str, Expr] = {}
    accesses: dict[str, Access] = {}
    a_roots = {root_of(name) for name in a.writes()}
    a_writes = [store.access.buffer for store in a.stores]
    for load in b.loads():
        name = load.attr.buffer
        if root_of(name) not in a_roots:
            continue
        if name not in stored or a_writes.count(name) > 1:
            raise NoPairingError(f"{name} is written in parts")
        store = stored[name]
        if store.add or store.index is not None or store.predicate is not None:
            raise NoPairingError(f"{name} is scattered")
        if any(arg is not None for arg in load.args):
            raise NoPairingError(f"{name} is gathered")
        if accesses.setdefault(name, load.attr) != load.attr:
            raise NoPairingError(f"{name} is read in two ways")
        links[name] = load.attr.offset
    b_roots = {root_of(name) for name in b.writes()}
    if b_roots & {root_of(name) for name in a.reads() | a.writes()}:
        raise NoPairingError("it overwrites what the other reads or writes")
    return links


def _targets(a: Kernel, b: Kernel, linked: bool) -> Callable[[Pairing], None]:
    """Decides which loops of a are which of b's; returns what pairs those that no access paired."""
    a_par, a_red = a.numel(reduce=False), a.numel(reduce=True)
    b_par, b_red = b.numel(reduce=False), b.numel(reduce=True)
    if a.reduce and b.reduce:
        if not (is_equal(a_par, b_par) and is_equal(a_red, b_red)):
            raise NoPairingError("the reductions run over different spaces")

        def both(p: Pairing) -> None:
            p.pair_rest(p.a.parallel, p.b.parallel)
            p.pair_rest(p.a.reduce, p.b.reduce)

        return both
    if b.reduce:  # a is pointwise
        if linked and is_equal(a_par, as_expr(b_par * b_red)):
            return lambda p: p.pair_rest(p.a.loops, p.b.loops)
        if linked and is_equal(a_par, b_par):
            return lambda p: p.pair_rest(p.a.loops, p.b.parallel)
        raise NoPairingError("the reduction has another space")
    if is_equal(a_par, b_par) and (linked or not a.reduce):
        return lambda p: p.pair_rest(p.a.parallel, p.b.loops)
    if a.reduce and is_equal(as_expr(a_par * a_red), b_par) and not a.has_dot():
        return lambda p: p.pair_rest(p.a.loops, p.b.loops)
    raise NoPairingError("the iteration spaces have different sizes")


def _combine(pairing: Pairing, linked: bool) -> Kernel:
    a, b = pairing.a, pairing.b
    mapping = {old: [(new, 1)] for old, new in pairing.to_a.items()}
    b_loops = {loop.id: loop for loop in b.loops}
    to_b = {new: old for old, new in pairing.to_a.items()}
    loops: list[Loop] = []
    for loop in a.loops:
        partner = b_loops[to_b[loop.id]] if loop.id in to_b else None
        if partner is not None and partner.reduce != loop.reduce:
            if b.reduce and a.reduce:
                raise NoPairingError("a loop is reduced in one kernel and parallel in the other")
            if (
                partner.reduce and not loop.reduce
            ):  # a was pointwise: its loop becomes a reduce loop
                loop = replace(loop, reduce=True)
        loops.append(loop)
    ones = [loop for loop in b.loops if loop.id not in pairing.to_a]
    mapping.update({loop.id: [] for loop in ones if loop.extent == 1})
    loops.extend(loop for loop in ones if loop.extent != 1)
    parallel = [loop for loop in loops if not loop.reduce]
    reduce = [loop for loop in loops if loop.reduce]
    _check_arg_order(a, reduce)
    _check_arg_order(
        b,
        [
            b_loops[to_b.get(loop.id, loop.id)]
            for loop in reduce
            if to_b.get(loop.id, loop.id) in b_loops
        ],
    )
    b = b.with_loops([*parallel, *reduce], mapping)
    stored = {store.access.buffer: store for store in a.stores}

    def rewrite(value: Value, args: tuple[Value | None, ...]) -> Value:
        if value.op == "load" and value.attr.buffer in stored:
            store = stored[value.attr.buffer]
            if store.access != value.attr:
                raise NoPairingError(f"{value.attr.buffer} is not read where it is written")
            return store.value
        return b.builder.make(value.op, args, value.type, value.dtype, value.attr)

    if linked:
        b = b.rewritten(rewrite)
    elif not {v.attr for v in a.loads()} & {v.attr for v in b.loads()}:
        raise NoPairingError("no load in common")
    origins = tuple(dict.fromkeys(a.origins + b.origins))
    joined = replace(
        a,
        loops=[*parallel, *reduce],
        stores=[*a.stores, *b.stores],
        checks=(*a.checks, *b.checks),
        origins=origins,
        name=a.name,
    )
    _check_stores(joined)
    return joined


def _check_arg_order(kernel: Kernel, reduce: list[Loop]) -> None:
    """An arg reduction counts its reduce loops row-major, so their order must not change."""
    if any(v.op.startswith("reduce_arg") for v in kernel.values()):
        order = {loop.id: n for n, loop in enumerate(kernel.reduce)}
        places = [order[loop.id] for loop in reduce if loop.id in order]
        if places != sorted(places):
            raise NoPairingError("an arg reduction needs its loops in order")


def _check_stores(kernel: Kernel) -> None:
    """A store must run over every loop that its value depends on: else lanes would race."""
    for store in kernel.stores:
        loops = store.access.loops
        if store.index is not None:
            continue
        missing = [l for l in kernel.parallel if l.id not in loops and l.extent != 1]
        if missing:
            raise NoPairingError("a store would repeat over loops it does not depend on")
