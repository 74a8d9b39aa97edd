# SPDX-License-Identifier: Apache-2.0
"""Devices: how many there are, which one is current, and waiting for them."""

from __future__ import annotations

import re
import sys
import warnings
from numbers import Integral
from types import TracebackType
from typing import Any, TypeAlias

import torch

from spyre_runtime._native import native
from spyre_runtime._registration import DEVICE_NAME

DeviceLike: TypeAlias = torch.device | int | str | None

_NAMED = re.compile(rf"{DEVICE_NAME}:(\d+)")


def device_index(device: DeviceLike, *, count: int | None = None) -> int:
    """Return the index that ``device`` means; the current device's for None and ``"spyre"``.

    Raises:
        TypeError: ``device`` is of another type.
        ValueError: It names another kind of device.
        IndexError: There is no such device.
    """
    if device is None:
        return native().current_device()
    if isinstance(device, bool) or not isinstance(device, (Integral, str, torch.device)):
        raise TypeError(
            f"expected a device as torch.device, int, str or None, found {type(device).__name__}"
        )
    index: int | None
    if isinstance(device, Integral):  # int, and NumPy's integers
        index = int(device)
    elif isinstance(device, str) and (named := _NAMED.fullmatch(device)):
        # By hand: torch.device keeps eight bits of an index.
        index = int(named[1])
    else:
        try:
            parsed = torch.device(device)
        except RuntimeError as error:  # it lists the devices of PyTorch's own, by its own names
            raise ValueError(
                f"expected a device such as '{DEVICE_NAME}' or '{DEVICE_NAME}:0', found {device!r}"
            ) from error
        if parsed.type != DEVICE_NAME:
            raise ValueError(f"expected a device of type {DEVICE_NAME}, found {str(parsed)!r}")
        index = parsed.index
    if index is None:
        return native().current_device()
    present = native().device_count() if count is None else count
    if not 0 <= index < present:
        wrapped = f" (or {index + 256}, wrapped by torch.device)" if index < -1 else ""
        choice = f"choose an index from 0 to {present - 1} or " if present else ""
        raise IndexError(
            f"spyre device index {index}{wrapped} is out of range: "
            f"{'1 device is' if present == 1 else f'{present} devices are'} visible; "
            f"{choice}make more visible with AIU_WORLD_SIZE or SPYRE_DEVICES"
        )
    return index


def is_available() -> bool:
    """Return whether at least one Spyre device is available.

    It never raises: PyTorch asks on behalf of those who use the CPU alone. If the devices cannot be
    counted, for a bad environment variable or a driver that does not load, it warns of the reason.
    """
    try:
        return device_count() > 0
    except (ValueError, RuntimeError) as error:
        warnings.warn(f"spyre is not available: {error}", RuntimeWarning, stacklevel=2)
        return False


def device_count() -> int:
    """Return the number of Spyre devices available. Opens none."""
    return native().device_count()


def current_device() -> int:
    """Return the index of the currently selected Spyre device."""
    return native().current_device()


def set_device(idx: DeviceLike) -> None:
    """Set the current Spyre device.

    Args:
        idx: Device index to set as current.
    """
    native().set_device(device_index(idx))


def is_initialized() -> bool:
    """Return whether the Spyre runtime has been initialized: whether a device has been opened."""
    module = sys.modules.get("spyre_runtime._C")
    return module is not None and module.is_initialized()


def init() -> None:
    """Open the current device. Using it does so by itself."""
    native().open_device(native().current_device())


def synchronize(device: DeviceLike = None) -> None:
    """Wait for all operations on all streams to complete.

    Args:
        device: Device to synchronize. If None, synchronizes all devices.
    """
    if device is not None:
        native().synchronize_device(device_index(device))
        return
    if _is_in_bad_fork():
        native().check_usable()  # raises
    if not is_initialized():
        return
    for index in range(device_count()):
        native().synchronize_device(index)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that ``torch.autocast("spyre")`` may compute in."""
    return [torch.float16, torch.bfloat16]


def get_device_name(device: DeviceLike = None) -> str:
    """Return the name that the driver gives a device. Opens it.

    Args:
        device: Device to query. If None, uses the current device.
    """
    return native().properties(device_index(device))["name"]


def get_device_capability(device: DeviceLike = None) -> dict[str, set[torch.dtype]]:
    """Return what a device can do: ``{"supported_dtypes": ...}``, as ``torch.accelerator`` does.

    Args:
        device: Device to query. If None, uses the current device.
    """
    index = device_index(device)
    return torch.accelerator.get_device_capability(torch.device(DEVICE_NAME, index))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return True: bfloat16 is stored as SEN169, which holds its values in range."""
    del including_emulation
    return True


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return whether one device reads another's memory itself: False, copies go by the host."""
    device_index(device)
    device_index(peer_device)
    return False


def exchange_device(device: DeviceLike) -> int:
    """Make a device current and return the one that was; a negative index does nothing."""
    if _is_negative(device):
        return -1
    index = device_index(device)
    former = native().current_device()
    native().set_device(index)
    return former


def maybe_exchange_device(device: DeviceLike) -> int:
    """Make a device current, unless the index is negative, and return the one that was."""
    return exchange_device(device)


def _is_negative(device: Any) -> bool:
    is_number = isinstance(device, Integral) and not isinstance(device, bool)
    return is_number and int(device) < 0


class device:  # noqa: N801 - the name that PyTorch's device modules give it
    """Context manager that makes a device current.

    Args:
        device: Device to select. It does nothing for None or a negative index.
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None or _is_negative(device) else device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = exchange_device(self.idx)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del exc_type, exc_value, traceback
        exchange_device(self.prev_idx)


class device_of(device):  # noqa: N801
    """Context manager that makes the device of a tensor or storage current.

    It does nothing for an object that is not on a Spyre device.
    """

    def __init__(self, obj: Any) -> None:
        found = getattr(obj, "device", None)
        is_spyre = isinstance(found, torch.device) and found.type == DEVICE_NAME
        super().__init__(found if is_spyre else None)


def _is_in_bad_fork() -> bool:
    module = sys.modules.get("spyre_runtime._C")
    return module is not None and module.in_bad_fork()


def _lazy_init() -> None:
    """Called by PyTorch before it first makes something on the device."""
    native().check_usable()
