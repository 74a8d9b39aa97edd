# SPDX-License-Identifier: Apache-2.0
"""Places where PyTorch's Python code computes in float64, which the device does not have."""

from __future__ import annotations

from functools import wraps
from typing import Any

from spyre_runtime._registration import DEVICE_NAME


def avoid_float64() -> None:
    """Make those places use the CPU for device tensors. Calling it again does nothing."""
    _format_on_cpu()
    _scale_on_cpu()


def _format_on_cpu() -> None:
    """Format the values of device tensors from a copy on the CPU; the printed device stays."""
    import torch._tensor_str

    original = torch._tensor_str._tensor_str
    if hasattr(original, "__wrapped__"):
        return

    @wraps(original)
    def tensor_str(tensor: Any, indent: int) -> str:
        if tensor.device.type == DEVICE_NAME:
            tensor = tensor.detach().cpu()
        return original(tensor, indent)

    torch._tensor_str._tensor_str = tensor_str


def _scale_on_cpu() -> None:
    """Keep a GradScaler's scale, one number, on the CPU: it takes the reciprocal in float64."""
    import torch

    original = torch.amp.GradScaler._lazy_init_scale_growth_tracker
    if hasattr(original, "__wrapped__"):
        return

    @wraps(original)
    def lazy_init(self: Any, dev: torch.device) -> None:
        original(self, torch.device("cpu") if dev.type == DEVICE_NAME else dev)

    torch.amp.GradScaler._lazy_init_scale_growth_tracker = lazy_init  # type: ignore[method-assign]
