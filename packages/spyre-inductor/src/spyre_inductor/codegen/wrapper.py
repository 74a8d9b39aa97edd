# SPDX-License-Identifier: Apache-2.0
"""Host code around programs: allocation with the device index, and the imports of launches."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from typing_extensions import override

_IMPORTS = "from spyre_inductor.codegen.launch import load_program, on_device"


class SpyreWrapper(PythonWrapperCodegen):
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


class SpyreSubgraphWrapper(SubgraphPythonWrapperCodegen):
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
