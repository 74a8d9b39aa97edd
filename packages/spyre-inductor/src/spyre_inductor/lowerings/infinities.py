# SPDX-License-Identifier: Apache-2.0
"""Where infinities of the half dtypes must be told from numbers: casts, and reductions.

An infinity is +-2^32 in the half dtypes and IEEE's own in float32. Arithmetic takes 2^32 for the
number that it is: harmless in what goes back to a half as it came, but not in what is reduced,
where infinities meet each other, finite numbers and zero. Casts that decompositions make to compute
in float32 do without as well: they are many, and mostly of finite values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import lowerings
from torch._inductor.virtualized import V, ops
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree

from spyre_inductor.ops.table import SEN169_DTYPES, SEN169_INFINITY, SEN169_OVERFLOW

aten = torch.ops.aten
_CAST = torch.ops.prims.convert_element_type.default

# whose casts show an infinity: those written by the user, and of softmax, which is nan then
_WIDENING = {
    str(target)
    for target in (
        aten._to_copy.default,
        aten._softmax.default,
        aten._log_softmax.default,
        aten._safe_softmax.default,
    )
}
# a softmax is finite, its logarithm need not be
_NARROWING = {str(aten._to_copy.default), str(aten._log_softmax.default)}
# what asks whether a number is infinite
_TESTS = (aten.eq.Scalar, aten.ne.Scalar, aten.isinf.default)

_SPREADS = (aten.var.correction, aten.var_mean.correction)
_REDUCTIONS = (
    aten.sum.default,
    aten.sum.dim_IntList,
    aten.mean.default,
    aten.mean.dim,
    aten.prod.default,
    aten.prod.dim_int,
    *_SPREADS,
)
_VIEWS = (aten.view.default, aten.reshape.default, aten.unsqueeze.default, aten.squeeze.dim)
_EXACT = "spyre_keeps_infinities"  # in the meta of a cast


# --- casts ----------------------------------------------------------------------------------------


def _cast(x: Any, dtype: torch.dtype) -> Any:
    node = V.graph.current_node
    if node is None:
        return None
    if _is_reduced(node):
        return _stored(x, dtype)
    return exact_cast(x, dtype) if _shows_infinity(node) else None


def _origin(node: Any) -> str:
    return str(node.meta.get("original_aten"))  # by name, as graphs hold copies of operations


def _shows_infinity(node: Any) -> bool:
    """Whether a cast between a half dtype and float32 may meet an infinity that matters."""
    if node.args[1] is torch.float32:
        known = _origin(node) in _WIDENING or any(user.target in _TESTS for user in node.users)
        return known or _is_to_reduce(node)
    if _origin(node) in _NARROWING:
        return True
    # an operation that asks whether its operand is infinite computes with infinities
    return any(source.target in _TESTS for source in _within(node, lambda n: n.all_input_nodes))


def _is_to_reduce(node: Any) -> bool:
    """Whether a decomposition reduces what it computes of a cast; but see `cast_for_spreads`."""
    if node.meta.get(_EXACT):
        return True
    return any(
        user.target in _REDUCTIONS and user.target not in _SPREADS
        for user in _within(node, lambda n: n.users, through=lambda n: n.target not in _SPREADS)
    )


def _is_reduced(node: Any) -> bool:
    """Whether a cast is of what a decomposition has reduced, or of elements beside that."""
    if node.args[1] not in SEN169_DTYPES:
        return False
    count = node.meta["val"].numel()
    return any(
        source.target in _REDUCTIONS
        and statically_known_true(pytree.tree_leaves(source.meta["val"])[0].numel() == count)
        for source in _within(node, lambda n: n.all_input_nodes)
    )


def _within(
    node: Any,
    neighbours: Callable[[Any], Any],
    through: Callable[[Any], bool] = lambda node: True,
) -> Iterator[Any]:
    """Nodes of the same original operation that are reached from one."""
    pending, seen = list(neighbours(node)), set()
    while pending:
        other = pending.pop()
        if other in seen or _origin(other) != _origin(node):
            continue
        seen.add(other)
        yield other
        if through(other):
            pending.extend(neighbours(other))


def exact_cast(x: Any, dtype: torch.dtype) -> Any:
    """A cast between a half dtype and float32 that keeps infinities, or None if `x` needs none."""
    if not _is_between(x, dtype):
        return None
    source = x.get_dtype()
    load = x.make_loader()

    def inner(index: Sequence[Any]) -> Any:
        value = load(index)
        is_half = source in SEN169_DTYPES
        stored = ops.to_dtype(value, source, src_dtype=source) if is_half else value
        infinity = ops.copysign(ops.constant(math.inf, dtype), value)
        return ops.to_dtype(ops.where(ops.isinf(stored), infinity, value), dtype, src_dtype=source)

    return _pointwise(x, dtype, inner)


def _stored(x: Any, dtype: torch.dtype) -> Any:
    """What was reduced in float32 as a half is to hold it: infinite beyond the largest number."""
    if not _is_between(x, dtype):
        return None
    load = x.make_loader()

    def inner(index: Sequence[Any]) -> Any:
        value = load(index)
        bound = ops.constant(SEN169_OVERFLOW, torch.float32)
        infinity = ops.copysign(ops.constant(SEN169_INFINITY, torch.float32), value)
        fitting = ops.where(ops.ge(ops.abs(value), bound), infinity, value)
        return ops.to_dtype(fitting, dtype, src_dtype=torch.float32)

    return _pointwise(x, dtype, inner)


def _is_between(x: Any, dtype: torch.dtype) -> bool:
    if not isinstance(x, ir.TensorBox):
        return False
    source = x.get_dtype()
    is_floating = source.is_floating_point and dtype.is_floating_point
    return is_floating and (source in SEN169_DTYPES) != (dtype in SEN169_DTYPES)


def _pointwise(x: Any, dtype: torch.dtype, inner: Callable[[Sequence[Any]], Any]) -> Any:
    return ir.Pointwise.create(
        device=x.get_device(), dtype=dtype, inner_fn=inner, ranges=list(x.get_size())
    )


def cast_for_spreads(graph: torch.fx.Graph) -> bool:
    """Gives variances casts of their own, which keep infinities, in place of a decomposition's.

    In a norm the mean of an infinity is infinite, and deviations from that are whatever they are
    taken of: the norm's other use of the cast can do without.
    """
    changed = False
    for node in list(graph.nodes):
        if node.target not in _SPREADS:
            continue
        chain = [node.args[0]]
        while chain[-1].target in _VIEWS:
            chain.append(chain[-1].args[0])
        cast = chain.pop()
        if cast.target is not _CAST or cast.args[1] is not torch.float32:
            continue
        if cast.args[0].meta["val"].dtype not in SEN169_DTYPES:
            continue
        with graph.inserting_before(node):
            copy = graph.node_copy(cast)
            copy.meta[_EXACT] = True
            for view in reversed(chain):
                moved = {view.args[0]: copy}
                copy = graph.node_copy(view, lambda n, moved=moved: moved.get(n, n))
        node.replace_input_with(node.args[0], copy)
        changed = True
    return changed


# --- reductions -----------------------------------------------------------------------------------


def reduction(target: Any) -> Callable[..., Any]:
    """A reduction of halves, computed in float32 with infinities as such."""

    def lower(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, ir.TensorBox):
            return None
        wanted = kwargs.get("dtype") or x.get_dtype()
        wide = exact_cast(x, torch.float32) if wanted.is_floating_point else None
        if wide is None:
            return None
        if "dtype" in kwargs:
            kwargs["dtype"] = torch.float32
        result = lowerings[target](wide, *args, **kwargs)
        if wanted not in SEN169_DTYPES:
            return result
        return pytree.tree_map_only(ir.TensorBox, lambda each: _stored(each, wanted), result)

    return lower


# --- operations on a half and a float32 -----------------------------------------------------------


def _mixed(target: Any) -> Callable[..., Any]:
    def lower(*args: Any, **kwargs: Any) -> Any:
        """Widens half operands beside float32 ones as a cast does; weights of norms are finite."""
        node = V.graph.current_node
        if node is not None and "norm" in _origin(node):
            return None
        tensors = [arg for arg in args if isinstance(arg, ir.TensorBox)]
        if not any(t.get_dtype() is torch.float32 and t.get_size() for t in tensors):
            return None
        widened = [exact_cast(arg, torch.float32) for arg in args]
        if all(new is None for new in widened):
            return None
        operands = [old if new is None else new for old, new in zip(args, widened, strict=True)]
        return lowerings[target](*operands, **kwargs)

    return lower


INFINITIES: dict[Any, Callable[..., Any]] = {
    _CAST: _cast,
    **{target: reduction(target) for target in _REDUCTIONS},
    **{
        target: _mixed(target)
        for target in (
            aten.add.Tensor,
            aten.sub.Tensor,
            aten.mul.Tensor,
            aten.div.Tensor,
            aten.where.self,
            aten.maximum.default,
            aten.minimum.default,
            *(getattr(aten, name).Tensor for name in ("eq", "ne", "lt", "le", "gt", "ge")),
        )
    },
}
