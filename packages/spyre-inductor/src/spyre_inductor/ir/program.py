# SPDX-License-Identifier: Apache-2.0
"""A program to be: kernels in order and the buffers between them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from spyre_layout import SpyreTensorLayout

from spyre_inductor.ir.expr import Expr, print_expr
from spyre_inductor.ir.kernel import Kernel

ARG, TEMP, LX = "arg", "temp", "lx"


@dataclass
class Buffer:
    """Memory that kernels read and write.

    Attributes:
        kind: "arg" given at launch, "temp" device memory of one launch, "lx" scratchpad of the
        cores. removable: nobody outside this program needs it. layout: how it lies in device
        memory, from `passes/propagate_layouts.py`.
    """

    name: str
    dtype: torch.dtype
    size: list[Expr]
    stride: list[Expr]
    kind: str = ARG
    removable: bool = False
    layout: SpyreTensorLayout | None = None
    why: str = ""  # of the last placement decision, for reports


@dataclass
class Program:
    """Kernels in execution order, one barrier after each."""

    name: str
    kernels: list[Kernel]
    buffers: dict[str, Buffer] = field(default_factory=dict)

    def used(self) -> dict[str, None]:
        """Buffers in order of first use."""
        names: dict[str, None] = {}
        for kernel in self.kernels:
            for access in kernel.accesses():
                names.setdefault(access.buffer)
        return names

    def text(self) -> str:
        """For logs."""
        lines = [f"program {self.name}"]
        for name in self.used():
            b = self.buffers[name]
            size = ", ".join(map(print_expr, b.size))
            stride = ", ".join(map(print_expr, b.stride))
            device = "" if b.layout is None else f" device size {b.layout.device_size}"
            note = f"{device}  # {b.why}" if b.why else device
            lines.append(f"buffer {name} {b.kind} {b.dtype} size [{size}] stride [{stride}]{note}")
        lines += [kernel.text() for kernel in self.kernels]
        return "\n".join(lines)
