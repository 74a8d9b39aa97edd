# SPDX-License-Identifier: Apache-2.0
"""A program to be: kernels in order and the buffers between them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from spyre_inductor.ir.expr import Expr, print_expr
from spyre_inductor.ir.kernel import Kernel

ARG, TEMP, LX = "arg", "temp", "lx"


@dataclass
class Buffer:
    """Memory that kernels read and write.

    Attributes:
        kind: "arg" given at launch, "temp" device memory of one launch, "lx" scratchpad of the
        cores. removable: nobody outside this program needs it.
    """

    name: str
    dtype: torch.dtype
    size: list[Expr]
    stride: list[Expr]
    kind: str = ARG
    removable: bool = False
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
            note = f"  # {b.why}" if b.why else ""
            lines.append(f"buffer {name} {b.kind} {b.dtype} size [{size}] stride [{stride}]{note}")
        lines += [kernel.text() for kernel in self.kernels]
        return "\n".join(lines)
