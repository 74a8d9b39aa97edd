# SPDX-License-Identifier: Apache-2.0
"""Work that Inductor does for every graph and a graph of the device does not need.

Each of these leaves the result of a compilation as it is and only makes it come sooner. Private
PyTorch API, like `torch_compat.py`; tried with torch 2.13.0. Graphs of other devices are compiled
as ever.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

_active = threading.local()


@contextmanager
def saving() -> Iterator[None]:
    """While a graph of the device is compiled on this thread."""
    before = getattr(_active, "on", False)
    _active.on = True
    try:
        with without_collector():
            yield
    finally:
        _active.on = before


@contextmanager
def without_collector() -> Iterator[None]:
    """Leaves cyclic garbage for later.

    Imports and compilations make millions of objects that stay: looking for garbage among them
    again and again takes a tenth of the time.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def install() -> None:
    """Puts the shorter ways in. Called once Inductor's `compile_fx` exists."""
    from torch._inductor import compile_fx, graph
    from torch._inductor.fx_passes import joint_graph, post_grad
    from torch._inductor.fx_utils import FakeTensorUpdater

    _shorten(joint_graph, "lazy_init", _without_patterns)
    _shorten(compile_fx, "joint_graph_passes", _keeping_values)
    _shorten(post_grad, "reinplace_inplaceable_ops", _if_something_is_written)
    _shorten(compile_fx, "fake_tensor_prop", _if_values_are_unknown)
    _shorten(graph, "fallback_node_due_to_unsupported_type", _if_a_value_is_not_plain)
    _shorten(FakeTensorUpdater, "incremental_update", _if_a_node_is_new)


