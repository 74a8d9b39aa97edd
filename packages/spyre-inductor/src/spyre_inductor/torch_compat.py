# SPDX-License-Identifier: Apache-2.0
"""Private PyTorch API, in one place. Tried with torch 2.13.0.

`torch_savings.py` has what only saves time. Beyond these two the package only subclasses Inductor's
extension points (scheduling, wrapper, ops handler) and uses `V`.
"""

from __future__ import annotations

import functools
import math
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from spyre_inductor import log
from spyre_inductor.torch_savings import saving

DEVICE_TYPE = "spyre"

# Inductor's defaults are for GPUs with small blocks; these are what the device's programs need.
CONFIG_PATCHES = {
    "unroll_reductions_threshold": 1,
    "split_reductions": False,
    "layout_optimization": False,
    "max_pointwise_cat_inputs": 0,
    "loop_ordering_after_fusion": False,
    "max_fusion_buffer_group_pairwise_attempts": 0,  # fusion is ours; do not spend time on pairs
    "pattern_matcher": False,  # its patterns are for other devices' kernels
    "graph_partition": False,  # a run of nodes is one program anyway
}


# --- buffers of the graph being compiled ----------------------------------------------------------


def _graph() -> Any:
    from torch._inductor.virtualized import V

    return V.graph


def real_name(name: str) -> str:
    """The memory that a buffer name stands for: a mutation gives an old buffer a new name."""
    return _graph().scheduler.mutation_real_name.get(name, name)


def buffer_dtype(name: str) -> torch.dtype:
    """Dtype of a buffer as programs see it: float64 host scalars are read as float32."""
    dtype = _graph().get_dtype(name)
    return torch.float32 if dtype is torch.float64 else dtype


def buffer_device(name: str) -> torch.device | None:
    """Device of a buffer, graph input or constant."""
    graph = _graph()
    if name in graph.constants:
        return graph.constants[name].device
    buffer = _buffer(name)
    return None if buffer is None else buffer.get_device()


def _buffer(name: str) -> Any:
    graph = _graph()
    if name in graph.graph_inputs:
        return graph.graph_inputs[name]
    return graph.try_get_buffer(name)


def buffer_shape(name: str) -> tuple[Sequence[Any], Sequence[Any]]:
    """Size and stride of a buffer."""
    constant = _graph().constants.get(name)
    if constant is not None:
        return list(constant.size()), list(constant.stride())
    buffer = _buffer(name)
    return buffer.get_size(), buffer.get_stride()


def memory_root(name: str) -> str:
    """The buffer that `name` is a part of, for the inputs of an in-place concat; else itself."""
    from torch._inductor import ir

    buffer = _graph().try_get_buffer(name)
    layout = getattr(buffer, "layout", None)
    while isinstance(layout, ir.NonOwningLayout):
        name = layout.view.get_name()
        layout = getattr(_graph().try_get_buffer(name), "layout", None)
    return name


def indexing_before_layout() -> Any:
    """Lets loop bodies be run while buffers' strides are still undecided."""
    from unittest.mock import patch

    from torch._inductor import ir

    return patch.object(ir.FlexibleLayout, "allow_indexing", True)


# --- unsupported nodes ----------------------------------------------------------------------------

_failed = threading.local()


def note_unsupported(node: Any, reason: str) -> None:
    """Remembers which nodes of the graph an operation that could not be compiled came from."""
    _failed.origins = {
        origin.name: reason for origin in node.get_origins() if origin.op == "call_function"
    }


def take_unsupported() -> dict[str, str]:
    """Names of graph nodes noted since the last call, with reasons."""
    origins = getattr(_failed, "origins", {})
    _failed.origins = {}
    return origins


# --- compile_fx -----------------------------------------------------------------------------------


def uses_device(model: Any, inputs: Sequence[Any]) -> bool:
    """Whether a graph has anything to do with the device."""
    if any(isinstance(x, torch.Tensor) and x.device.type == DEVICE_TYPE for x in inputs):
        return True
    graph = getattr(model, "graph", None)
    if graph is None:
        return False
    for node in graph.nodes:
        for value in (*node.args, *node.kwargs.values()):
            if isinstance(value, torch.device) and value.type == DEVICE_TYPE:
                return True
            if isinstance(value, str) and value.split(":")[0] == DEVICE_TYPE:
                return True
        example = node.meta.get("example_value", node.meta.get("val"))
        if isinstance(example, torch.Tensor) and example.device.type == DEVICE_TYPE:
            return True
    return any(
        p.device.type == DEVICE_TYPE
        for owner in (getattr(model, "parameters", tuple), getattr(model, "buffers", tuple))
        for p in owner()
    )


_inside = threading.local()


