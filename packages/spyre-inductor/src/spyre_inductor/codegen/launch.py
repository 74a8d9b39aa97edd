# SPDX-License-Identifier: Apache-2.0
"""What generated code calls: making a program of its text, and moving stray host scalars."""

from __future__ import annotations

import functools
from typing import Any

import torch


@functools.lru_cache(maxsize=4096)
def load_program(text: str) -> Any:
    """Parses a program; equal texts share one object and so its linked forms."""
    from spyre_runtime import _C

    return _C.Program(text)


def on_device(tensor: torch.Tensor, device: str, dtype: torch.dtype) -> torch.Tensor:
    """A host tensor that a program reads (PyTorch lets 0-d ones mix in), copied to the device."""
    return tensor.to(device=device, dtype=dtype)
