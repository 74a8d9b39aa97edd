# SPDX-License-Identifier: Apache-2.0
"""The work that is timed: one function and its inputs per row, the same on every device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Work:
    """A function of tensors, and how to make them in float32 on the CPU."""

    name: str
    function: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    # What a call must move and compute at least: for reading the figures, not for judging them.
    elements_moved: int = 0
    products: int = 0

    def inputs(self, dtype: torch.dtype, device: str) -> list[torch.Tensor]:
        """Make the inputs, the same values for every dtype and device."""
        generator = torch.Generator().manual_seed(0)
        made = (torch.randn(shape, generator=generator) / 4 for shape in self.shapes)
        return [tensor.to(dtype).to(device) for tensor in made]


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


SIDE = 4096
SQUARE = (SIDE, SIDE)
WORKS = (
    Work("add", torch.add, (SQUARE, SQUARE), elements_moved=3 * SIDE**2),
    Work("gelu (tanh)", _gelu, (SQUARE,), elements_moved=2 * SIDE**2),
    Work("softmax, last dim", _softmax, (SQUARE,), elements_moved=2 * SIDE**2),
    Work(
        "layer_norm, last dim",
        _layer_norm,
        (SQUARE, (SIDE,), (SIDE,)),
        elements_moved=2 * SIDE**2,
    ),
    Work(
        "mm 2048x1024 @ 1024x4096",
        torch.mm,
        ((2048, 1024), (1024, 4096)),
        products=2048 * 1024 * 4096,
    ),
    Work("linear, one row", F.linear, ((1, SIDE), SQUARE), elements_moved=SIDE**2),
    Work(
        "sdpa 4x12x512x64",
        F.scaled_dot_product_attention,
        ((4, 12, 512, 64),) * 3,
        products=2 * 48 * 512 * 512 * 64,
    ),
    Work("add of 64 elements", torch.add, ((64,), (64,)), elements_moved=3 * 64),
)
