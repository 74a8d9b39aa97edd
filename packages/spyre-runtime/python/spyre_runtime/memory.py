# SPDX-License-Identifier: Apache-2.0
"""Device memory: what is allocated, what is kept for reuse, and what is left."""

from __future__ import annotations

from typing import Any

from spyre_runtime._native import native
from spyre_runtime.devices import DeviceLike, device_index

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
]


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """Return the counters of a device's allocator, in bytes and counts.

    Bytes are those on the device, padding to whole sticks included. All are 0 until a device has
    been opened.

    Args:
        device: Device to query. If None, uses the current device.
    """
    own: dict[str, Any] = dict(native().memory_stats(device_index(device)))
    stats: dict[str, int] = {}
    for name, value in own.items():
        if isinstance(value, int):
            stats[name] = value
            continue
        for kind, number in value.items():
            stats[f"{name}.all.{kind}"] = number
    return stats


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the device bytes that tensors occupy."""
    return native().memory_stats(device_index(device))["allocated_bytes"]["current"]


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the most that :func:`memory_allocated` has been since the peak was last reset."""
    return native().memory_stats(device_index(device))["allocated_bytes"]["peak"]


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the device bytes that the allocator holds, in use or kept for reuse."""
    return native().memory_stats(device_index(device))["reserved_bytes"]["current"]


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return the most that :func:`memory_reserved` has been since the peak was last reset."""
    return native().memory_stats(device_index(device))["reserved_bytes"]["peak"]


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Start the peaks again from what is allocated and reserved now."""
    native().reset_peak_memory_stats(device_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Start the totals again: what was ever allocated and freed, retries, failures."""
    native().reset_accumulated_memory_stats(device_index(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the free and total bytes of a device. Opens it."""
    return native().memory_info(device_index(device))


def empty_cache() -> None:
    """Return memory that is kept for reuse to the devices."""
    native().empty_cache()


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """Return the counters of :func:`memory_stats` as a table to print.

    Args:
        device: Device to query. If None, uses the current device.
        abbreviated: Accepted for likeness with other devices; the table is short as it is.
    """
    del abbreviated
    index = device_index(device)
    rows = [f"device memory of spyre:{index}"]
    for name, value in memory_stats(index).items():
        is_bytes = "bytes" in name
        text = f"{value / 2**20:12.2f} MiB" if is_bytes else f"{value:12}"
        rows.append(f"  {name:30} {text}")
    return "\n".join(rows)