def _shorten(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    if getattr(original, "_spyre_wrapped", False):
        return
    shorter = make(original)

    @functools.wraps(original)
    def either(*args: Any, **kwargs: Any) -> Any:
        chosen = shorter if getattr(_active, "on", False) else original
        return chosen(*args, **kwargs)

    either._spyre_wrapped = True  # type: ignore[attr-defined]
    setattr(owner, name, either)


def _without_patterns(original: Any) -> Any:
    """Patterns are traced when first wanted, which takes 0.2 s; without the matcher none is."""

    def lazy_init(*args: Any, **kwargs: Any) -> Any:
        from torch._inductor import config

        return original(*args, **kwargs) if config.pattern_matcher else None

    return lazy_init


def _if_something_is_written(original: Any) -> Any:
    """Without a write there is nothing to do in place, and no need of exact aliases for it."""

    def reinplace_inplaceable_ops(updater: Any, graph: torch.fx.Graph) -> None:
        if not all(_only_reads(node) for node in graph.nodes):
            original(updater, graph)

    return reinplace_inplaceable_ops


def _only_reads(node: Any) -> bool:
    from torch._inductor.fx_passes import reinplace

    if node.op != "call_function":
        return node.op in ("placeholder", "output", "get_attr")
    target = node.target
    written = (
        reinplace.inplaceable_ops,
        reinplace.inplaceable_foreach_ops,
        reinplace._SCATTER_OP_TO_VIEW,
    )
    if any(target in ops for ops in written):
        return False
    return target is operator.getitem or isinstance(target, torch._ops.OpOverload)


def _if_a_node_is_new(original: Any) -> Any:
    """The original looks at arguments of every node even if no node has changed."""

    def incremental_update(self: Any) -> int:
        known = self.processed_hashes
        nodes = self.gm.graph.nodes
        if not self.subgraph_updaters and all(self.hash_node(n) in known for n in nodes):
            return 0
        return original(self)

    return incremental_update


_KNOWN = "spyre_values_are_known"  # in the meta of a graph module


def _keeping_values(original: Any) -> Any:
    """Passes leave values of nodes that they changed untrue; these few are computed anew."""

    def joint_graph_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_flat(gm):
            return original(gm, *args, **kwargs)
        traced = {node: (_description(node), node.meta.get("val")) for node in gm.graph.nodes}
        result = original(gm, *args, **kwargs)
        if result is gm and _is_flat(gm) and all(map(_only_reads, gm.graph.nodes)):
            _renew_values(gm, traced)
            gm.meta[_KNOWN] = True
        return result

    return joint_graph_passes


def _description(node: Any) -> tuple[Any, ...]:
    return node.target, node.args, node.kwargs


def _renew_values(gm: Any, traced: dict[Any, Any]) -> None:
    """Propagates from what is new. Which memory values share is not kept: nothing is written."""
    from torch._inductor.fx_utils import get_fake_args_kwargs
    from torch._inductor.virtualized import V

    changed: set[Any] = set()
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        description, value = traced.get(node, (None, None))
        if description == _description(node) and changed.isdisjoint(node.all_input_nodes):
            node.meta["val"] = value
            continue
        _, args, kwargs = get_fake_args_kwargs(node)
        with V.fake_mode, torch._dispatch.python.enable_python_dispatcher():
            node.meta["val"] = node.target(*args, **kwargs)
        if not isinstance(value, torch.Tensor) or not _alike(value, node.meta["val"]):
            changed.add(node)


def _is_flat(gm: Any) -> bool:
    """Whether all of a graph's values are tensors of sizes that are not found out by running it."""
    for node in gm.graph.nodes:
        if node.op == "output":
            continue
        value = node.meta.get("val")
        leaves = value if isinstance(value, (tuple, list)) else (value,)
        if node.op not in ("placeholder", "call_function") or "unbacked_bindings" in node.meta:
            return False
        if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            return False
    return True


def _if_values_are_unknown(original: Any) -> Any:
    """Values that AOTAutograd has traced need no second propagation, if they are still true."""

    def fake_tensor_prop(gm: Any, inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        from torch._dynamo.utils import detect_fake_mode

        places = gm.graph.find_nodes(op="placeholder")
        if not gm.meta.get(_KNOWN) or len(places) != len(inputs):
            return original(gm, inputs, *args, **kwargs)
        mode = detect_fake_mode(inputs)
        values = [node.meta["val"] for node in places]
        if mode is None or not all(map(_alike, values, inputs)):
            return original(gm, inputs, *args, **kwargs)
        return mode

    return fake_tensor_prop


def _alike(known: torch.Tensor, given: Any) -> bool:
    return (
        isinstance(given, torch.Tensor)
        and known.dtype is given.dtype
        and known.device == given.device
        and known.size() == given.size()
        and known.stride() == given.stride()
        and known.storage_offset() == given.storage_offset()
    )


_PLAIN = {torch.float16, torch.bfloat16, torch.float32, torch.bool, torch.int64, torch.int32}


def _if_a_value_is_not_plain(original: Any) -> Any:
    """Every compiler of Inductor's supports these; the original asks much more about each."""

    def fallback_node_due_to_unsupported_type(node: Any, *args: Any, **kwargs: Any) -> bool:
        values = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
        if all(
            isinstance(value, torch.Tensor)
            and value.dtype in _PLAIN
            and value.device.type == "spyre"
            for value in values
        ):
            return False
        return original(node, *args, **kwargs)

    return fallback_node_due_to_unsupported_type


# --- imports --------------------------------------------------------------------------------------


def skip_templates() -> None:
    """Leaves templates of Triton kernels unparsed where there is no Triton to compile them.

    Called after `torch._inductor.codegen.common`; `restore_templates` ends it once the modules
    that hold them have been imported.
    """
    template = sys.modules["torch._inductor.codegen.common"].KernelTemplate
    if importlib.util.find_spec("triton") is None and not hasattr(template, "_spyre_original"):
        template._spyre_original = template.__dict__["_template_from_string"]
        template._template_from_string = staticmethod(lambda source: None)


def restore_templates() -> None:
    """Templates are parsed again."""
    template = sys.modules["torch._inductor.codegen.common"].KernelTemplate
    original = template.__dict__.get("_spyre_original")
    if original is not None:
        template._template_from_string = original
        del template._spyre_original
