# SPDX-License-Identifier: Apache-2.0
"""Rewrites of the FX graph before lowering.

Before: the graph as Inductor's own passes left it. After: matrix products read the half tensors
that were widened for them (the matrix units take halves anyway, so the product is the same), no
copies are made only to bring operands into another order, and variances see infinities of halves.

Also the place where this package enters Inductor's cache keys: `uuid()`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from typing_extensions import override

from spyre_inductor import torch_compat
from spyre_inductor.config import compiler_config
from spyre_inductor.lowerings.infinities import cast_for_spreads
from spyre_inductor.ops.matmul import MATMUL
from spyre_inductor.passes.keep_results import keep_results

aten = torch.ops.aten

Node: TypeAlias = Any  # torch.fx.Node, whose arguments have too wide a type to work with

_VIEWS: set[Any] = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    aten.expand.default,
    aten.permute.default,
    aten.transpose.int,
    aten.t.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
}
_OPERANDS: dict[Any, tuple[int, int]] = {
    aten.mm.default: (0, 1),
    aten.bmm.default: (0, 1),
    aten.addmm.default: (1, 2),
    aten.baddbmm.default: (1, 2),
}
_HALVES = (torch.float16, torch.bfloat16)


class GraphRewrite(CustomGraphModulePass):
    """Inductor's per-device pass: called for graphs that have a tensor on the device."""

    @override
    def __call__(self, gm: torch.fx.GraphModule) -> None:
        gm.graph.eliminate_dead_code()
        changed = _cast_after_leaving(gm.graph)
        changed |= _constants_on_host(gm.graph)
        changed |= cast_for_spreads(gm.graph)
        changed |= keep_results(gm.graph)
        for node in list(gm.graph.nodes):
            if node.op == "call_function" and node.target in _OPERANDS and _is_ours(node):
                changed |= _rewrite_operands(node)
        if changed:
            gm.graph.eliminate_dead_code()
            gm.recompile()

    @override
    def uuid(self) -> Any:
        from spyre_inductor.register import package_versions

        return f"spyre: {package_versions()}; {compiler_config().key()}"


def _cast_after_leaving(graph: torch.fx.Graph) -> bool:
    """A cast to float64 on the way to the host is done there: the device has no such format."""
    changed = False
    for node in list(graph.nodes):
        if node.target is not torch.ops.prims.convert_element_type.default or not _is_ours(node):
            continue
        users = list(node.users)
        leaves = all(user.target is torch.ops.prims.device_put.default for user in users)
        if node.args[1] is not torch.float64 or not users or not leaves:
            continue
        for user in users:
            with graph.inserting_after(user):
                cast = graph.call_function(node.target, (user, torch.float64))
            cast.meta = dict(user.meta)
            user.replace_all_uses_with(cast, delete_user_cb=lambda u, cast=cast: u is not cast)
            user.args = (node.args[0], *user.args[1:])
            value = user.meta["val"]
            with value.fake_mode:
                user.meta["val"] = value.to(node.args[0].meta["val"].dtype)
        graph.erase_node(node)
        changed = True
    return changed


def _constants_on_host(graph: torch.fx.Graph) -> bool:
    """What is computed in float64 from no input is computed on the host and sent over.

    Decompositions of factories (`tril_indices`, `logspace`) do so; the device has no float64.
    """
    known: dict[Node, None] = {}  # on the device, from no input
    wanted: set[Node] = set()
    for node in graph.nodes:
        sources = node.all_input_nodes
        closed = all(s in known or isinstance(s.meta.get("val"), torch.SymInt) for s in sources)
        if node.op != "call_function" or not closed or not _is_ours(node) or _is_impure(node):
            continue
        known[node] = None
        wide = node.meta["val"].dtype is torch.float64
        if wide or any(s in wanted and _is_float64(s) for s in sources):
            wanted.add(node)
    for node in reversed(list(known)):  # and what those need
        if node in wanted:
            wanted.update(source for source in node.all_input_nodes if source in known)
    copies: dict[Node, Node] = {}
    for node in known:
        if node not in wanted:
            continue
        with graph.inserting_before(node):
            copy = graph.node_copy(node, lambda n: copies.get(n, n))
        if "device" in copy.kwargs:
            copy.kwargs = {**copy.kwargs, "device": torch.device("cpu")}
        value = node.meta["val"]
        copy.meta = dict(node.meta)
        with value.fake_mode:
            copy.meta["val"] = value.to("cpu")
        copies[node] = copy
    for node, copy in copies.items():
        outside = [user for user in node.users if user not in copies]
        if not outside or _is_float64(node):
            continue
        with graph.inserting_after(copy):
            sent = graph.call_function(
                torch.ops.prims.device_put.default, (copy, node.meta["val"].device)
            )
        sent.meta = dict(node.meta)
        node.replace_all_uses_with(sent, delete_user_cb=lambda user: user not in copies)
    return bool(copies)


