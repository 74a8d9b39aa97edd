# SPDX-License-Identifier: Apache-2.0
"""Lowerings of aten operations for the device: matrix products, and the way out for what it lacks.

Every aten lowering is tried as Inductor has it. Its loop body is then run once against the op
table; if the device lacks something in it, the operation falls back to eager and the reason is
recorded. Verdicts are kept per operation and dtypes, so this costs one trial each.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.lowering import fallback_handler, lowerings, register_lowering, user_lowerings
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V, ops
from torch.utils import _pytree as pytree
from typing_extensions import override

from spyre_inductor import torch_compat
from spyre_inductor.errors import UnsupportedError
from spyre_inductor.ir.kernel import Builder, Value
from spyre_inductor.lowerings.convolution import CONVOLUTIONS
from spyre_inductor.lowerings.division import DIVISIONS
from spyre_inductor.lowerings.fallback import fall_back
from spyre_inductor.lowerings.infinities import INFINITIES
from spyre_inductor.lowerings.statistics import STATISTICS, correct_batch_norms
from spyre_inductor.ops.handler import ValueHandler
from spyre_inductor.ops.matmul import MATMUL
from spyre_inductor.ops.table import STORAGE_DTYPES
from spyre_inductor.report_log import note_graph

aten = torch.ops.aten

# nodes that the compilation under way found impossible after lowering; see `retry_unsupported`
_forced: contextvars.ContextVar[dict[str, str] | None] = contextvars.ContextVar(
    "forced", default=None
)

_verdicts: dict[tuple[Any, ...], str | None] = {}


def register() -> None:
    """Puts the device's lowerings before Inductor's, for graphs of the device only."""
    if MATMUL not in lowerings:
        register_lowering(MATMUL, type_promotion_kind=None)(_matmul)
    correct_batch_norms()
    for target in list(lowerings):
        if isinstance(target, torch._ops.OpOverload) and target not in user_lowerings:
            handler = HANDLERS.get(target)
            user_lowerings[target] = functools.partial(_lower, target, handler)


def _lower(target: Any, handler: Callable[..., Any] | None, *args: Any, **kwargs: Any) -> Any:
    """Returns None to leave the operation to Inductor."""
    forced = _forced.get()
    if not _on_device(args, kwargs):
        return _host_op(target, args, kwargs) if forced is not None else None
    if forced and (node := V.graph.current_node) is not None and node.name in forced:
        return fall_back(target, forced[node.name], args, kwargs)
    if handler is not None:
        result = handler(*args, **kwargs)
        if result is not None:
            return result
    lowering = lowerings[target]
    if getattr(lowering, "_is_fallback_handler", False) or _is_mutable(target):
        return None
    key = (target, _signature(args, kwargs))
    known = _verdicts.get(key)
    if known is not None:
        return fall_back(target, known, args, kwargs)
    try:
        result = lowering(*args, **kwargs)
    except IndexError as error:  # no index is in range of nothing: eager says so when it runs
        return fall_back(target, str(error), args, kwargs)
    if key not in _verdicts:
        _verdicts[key] = _verdict(result)
        if _verdicts[key] is not None:
            return fall_back(target, _verdicts[key], args, kwargs)  # type: ignore[arg-type]
    return result


def _host_op(target: Any, args: Any, kwargs: Any) -> Any:
    """Host work inside a graph of the device runs eagerly: its code would need a compiler."""
    returns_view = any(result.alias_info is not None for result in target._schema.returns)
    on_host = "cpu" in _devices(args, kwargs)
    if returns_view or not on_host or getattr(lowerings[target], "_is_fallback_handler", False):
        return None
    return fall_back(target, "host work in a graph of the device runs eagerly", args, kwargs)


def _is_mutable(target: Any) -> bool:
    return bool(target._schema.is_mutable)


def _devices(args: Any, kwargs: Any) -> set[str]:
    """Types of the devices that the tensors among the arguments are on."""
    leaves = pytree.tree_leaves((args, kwargs))
    devices = [leaf.get_device() for leaf in leaves if isinstance(leaf, ir.TensorBox)]
    return {device.type for device in devices if device is not None}


def _on_device(args: Any, kwargs: Any) -> bool:
    for arg in (*args, *kwargs.values()):
        for leaf in arg if isinstance(arg, (list, tuple)) else (arg,):
            if isinstance(leaf, torch.device):
                if leaf.type == torch_compat.DEVICE_TYPE:
                    return True
            elif isinstance(leaf, ir.TensorBox):
                device = leaf.get_device()
                if device is not None and device.type == torch_compat.DEVICE_TYPE:
                    return True
    return False


def _signature(args: Any, kwargs: Any) -> tuple[Any, ...]:
    leaves = pytree.tree_leaves((args, kwargs))
    return tuple(
        leaf.get_dtype() if isinstance(leaf, ir.TensorBox) else leaf
        for leaf in leaves
        if isinstance(leaf, (ir.TensorBox, torch.dtype, str, bool))
    )


# --- trials ---------------------------------------------------------------------------------------


class TrialHandler(ValueHandler):
    """Runs a loop body for its operations alone; memory and indices cost nothing."""

    def __init__(self) -> None:
        super().__init__(Builder())

    @override
    def load(self, name: str, index: Any) -> Value:
        return self.emit("load", dtype=_dtype(V.graph.get_dtype(name)), attr=(name, index))

    @override
    def load_seed(self, name: str, offset: Any) -> Value:
        return self.load(name, offset)

    @override
    def index_expr(self, expr: Any, dtype: torch.dtype) -> Value:
        return self.to_dtype(self.emit("const_i", dtype=torch.int64, attr=expr), _dtype(dtype))

    value_expr = index_expr

    @override
    def indirect_indexing(
        self, index_var: Any, size: Any, check: bool = True, wrap_neg: bool = True
    ) -> Any:
        return sympy.Symbol("lane_index", integer=True)

    @override
    def check_bounds(self, index: Any, size: Any, lower: bool, upper: bool) -> None:
        return None

    @override
    def masked(self, mask: Any, body: Callable[[], Any], other: Any) -> Value:
        result = self.value(body())
        return self.where(mask, result, self.constant(other, result.dtype))

    @override
    def reduce_count(self) -> Value:
        return self.constant(1.0, torch.float32)


def _dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype is torch.float64 else dtype


def _verdict(result: Any) -> str | None:
    """Why the device cannot run what a lowering made, or None."""
    for leaf in pytree.tree_leaves(result):
        if not isinstance(leaf, ir.TensorBox):
            continue
        loops = leaf
        while isinstance(loops, (ir.MutableBox, ir.BaseView, ir.ComputedBuffer)):
            loops = loops.data
        if not isinstance(loops, ir.Loops):
            continue
        try:
            _try_loops(loops)
        except UnsupportedError as error:
            return str(error)
    return None


def _try_loops(loops: ir.Loops) -> None:
    if loops.dtype not in STORAGE_DTYPES:
        raise UnsupportedError(f"{loops.dtype} has no device format")
    handler = TrialHandler()
    with V.set_ops_handler(handler), torch_compat.indexing_before_layout():
        index = [sympy.Symbol(f"trial{n}", integer=True) for n in range(len(loops.get_size()))]
        if isinstance(loops, ir.Reduction):
            inner = [
                sympy.Symbol(f"trial_r{n}", integer=True)
                for n in range(len(loops.reduction_ranges))
            ]
            value = loops.inner_fn(index, inner)
            handler.reduction(
                _dtype(loops.dtype), _dtype(loops.src_dtype), loops.reduction_type, value
            )
        elif isinstance(loops, (ir.Scan, ir.Sort)):
            raise UnsupportedError(f"the device has no {type(loops).__name__.lower()}")
        else:
            loops.inner_fn(index)


# --- matrix products ------------------------------------------------------------------------------

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def _operand(x: ir.TensorBox) -> ir.TensorBox:
    """Puts an operand in memory, leaving its views to be folded into the access."""
    data = x.data
    while isinstance(data, ir.BaseView):
        data = data.data
    if isinstance(data, ir.MutableBox):
        data.realize()
    return x


def _dot(a: ir.TensorBox, b: ir.TensorBox, dtype: torch.dtype) -> ir.TensorBox | None:
    """The product a @ b, or None where a dot is not it."""
    if a.get_dtype() not in _FLOATS or a.get_dtype() != b.get_dtype() or dtype not in _FLOATS:
        return None
    a, b = _operand(a), _operand(b)
    a_size, b_size = a.get_size(), b.get_size()
    ranges = [*a_size[:-1], b_size[-1]]
    depth = a_size[-1]
    if V.graph.sizevars.statically_known_equals(depth, 0):  # a sum of nothing
        return lowerings[aten.full.default](ranges, 0, dtype=dtype, device=a.get_device())
    if V.graph.sizevars.statically_known_equals(depth, 1):
        return None
    with ir.ComputedBuffer.force_realize():  # a product loads its operands, constants as well
        load_a, load_b = a.make_loader(), b.make_loader()

    def inner(index: Sequence[Any], reduce: Sequence[Any]) -> Any:
        *batch, m, n = index
        (k,) = reduce
        return ops.dot(load_a([*batch, m, k]), load_b([*batch, k, n]))

    result = ir.Reduction.create(
        device=a.get_device(),
        dst_dtype=dtype,
        src_dtype=a.get_dtype(),
        inner_fn=inner,
        ranges=ranges,
        reduction_ranges=[depth],
        reduction_type="dot",
    )
    result.realize()
    return result


def _mm(a: Any, b: Any, out_dtype: torch.dtype | None = None) -> Any:
    return _dot(a, b, out_dtype or a.get_dtype())


def _with_bias(bias: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """Beta * bias + alpha * product; a beta of zero ignores the bias, even its nans."""
    if alpha != 1:
        product = lowerings[aten.mul.Tensor](product, alpha)
    if beta == 0:
        return product
    if beta != 1:
        bias = lowerings[aten.mul.Tensor](bias, beta)
    return lowerings[aten.add.Tensor](product, bias)


def _matmul(a: Any, b: Any, dtype: torch.dtype) -> Any:
    result = _dot(a, b, dtype)
    return (
        fallback_handler(MATMUL, add_to_fallback_set=False)(a, b, dtype)
        if result is None
        else result
    )


def _addmm(bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _mm(a, b)
    return None if product is None else _with_bias(bias, product, beta, alpha)


MATMULS: dict[Any, Callable[..., Any]] = {
    aten.mm.default: _mm,
    aten.bmm.default: _mm,
    aten.addmm.default: _addmm,
    aten.baddbmm.default: _addmm,
}


def _arg_reduce(target: Any) -> Callable[..., Any]:
    def lower(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        """Over all dimensions: in one flat loop, which no loop order but the row-major one fits."""
        rank = len(x.get_size())
        if dim is not None or rank < 2:
            return None
        flat = lowerings[aten.reshape.default](x, [sympy_product(x.get_size())])
        result = lowerings[target](flat, 0, False)
        return lowerings[aten.reshape.default](result, [1] * rank) if keepdim else result

    return lower


ARG_REDUCTIONS = {
    target: _arg_reduce(target) for target in (aten.argmax.default, aten.argmin.default)
}


def _any(target: Any) -> Callable[..., Any]:
    def lower(x: Any, *args: Any, **kwargs: Any) -> Any:
        """Of uint8 it is uint8, as the graph says; Inductor gives bool."""
        if x.get_dtype() is not torch.uint8:
            return None
        truth = lowerings[target](x, *args, **kwargs)
        return lowerings[torch.ops.prims.convert_element_type.default](truth, torch.uint8)

    return lower


ANY = {target: _any(target) for target in (aten.any.default, aten.any.dim, aten.any.dims)}


# --- assertions -----------------------------------------------------------------------------------


def _eager(target: Any, reason: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: fall_back(target, reason, args, kwargs)


ASSERTIONS = {
    target: _eager(target, "an assertion is checked on the host")
    for target in (aten._assert_async.default, aten._assert_async.msg)
}

HANDLERS: dict[Any, Callable[..., Any]] = {
    **MATMULS,
    **CONVOLUTIONS,
    **ARG_REDUCTIONS,
    **ANY,
    **DIVISIONS,
    **INFINITIES,
    **STATISTICS,
    **ASSERTIONS,
}


# --- retries --------------------------------------------------------------------------------------


def retry_unsupported(inner_compile: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles again with eager fallbacks for what turned out not to be expressible."""

    @functools.wraps(inner_compile)
    def compile_graph(gm: Any, *args: Any, **kwargs: Any) -> Any:
        note_graph()
        forced: dict[str, str] = {}
        token = _forced.set(forced)
        pristine, meta = _copy_graph(gm.graph), dict(gm.meta)
        attempt = gm
        try:
            for _ in range(8):
                torch_compat.take_unsupported()
                try:
                    return inner_compile(attempt, *args, **kwargs)
                except Exception:
                    fresh = torch_compat.take_unsupported()
                    if not fresh.keys() - forced.keys():
                        raise
                    forced.update(fresh)
                attempt = torch.fx.GraphModule(gm, _copy_graph(pristine))
                attempt.meta.update(meta)
            return inner_compile(attempt, *args, **kwargs)
        finally:
            _forced.reset(token)

    return compile_graph


def _copy_graph(graph: torch.fx.Graph) -> torch.fx.Graph:
    copy = torch.fx.Graph(owning_module=graph.owning_module, tracer_cls=graph._tracer_cls)
    mapping: dict[torch.fx.Node, torch.fx.Node] = {}
    output = copy.graph_copy(graph, mapping)
    for old in graph.nodes:
        if old.op == "output":
            copy.output(output)
            copy.output_node().meta = dict(old.meta)
        else:
            mapping[old].meta = dict(old.meta)
    copy._codegen = graph._codegen
    return copy
