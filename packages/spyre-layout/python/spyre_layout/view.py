# SPDX-License-Identifier: Apache-2.0
"""View resolution: from a PyTorch view of a storage to device addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from spyre_layout import _core
from spyre_layout._numbers import integer, integers
from spyre_layout.layout import SpyreTensorLayout, core_of

__all__ = ["DeviceView", "Digit", "Run", "ViewLoop", "contiguous_runs", "resolve_view"]


class ViewLoop(NamedTuple):
    """One loop over device memory: (a part of) a dimension of the view."""

    dim: int
    extent: int
    device_stride: int


class Digit(NamedTuple):
    """One step to a device offset: the quotient counts there, the remainder goes to the next."""

    divisor: int
    device_stride: int
    limit: int


class Run(NamedTuple):
    """A stretch of elements that are consecutive in the view and on the device."""

    view_index: int
    device_offset: int
    length: int


class DeviceView(NamedTuple):
    """Where the elements of a view lie on the device.

    Attributes:
        affine: If true, element (i0, i1, ...) of the loop nest lies at
            `device_offset + sum(i * loop.device_stride)`. If false no loop nest fits: there is one
            loop per dimension with the *host* stride in `device_stride`, and the host offset
            `host_offset + sum(i * stride)` is mapped by `map`.
        loops: In the order of the view's dimensions; a dimension that the layout breaks has
            several, outermost part first.
        device_offset: Of the first element, if affine.
        host_offset: Of the first element.
        digits: The layout's way from host to device offsets.
    """

    affine: bool
    loops: tuple[ViewLoop, ...]
    device_offset: int
    host_offset: int
    digits: tuple[Digit, ...]

    def map(self, host_offset: int) -> int:
        """Return the device offset of a host offset that lies in the layout."""
        device = 0
        for divisor, stride, _ in self.digits:
            quotient, host_offset = divmod(host_offset, divisor)
            device += quotient * stride
        return device

    def device_offsets(self) -> Iterator[int]:
        """Yield the device offset of each element, in row-major order of the view."""
        start = self.device_offset if self.affine else self.host_offset
        strides = [loop.device_stride for loop in self.loops]
        for position in product(*(range(loop.extent) for loop in self.loops)):
            offset = start + sum(i * s for i, s in zip(position, strides, strict=True))
            yield offset if self.affine else self.map(offset)


def resolve_view(
    layout: SpyreTensorLayout,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int = 0,
    *,
    write: bool = False,
) -> DeviceView:
    """Resolve a view of a storage with a layout to its device access.

    Args:
        layout: Layout of the storage.
        size: Size of the view.
        stride: Strides of the view, in host elements; may be zero or negative.
        storage_offset: Offset of the view's first element, in host elements.
        write: Refuse views in which several elements share an address.

    Raises:
        IndexError: Some element of the view has no place in the layout.
        ValueError: The view is malformed, or overlaps itself and is to be written.

    >>> layout = SpyreTensorLayout([512, 256], [256, 1], "float16", [0, 1])
    >>> [tuple(loop) for loop in resolve_view(layout, [256, 512], [1, 256]).loops]
    [(0, 4, 32768), (0, 64, 1), (1, 512, 64)]
    """
    affine, loops, device_offset, host_offset, digits = _core.resolve_view(
        core_of(layout),
        integers(size, "size"),
        integers(stride, "stride"),
        integer(storage_offset, "storage_offset"),
        write,
    )
    return DeviceView(
        affine,
        tuple([ViewLoop(*loop) for loop in loops]),
        device_offset,
        host_offset,
        tuple([Digit(*digit) for digit in digits]),
    )


def contiguous_runs(
    layout: SpyreTensorLayout,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int = 0,
) -> list[Run]:
    """Return a view as the fewest stretches that are consecutive in the view and on the device."""
    runs = _core.contiguous_runs(
        core_of(layout),
        integers(size, "size"),
        integers(stride, "stride"),
        integer(storage_offset, "storage_offset"),
    )
    return [Run(*run) for run in runs]