def wrap_compile_fx(retry: Callable[..., Any]) -> None:
    """Makes `compile_fx` apply CONFIG_PATCHES to graphs of the device, and leaves others alone."""
    from torch._inductor import compile_fx as module

    original = module.compile_fx
    if getattr(original, "_spyre_wrapped", False):
        return

    @functools.wraps(original)
    def compile_fx(
        model_: Any,
        example_inputs_: Sequence[Any],
        inner_compile: Any = module.compile_fx_inner,
        config_patches: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        # with patches, compile_fx calls itself by its global name: that is us again
        if getattr(_inside, "patched", False) or not uses_device(model_, example_inputs_):
            return original(model_, example_inputs_, inner_compile, config_patches, **kwargs)
        log.setup()  # here, so that a bad setting is an error also when the cache has the graph
        patches = {**(config_patches or {}), **CONFIG_PATCHES}
        _inside.patched = True
        try:
            with saving():
                return original(model_, example_inputs_, retry(inner_compile), patches, **kwargs)
        finally:
            _inside.patched = False

    compile_fx._spyre_wrapped = True  # type: ignore[attr-defined]
    module.compile_fx = compile_fx  # type: ignore[assignment]
    # `from compile_fx import compile_fx` may have run already in these
    for name in ("torch._inductor", "torch._inductor.standalone_compile"):
        holder = sys.modules.get(name)
        if holder is not None and getattr(holder, "compile_fx", None) is original:
            holder.compile_fx = compile_fx  # type: ignore[attr-defined]


def keep_float_products() -> None:
    """Stops Inductor from folding `x * 0` of floats on the device: it is nan where x is not finite.

    Inductor folds it for every dtype before any pass of a backend runs.
    """
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder as Folder

    original = Folder._add_peephole_patterns
    if getattr(original, "_spyre_wrapped", False):
        return

    @functools.wraps(original)
    def add_peephole_patterns(self: Any) -> None:
        before = set(self.node_replacements)
        original(self)
        for node in set(self.node_replacements) - before:
            value = node.meta["val"]
            if value.device.type == DEVICE_TYPE and value.dtype.is_floating_point:
                del self.node_replacements[node]
                del self.node_replacements_shapes[node]
                del self.constant_data_ptrs[node]

    add_peephole_patterns._spyre_wrapped = True  # type: ignore[attr-defined]
    Folder._add_peephole_patterns = add_peephole_patterns  # type: ignore[method-assign]


def keep_divisions() -> None:
    """Stops Inductor from multiplying by reciprocals on the device, but for those of powers of two.

    Others are rounded, so the product is not the quotient; that of zero is an infinity, which a
    half takes for a number.
    """
    from torch._inductor import lowering

    original = lowering.get_constant_value  # asked of divisors alone
    if getattr(original, "_spyre_wrapped", False):
        return

    @functools.wraps(original)
    def get_constant_value(x: Any) -> Any:
        constant = original(x)
        if constant is None or x.get_device().type != DEVICE_TYPE:
            return constant
        fraction, exponent = math.frexp(constant.value)
        return constant if abs(fraction) == 0.5 and abs(exponent) < 100 else None

    get_constant_value._spyre_wrapped = True  # type: ignore[attr-defined]
    lowering.get_constant_value = get_constant_value  # type: ignore[assignment]


def compare_any_strides() -> None:
    """Lets Inductor compare strides that are products of sums of sizes.

    It asks whether one is a multiple of another, for which sympy divides both by a common
    polynomial, and PyTorch fails on the reciprocal of that. Then the question is left out.
    """
    import sympy
    from torch._inductor.ir import Layout

    original = Layout._stride_expr_ge_or_false
    if getattr(original, "_spyre_wrapped", False):
        return

    @functools.wraps(original)
    def stride_expr_ge_or_false(left: Any, right: Any) -> bool:
        rest = sympy.sympify(left) % sympy.sympify(right) if right != 0 else sympy.S.Zero
        if not any(power.exp.is_negative for power in rest.atoms(sympy.Pow)):
            return bool(original(left, right))
        return bool(_graph().sizevars.guard_or_false(sympy.Ge(left, right)))

    stride_expr_ge_or_false._spyre_wrapped = True  # type: ignore[attr-defined]
    Layout._stride_expr_ge_or_false = staticmethod(stride_expr_ge_or_false)  # type: ignore[method-assign]


@contextmanager
def fresh_caches() -> Iterator[None]:
    """Compiles without Inductor's caches, so that every pass runs."""
    import torch._inductor.config as inductor_config

    with inductor_config.patch(force_disable_caches=True):
        yield


def graph_breaks() -> Counter[str]:
    """Reasons of graph breaks so far in this process."""
    from torch._dynamo.utils import counters

    return Counter(counters["graph_break"])