def _is_float64(node: Node) -> bool:
    return node.meta["val"].dtype is torch.float64


def _is_impure(node: Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return node.is_impure() or torch.Tag.nondeterministic_seeded in tags


def _is_ours(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type == torch_compat.DEVICE_TYPE


def _rewrite_operands(node: Node) -> bool:
    places = _OPERANDS[node.target]
    operands = [node.args[place] for place in places]
    if not all(isinstance(operand, torch.fx.Node) for operand in operands):
        return False
    sources = [_source(operand) for operand in operands]
    dtypes = [source.meta["val"].dtype for source in sources]
    halves = {dtype for dtype in dtypes if dtype in _HALVES}
    narrow: torch.dtype | None = None
    if len(halves) == 1 and dtypes[0] != dtypes[1]:
        # the other one is float32: narrow it where it is made, if nobody else reads it
        narrow = halves.pop()
        wide = dtypes.index(torch.float32) if torch.float32 in dtypes else None
        if wide is None or not _is_private(sources[wide], operands[wide]):
            return False
    elif dtypes == [torch.float32, torch.float32]:
        if all(_is_private(s, o) for s, o in zip(sources, operands, strict=True)):
            narrow = torch.float16
    elif dtypes[0] != dtypes[1]:
        return False
    bases: dict[Node, Node] = {}
    for source in sources:
        if narrow is not None and source.meta["val"].dtype is torch.float32:
            bases[source] = _cast(source, narrow)
    rebuilt = [_rebuild(operand, bases) for operand in operands]
    if all(new is old for new, old in zip(rebuilt, operands, strict=True)):
        return False
    if any(new.meta["val"].dtype is not node.meta["val"].dtype for new in rebuilt):
        return _widen_product(node, rebuilt)
    args = list(node.args)
    for place, new in zip(places, rebuilt, strict=True):
        args[place] = new
    node.args = tuple(args)
    return True


def _widen_product(node: Node, operands: list[Node]) -> bool:
    """Replaces a product by one of narrow operands with a result as wide as before."""
    if node.kwargs and any(node.kwargs.get(scale, 1) != 1 for scale in ("alpha", "beta")):
        return False
    value = node.meta["val"]
    graph = node.graph
    with graph.inserting_before(node):
        result = graph.call_function(MATMUL, (*operands, value.dtype))
        result.meta = dict(node.meta)
        if node.target in (aten.addmm.default, aten.baddbmm.default):
            product = result
            result = graph.call_function(aten.add.Tensor, (product, node.args[0]))
            result.meta = dict(node.meta)
    node.replace_all_uses_with(result)
    graph.erase_node(node)
    return True


def _is_private(source: Node, operand: Node) -> bool:
    """Whether nothing reads `source` but the chain of views that ends in `operand`."""
    if source.op != "call_function" or source.target in _OPERANDS or source.target is MATMUL:
        return False
    node = operand
    while node is not source:
        if len(node.users) != 1:
            return False
        node = node.args[0]
    return len(source.users) == 1


def _cast(source: Node, dtype: torch.dtype) -> Node:
    target = torch.ops.prims.convert_element_type.default
    with source.graph.inserting_after(source):
        node = source.graph.call_function(target, (source, dtype))
    value = source.meta["val"]
    node.meta = dict(source.meta)
    with value.fake_mode:
        node.meta["val"] = value.to(dtype)
    return node


def _is_widening(node: Node) -> bool:
    if node.target is not torch.ops.prims.convert_element_type.default:
        return False
    source = node.args[0].meta.get("val")
    return (
        node.args[1] is torch.float32
        and isinstance(source, torch.Tensor)
        and source.dtype in _HALVES
    )


def _is_reorder(node: Node) -> bool:
    return node.target is aten.clone.default and len(node.users) == 1


def _source(node: Node) -> Node:
    """The tensor that an operand shows, through views, widening casts and reordering copies."""
    while node.op == "call_function" and (
        _is_widening(node) or node.target in _VIEWS or _is_reorder(node)
    ):
        node = node.args[0]
    return node


def _rebuild(node: Node, bases: dict[Node, Node]) -> Node:
    """The operand's chain of views, on its source or what replaces that."""
    if node in bases:
        return bases[node]
    if node.op != "call_function":
        return node
    if _is_widening(node) or _is_reorder(node):
        return _rebuild(node.args[0], bases)
    if node.target not in _VIEWS:
        return node
    base = _rebuild(node.args[0], bases)
    if base is node.args[0]:
        return node
    is_view = node.target in (aten.view.default, aten._unsafe_view.default)
    target = aten.reshape.default if is_view else node.target
    with node.graph.inserting_before(node):
        copy = node.graph.call_function(target, (base, *node.args[1:]), dict(node.kwargs))
    copy.meta = dict(node.meta)
    value = node.meta["val"]
    with value.fake_mode:
        copy.meta["val"] = torch.empty_strided(
            value.size(), value.stride(), dtype=base.meta["val"].dtype, device=value.device
        )
    return copy
