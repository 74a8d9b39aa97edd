# SPDX-License-Identifier: Apache-2.0
"""What a device is: cores, memory, driver."""

from __future__ import annotations

from dataclasses import dataclass

from spyre_runtime._native import native
from spyre_runtime.devices import DeviceLike, device_index


@dataclass(frozen=True)
class SpyreDeviceProperties:
    """Properties of a Spyre device.

    Attributes:
        name: Name that the driver gives.
        type: ``"spyre"``.
        index: Device index.
        multi_processor_count: Cores; the name that PyTorch's compiler asks for.
        total_memory: Bytes of device memory.
        lx_bytes: Bytes of each core's scratchpad.
        max_allocation_bytes: Most that one tensor may occupy.
        driver: Name of the driver.
        driver_version: Its version.
    """

    name: str
    type: str
    index: int
    multi_processor_count: int
    total_memory: int
    lx_bytes: int
    max_allocation_bytes: int
    driver: str
    driver_version: str


def get_device_properties(device: DeviceLike = None) -> SpyreDeviceProperties:
    """Return the properties of a device. Opens it."""
    index = device_index(device)
    own = native().properties(index)
    return SpyreDeviceProperties(
        name=own["name"],
        type="spyre",
        index=index,
        multi_processor_count=own["cores"],
        total_memory=own["memory_bytes"],
        lx_bytes=own["lx_bytes"],
        max_allocation_bytes=own["max_allocation_bytes"],
        driver=own["driver"],
        driver_version=own["driver_version"],
    )
