# SPDX-License-Identifier: Apache-2.0
"""Streams and events. Both are PyTorch's own classes underneath, so generic code takes them too."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from numbers import Integral
from typing import Any

import torch

from spyre_runtime._native import native
from spyre_runtime._registration import DEVICE_NAME
from spyre_runtime.devices import DeviceLike, device_index

_LAST_LOW_PRIORITY_ID = 32
_LAST_ID = 64
_DEVICE_TYPE = int(torch._C._autograd.DeviceType.PrivateUse1)


class Stream(torch.Stream):
    """Wrapper around a Spyre stream.

    A stream is a linear sequence of execution that belongs to a specific device. Operations on
    different streams can run concurrently. The ``Stream`` object is itself a context manager:
    putting it in a ``with`` block sets it as the current stream for that block.

    Args:
        device: Device for the stream: ``torch.device``, ``int``, or a string like ``"spyre"`` or
            ``"spyre:0"``. If None, the current device is used.
        priority: Priority class for the stream. 0 selects the low-priority pool; any non-zero value
            selects the high-priority pool. Each pool has 32 streams per device, allocated
            round-robin.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **parts: Any) -> Stream:
        """Take a stream from its pool, or wrap the one that ``parts`` identify."""
        if parts:
            return super().__new__(cls, **_checked_parts(parts))
        if isinstance(priority, bool) or not isinstance(priority, Integral):
            raise TypeError(f"expected an int as priority, found {type(priority).__name__}")
        target = torch.device(DEVICE_NAME, device_index(device))
        # Only the class matters, and PyTorch would keep but the lowest 32 bits of a number.
        return super().__new__(cls, device=target, priority=0 if priority == 0 else 1)

    def synchronize(self) -> None:
        """Wait for all operations on this stream to complete."""
        super().synchronize()

    def query(self) -> bool:
        """Return whether all operations on this stream have completed."""
        return super().query()

    def device(self) -> torch.device:  # type: ignore[override]
        """Return the device associated with this stream."""
        return torch.device(DEVICE_NAME, self.device_index)

    @property
    def id(self) -> int:
        """The stream ID.

        0 is the default stream, 1 to 32 are the low-priority streams, and 33 to 64 are the
        high-priority streams.
        """
        return self.stream_id

    @property
    def priority(self) -> int:
        """The stream priority class: 0 for low-priority, anything non-zero for high-priority."""
        return 0 if self.stream_id <= _LAST_LOW_PRIORITY_ID else 1

    def __enter__(self) -> Stream:
        """Make this the current stream until the block is left."""
        super().__enter__()
        self._entered += 1
        return self

    def __exit__(self, *exception: object) -> None:
        """Make the former stream current again.

        Raises:
            RuntimeError: The block was never entered.
        """
        if self._entered == 0:
            raise RuntimeError(f"{self!r} was left without having been entered; use it with `with`")
        self._entered -= 1
        super().__exit__(*exception)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:  # type: ignore[override]
        """Record ``event``, or a new :class:`Event`, after the work queued so far; return it."""
        if event is None:
            event = Event(self.device())
        _expect(event, torch.Event)
        event.record(self)
        return event

    def wait_event(self, event: torch.Event) -> None:
        """Let later work of this stream wait for ``event``."""
        _expect(event, torch.Event)
        super().wait_event(event)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Let later work of this stream wait for what is queued on ``stream``."""
        _expect(stream, torch.Stream)
        super().wait_stream(stream)

    _entered = 0

    def __repr__(self) -> str:
        return (
            f"torch.spyre.Stream(device={DEVICE_NAME}:{self.device_index}, id={self.id}, "
            f"priority={self.priority})"
        )


class Event(torch.Event):
    """A mark in a stream, to wait for or to measure between.

    Args:
        device: Device of the event. If None, the current device is used.
        enable_timing: Whether :meth:`elapsed_time` may be asked for.
        blocking: Accepted for likeness with other devices; waiting always blocks the thread.
        interprocess: Not supported.
    """

    def __new__(
        cls,
        device: DeviceLike = None,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> Event:
        """Make an event that has not been recorded yet."""
        flags = {"enable_timing": enable_timing, "blocking": blocking, "interprocess": interprocess}
        for name, value in flags.items():
            if not isinstance(value, bool):
                raise TypeError(f"expected a bool as {name}, found {type(value).__name__}")
        if interprocess:
            raise NotImplementedError(
                "spyre events cannot be shared between processes; leave interprocess=False and "
                "wait for the work before telling another process of it"
            )
        target = torch.device(DEVICE_NAME, device_index(device))
        event = super().__new__(cls, target, enable_timing=enable_timing, blocking=blocking)
        event._index = target.index
        event._is_timed = enable_timing
        return event

    _is_timed: bool
    _index: int  # PyTorch's own device has none before the event is recorded

    def record(self, stream: torch.Stream | None = None) -> None:
        """Mark the work queued so far on ``stream``, or on the current stream of the device."""
        if stream is None:
            # The event belongs to a device: that one's stream, whichever device is current.
            stream = current_stream(self._index)
        _expect(stream, torch.Stream)
        super().record(stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Let later work of ``stream``, or of the current stream, wait for this event."""
        if stream is None:
            stream = current_stream()
        _expect(stream, torch.Stream)
        super().wait(stream)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Return the milliseconds from this event to ``end_event``; wait for both first."""
        _expect(end_event, torch.Event)
        if end_event.device.type != DEVICE_NAME:
            raise ValueError(
                f"cannot measure the time from a spyre event to one of {end_event.device}"
            )
        for event in (self, end_event):
            if isinstance(event, Event) and not event._is_timed:
                raise ValueError(f"both events must be made with enable_timing=True, found {event}")
        # torch.Event's own method takes no events of a subclass.
        return native().elapsed_ms(self.event_id, end_event.event_id)

    def __repr__(self) -> str:
        state = "not recorded" if self.event_id == 0 else "reached" if self.query() else "pending"
        return f"torch.spyre.Event(device={DEVICE_NAME}:{self._index}, {state})"


def stream(stream: torch.Stream | None) -> torch.Stream | AbstractContextManager[None]:
    """Return ``stream``, for use in a ``with`` block; for None, a block that changes nothing.

    The swap of the current stream is done by the stream itself when the block is entered and left.
    """
    if stream is None:
        return nullcontext()
    _expect(stream, torch.Stream)
    return stream


def current_stream(device: DeviceLike = None) -> Stream:
    """Return the currently active stream for the given device.

    Args:
        device: Device to query. If None, uses the current device.
    """
    from torch._C import _accelerator_getStream

    active = _accelerator_getStream(device_index(device))
    return _as_stream(active.stream_id, active.device_index)


def default_stream(device: DeviceLike = None) -> Stream:
    """Return the default stream (stream ID 0) for the given device.

    Args:
        device: Device to query. If None, uses the current device.
    """
    return _as_stream(0, device_index(device))


def set_stream(stream: torch.Stream | None) -> None:
    """Make a stream the current one of its device, and its device the current one.

    Nothing happens for None.
    """
    if stream is None:
        return
    _expect(stream, torch.Stream)
    torch.accelerator.set_stream(stream)


def _expect(value: object, kind: type) -> None:
    """PyTorch's own methods take the memory of any object for the one they expect."""
    if not isinstance(value, kind):
        raise TypeError(f"expected a torch.{kind.__name__}, found {type(value).__name__}")


def _checked_parts(parts: dict[str, Any]) -> dict[str, int]:
    """Check the numbers that identify an existing stream."""
    names = ("stream_id", "device_index", "device_type")
    if set(parts) != set(names):
        raise TypeError(
            "expected device and priority, or all of stream_id, device_index and device_type; "
            f"found {', '.join(sorted(parts))}"
        )
    for name in names:
        if isinstance(parts[name], bool) or not isinstance(parts[name], Integral):
            raise TypeError(f"expected an int as {name}, found {type(parts[name]).__name__}")
    if parts["device_type"] != _DEVICE_TYPE:
        raise ValueError(
            f"expected device_type {_DEVICE_TYPE}, that of {DEVICE_NAME}, "
            f"found {parts['device_type']}"
        )
    if not 0 <= parts["stream_id"] <= _LAST_ID:
        raise ValueError(
            f"spyre stream id {parts['stream_id']} is out of range: ids are 0 to {_LAST_ID}"
        )
    device_index(parts["device_index"])
    return {name: int(parts[name]) for name in names}


def _as_stream(stream_id: int, index: int) -> Stream:
    return Stream(stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE)
