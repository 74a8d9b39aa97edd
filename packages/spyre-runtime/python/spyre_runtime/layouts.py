# SPDX-License-Identifier: Apache-2.0
"""Layouts of device tensors, and the warning about downcasts."""

from __future__ import annotations

import torch
from spyre_layout import DataFormats, SpyreTensorLayout

from spyre_runtime._native import native

__all__ = [
    "get_downcast_warning",
    "get_spyre_tensor_layout",
    "set_downcast_warning",
    "set_spyre_tensor_layout",
]


def get_spyre_tensor_layout(tensor: torch.Tensor) -> SpyreTensorLayout:
    """Return the layout of a tensor that resides on a Spyre device.

    A layout belongs to the tensor's storage: views share it.

    Args:
        tensor: A Spyre device tensor.

    Raises:
        TypeError: ``tensor`` is not a tensor.
        ValueError: ``tensor`` is on another device.
    """
    _check_tensor(tensor)
    device_size, stride_map, device_format = native().get_layout(tensor)
    return SpyreTensorLayout(
        device_size=device_size, stride_map=stride_map, device_dtype=DataFormats(device_format)
    )


def set_spyre_tensor_layout(tensor: torch.Tensor, layout: SpyreTensorLayout) -> None:
    """Lay a tensor's storage out anew, keeping its values.

    Args:
        tensor: A Spyre device tensor.
        layout: The layout to assign. It must have the format of the tensor's dtype and a place for
            each element of the tensor's storage.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: The tensor is on another device, or the layout cannot hold it.
    """
    _check_tensor(tensor)
    if not isinstance(layout, SpyreTensorLayout):
        raise TypeError(f"expected a SpyreTensorLayout, found {type(layout).__name__}")
    native().set_layout(
        tensor, list(layout.device_size), list(layout.stride_map), int(layout.device_dtype)
    )


def get_downcast_warning() -> bool:
    """Return whether float32 to float16 downcast warnings are enabled."""
    return native().get_downcast_warning()


def set_downcast_warning(enabled: bool) -> None:
    """Enable or disable float32 to float16 downcast warnings.

    Args:
        enabled: True to enable warnings, False to suppress.
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"expected a bool, found {type(enabled).__name__}")
    native().set_downcast_warning(enabled)


def _check_tensor(tensor: object) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a torch.Tensor, found {type(tensor).__name__}")
