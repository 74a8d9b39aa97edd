# SPDX-License-Identifier: Apache-2.0
"""`spyre_inductor::matmul`: a matrix product whose result is wider than its operands.

The matrix units take half operands and accumulate in float32. aten's mm and bmm cannot say "half
in, float32 out" on every device, so graph rewrites use this operation, which only ever lives inside
a graph.
"""

from __future__ import annotations

import torch

LIBRARY = torch.library.Library("spyre_inductor", "DEF")
LIBRARY.define("matmul(Tensor a, Tensor b, ScalarType dtype) -> Tensor")


def _matmul(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Runs only where a graph is executed without being compiled."""
    return torch.matmul(a.to(dtype), b.to(dtype))


def _fake(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return a.new_empty((*a.shape[:-1], b.shape[-1]), dtype=dtype)


LIBRARY.impl("matmul", _matmul, "CompositeExplicitAutograd")
LIBRARY.impl("matmul", _fake, "Meta")

MATMUL = torch.ops.spyre_inductor.matmul.default
