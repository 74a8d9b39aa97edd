# SPDX-License-Identifier: Apache-2.0
"""The device as Dynamo and Inductor ask for it. Importing this module imports ``torch._dynamo``."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device

from spyre_runtime import devices, memory, properties, streams
from spyre_runtime._registration import DEVICE_NAME
from spyre_runtime.properties import SpyreDeviceProperties

__all__ = ["SpyreDeviceProperties", "SpyreInterface"]


class SpyreInterface(DeviceInterface):
    """What PyTorch's compiler may ask of a Spyre device."""

    device = devices.device  # type: ignore[assignment]
    Event = streams.Event  # type: ignore[assignment]
    Stream = streams.Stream  # type: ignore[assignment]

    class Worker:
        """Questions that compile workers ask: none of them opens a device twice."""

        @staticmethod
        def set_device(device: int) -> None:
            """Make a device current."""
            devices.set_device(device)

        @staticmethod
        def current_device() -> int:
            """Return the current device's index."""
            return devices.current_device()

        @staticmethod
        def get_device_properties(device: devices.DeviceLike = None) -> SpyreDeviceProperties:
            """Return the properties of a device."""
            return properties.get_device_properties(device)

    current_device = staticmethod(devices.current_device)
    set_device = staticmethod(devices.set_device)
    device_count = staticmethod(devices.device_count)
    is_available = staticmethod(devices.is_available)
    exchange_device = staticmethod(devices.exchange_device)
    maybe_exchange_device = staticmethod(devices.maybe_exchange_device)
    synchronize = staticmethod(devices.synchronize)
    stream = staticmethod(streams.stream)  # type: ignore[assignment]
    current_stream = staticmethod(streams.current_stream)  # type: ignore[assignment]
    set_stream = staticmethod(streams.set_stream)  # type: ignore[assignment]
    memory_allocated = staticmethod(memory.memory_allocated)

    @staticmethod
    def get_device_properties(device: devices.DeviceLike = None) -> SpyreDeviceProperties:
        """Return the properties of a device."""
        return properties.get_device_properties(device)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        streams.set_stream(
            torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
        )

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        """Return the id of a device's current stream: programs are launched on it."""
        return streams.current_stream(device_idx).id

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        """Return a string that tells devices apart which need programs of their own."""
        del device
        return ""

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        """Return True: bfloat16 is stored as SEN169, which holds its values in range."""
        del including_emulation
        return True

    @staticmethod
    def is_dtype_supported(dtype: torch.dtype, including_emulation: bool = False) -> bool:
        """Return whether the device has a format for a dtype."""
        del including_emulation
        return dtype in _SUPPORTED_DTYPES


_SUPPORTED_DTYPES = frozenset(
    {
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.bool,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.float8_e4m3fn,
        torch.float8_e5m2fnuz,
    }
)


def _register() -> None:
    """Register the interface with Dynamo, for the device and for each index."""
    register_interface_for_device(DEVICE_NAME, SpyreInterface)
    try:
        count = devices.device_count()
    except (ValueError, RuntimeError):
        # A bad environment variable, a driver that does not load. The first use of the device says
        # so; graphs for the CPU, which import Dynamo too, have nothing to do with it.
        return
    for index in range(count):
        register_interface_for_device(f"{DEVICE_NAME}:{index}", SpyreInterface)


_register()
