# SPDX-License-Identifier: Apache-2.0
"""Keeps results of scatters apart from an input that is written later.

Before: the graph without mutation but the `copy_` of a new value to an input at its end. Inductor
then lets a scatter into that input work in place, even where its result is used after the `copy_`
of another value, and finds that value there (PyTorch 2.13). After: such a scatter starts from a
copy of the input.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten

_SCATTERS = (
    aten.slice_scatter.default,
    aten.select_scatter.default,
    aten.diagonal_scatter.default,
    aten.as_strided_scatter.default,
    aten.index_put.default,
    aten._unsafe_index_put.default,
)


def keep_results(graph: torch.fx.Graph) -> bool:
    """Gives scatters a copy of an input where their result outlives it; whether any needed one."""
    places = {node: place for place, node in enumerate(graph.nodes)}
    copies: dict[Any, Any] = {}
    for node in graph.nodes:
        if node.target is aten.copy_.default and node.args[0].op == "placeholder":
            copies.setdefault(node.args[0], node)
    changed = False
    for node in list(graph.nodes) if copies else ():
        copy = copies.get(node.args[0]) if node.target in _SCATTERS else None
        if copy is None or not _outlives(node, copy, places):
            continue
        with graph.inserting_before(node):
            apart = graph.call_function(aten.clone.default, (node.args[0],))
        apart.meta = dict(node.args[0].meta)
        node.args = (apart, *node.args[1:])
        changed = True
    return changed


def _outlives(scatter: Any, copy: Any, places: dict[Any, int]) -> bool:
    """Whether a scatter in place would be read after the copy of another value to the input."""
    pending, seen = [scatter], set()
    while pending:
        node = pending.pop()
        if node in seen or node is copy.args[1]:
            continue
        seen.add(node)
        for user in node.users:
            if user is not copy and places[user] > places[copy]:
                return True
            if _is_view(user) or (user.target in _SCATTERS and user.args[0] is node):
                pending.append(user)
    return False


def _is_view(node: Any) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return any(result.alias_info is not None for result in node.target._schema.returns)
