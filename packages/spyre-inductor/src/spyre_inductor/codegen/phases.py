# SPDX-License-Identifier: Apache-2.0
"""Distributes a kernel's values over the phases of a stage.

A value that depends on a reduce loop lives in reduce phases; one that does not, outside them. Its
depth is the number of reductions on its longest path. Phases alternate: parallel values of depth 0,
reduce phase 0, parallel values of depth 1, and so on. Parallel values are computed once and kept;
values over the reduce loops are computed again in each reduce phase that needs them: registers do
not outlive a reduce phase.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from spyre_inductor.ir.kernel import Kernel, Store, Value


@dataclass
class PhasePlan:
    """One phase: values in order, then stores, each store after its operands."""

    reduce: bool
    values: list[Value] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)


def plan_phases(kernel: Kernel) -> list[PhasePlan]:
    """The phases of a kernel, none of them empty."""
    reduce_loops = frozenset(loop.id for loop in kernel.reduce)
    order = kernel.values()
    varies: dict[int, bool] = {}
    depth: dict[int, int] = {}
    for value in order:
        args = [arg for arg in value.args if arg is not None]
        below = max((depth[id(arg)] for arg in args), default=0)
        depth[id(value)] = below + 1 if value.is_reduction else below
        varies[id(value)] = not value.is_reduction and (
            bool(value.direct_loops() & reduce_loops) or any(varies[id(arg)] for arg in args)
        )

    def store_varies(store: Store) -> bool:
        return bool(store.access.loops & reduce_loops) or any(
            varies[id(v)] for v in store.operands()
        )

    def store_depth(store: Store) -> int:
        return max(depth[id(v)] for v in store.operands())

    top = max(
        [store_depth(s) for s in kernel.stores] + [depth[id(v)] for v in kernel.checks], default=0
    )
    phases: list[PhasePlan] = []
    kept: set[int] = set()
    for level in range(top + 1):
        parallel, reduce = PhasePlan(False), PhasePlan(True)
        parallel.stores = [
            s for s in kernel.stores if store_depth(s) == level and not store_varies(s)
        ]
        reduce.stores = [s for s in kernel.stores if store_depth(s) == level and store_varies(s)]
        checks = [v for v in kernel.checks if depth[id(v)] == level]
        reductions = [v for v in order if v.is_reduction and depth[id(v)] == level + 1]
        ending = {id(v) for v in reductions}
        reduce_roots = [v for s in reduce.stores for v in s.operands()] + reductions
        reduce_roots += [v for v in checks if varies[id(v)]]
        parallel_roots = [v for s in parallel.stores for v in s.operands()]
        parallel_roots += [v for v in checks if not varies[id(v)]]
        known = {id(v) for v in order if not varies[id(v)] and id(v) not in ending}
        reduce_values = _needed(reduce_roots, known)
        inside = {id(v) for v in reduce_values if varies[id(v)] or id(v) in ending}
        parallel_roots += [v for v in reduce_values if id(v) not in inside]
        parallel.values = [
            v for v in _needed(parallel_roots, kept) if id(v) not in kept and not v.is_reduction
        ]
        kept.update(id(v) for v in parallel.values)
        reduce.values = [v for v in reduce_values if id(v) in inside]
        kept.update(id(v) for v in reductions)
        phases += [p for p in (parallel, reduce) if p.values or p.stores]
    return phases


def _needed(roots: list[Value], known: set[int]) -> list[Value]:
    """Values that roots need, operands first; does not look behind those whose ids are known."""
    order: list[Value] = []
    seen: set[int] = set()
    stack: list[tuple[Value, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        value, done = stack.pop()
        if done:
            order.append(value)
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        stack.append((value, True))
        if id(value) not in known:
            stack.extend(
                (a, False) for a in reversed(value.args) if a is not None and id(a) not in seen
            )
    return order
