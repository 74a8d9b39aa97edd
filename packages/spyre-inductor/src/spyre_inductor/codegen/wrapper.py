# SPDX-License-Identifier: Apache-2.0
"""Host code around programs: allocation with the device index, and the imports of launches."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch._inductor.codegen.wrapper import (
    EnterCudaStreamContextLine,
    PythonWrapperCodegen,
    SubgraphPythonWrapperCodegen,
)
from torch._inductor.virtualized import V
from typing_extensions import override

from spyre_inductor.codegen.scheduling import SpyreScheduling

_IMPORTS = """
from contextlib import nullcontext
from torch._dynamo.graph_bytecode_inputs import get_external_object_by_index
from spyre_inductor.codegen.launch import load_program, on_device
"""


@dataclasses.dataclass
class EnterStreamLine(EnterCudaStreamContextLine):
    """A `with` line for the stream that the user gave.

    Inductor's own line names a variable that only a device guard of its GPUs sets.
    """

    user_object: int | None

    @override
    def codegen(self, code: Any) -> None:
        # Blocks are not nested: outside of all, the caller's own stream is current.
        stream = (
            "nullcontext()"
            if self.user_object is None
            else f"get_external_object_by_index({self.user_object})"
        )
        code.writeline(f"with {stream}:")
        code.do_indent()


class _InOrder:
    """Emits what the scheduler still collects before lines that are about its place in a stream."""

    def generate_fallback_kernel(self, node: Any) -> None:
        # Nodes without a device (events, effects) come here without a flush by Inductor.
        _emit_pending()
        super().generate_fallback_kernel(node)  # type: ignore[misc]

    def codegen_cuda_stream_enter(self, stream_idx: int) -> EnterCudaStreamContextLine:
        _emit_pending()
        line = EnterStreamLine(
            stream_idx, V.graph.scheduler.stream_idx_to_user_obj_idx.get(stream_idx)
        )
        self.writeline(line)  # type: ignore[attr-defined]
        return line

    def codegen_cuda_stream_exit(self) -> None:
        _emit_pending()
        super().codegen_cuda_stream_exit()  # type: ignore[misc]


def _emit_pending() -> None:
    for backend in V.graph.scheduler.backends.values():
        if isinstance(backend, SpyreScheduling):
            backend.flush()


class SpyreWrapper(_InOrder, PythonWrapperCodegen):
    """Inductor's Python wrapper with device indices in allocations."""

    @staticmethod
    @override
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: PythonWrapperCodegen | None,
        partition_signatures: Any = None,
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            assert subgraph_name is not None
            assert parent_wrapper is not None
            return SpyreSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return SpyreWrapper()

    @override
    def write_header(self) -> None:
        super().write_header()
        self.imports.splice(_IMPORTS)

    @override
    def make_allocation(
        self,
        name: str,
        device: torch.device,
        dtype: torch.dtype,
        shape: Any,
        stride: Any,
        allocation_shape: Any = None,
        is_pinned: bool = False,
    ) -> str:
        line = super().make_allocation(
            name, device, dtype, shape, stride, allocation_shape, is_pinned
        )
        return with_index(line, device)


class SpyreSubgraphWrapper(_InOrder, SubgraphPythonWrapperCodegen):
    """The same inside a subgraph (cond, while_loop, partitions)."""

    @override
    def make_allocation(self, *args: Any, **kwargs: Any) -> str:
        line = super().make_allocation(*args, **kwargs)
        return with_index(line, args[1] if len(args) > 1 else kwargs["device"])


def with_index(line: str, device: torch.device) -> str:
    """Names the device's index, which Inductor's allocation of unknown devices leaves out."""
    if device.type != "spyre":
        return line
    return line.replace(f"device='{device.type}'", f"device='{device.type}:{device.index or 0}'")
