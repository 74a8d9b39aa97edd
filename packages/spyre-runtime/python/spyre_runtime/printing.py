# SPDX-License-Identifier: Apache-2.0
"""Printing of tensors. PyTorch formats floating-point values as float64, which the device lacks."""

from __future__ import annotations

from functools import wraps
from typing import Any

from spyre_runtime._registration import DEVICE_NAME


def format_on_cpu() -> None:
    """Make PyTorch format the values of device tensors from a copy on the CPU.

    The device name in the printed form stays. Calling it again does nothing.
    """
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
