# SPDX-License-Identifier: Apache-2.0
"""Copies between host arrays and device memory, in one pass over format and layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from spyre_layout import _core
from spyre_layout._arrays import ArrayLike
from spyre_layout._numbers import integer, integers
from spyre_layout.formats import DTypeLike, dtype_name
from spyre_layout.layout import SpyreTensorLayout, core_of

__all__ = ["DmaPiece", "DmaPlan", "dma_plan", "from_device", "restickify", "to_device"]


class DmaPiece(NamedTuple):
    """One loop nest of a copy, in elements; loops in decreasing order of device stride."""

    ranges: tuple[int, ...]
    host_strides: tuple[int, ...]
    device_strides: tuple[int, ...]
    host_offset: int
    device_offset: int


class DmaPlan(tuple[DmaPiece, ...]):
    """The loop nests that a copy takes: one, unless padding or tiling cuts the view.

    `ranges`, `host_strides` and `device_strides` are those of the one loop nest; a plan of several
    refuses them.
    """

    __slots__ = ()

    @property
    def ranges(self) -> tuple[int, ...]:
        """Extents of the loops."""
        return self._only().ranges

    @property
    def host_strides(self) -> tuple[int, ...]:
        """Strides of the loops in the host array."""
        return self._only().host_strides

    @property
    def device_strides(self) -> tuple[int, ...]:
        """Strides of the loops in device memory."""
        return self._only().device_strides

    def _only(self) -> DmaPiece:
        if len(self) != 1:
            raise ValueError(f"the plan has {len(self)} pieces; look at each of them")
        return self[0]


def dma_plan(
    layout: SpyreTensorLayout,
    size: Sequence[int] | None = None,
    host_strides: Sequence[int] | None = None,
    *,
    view_strides: Sequence[int] | None = None,
    storage_offset: int = 0,
) -> DmaPlan:
    """Plan the copy between a host array and (a view of) a storage with a layout.

    Args:
        layout: Layout of the storage.
        size: Size of the array; by default that of the layout's host tensor.
        host_strides: Strides of the array, in elements; contiguous by default.
        view_strides: Strides of the view of the storage, in host elements; by default those of the
            layout's host tensor, or contiguous ones.
        storage_offset: Offset of the view's first element, in host elements.

    >>> plan = dma_plan(SpyreTensorLayout([1024, 256], [256, 1], "float16", [0, 1]))
    >>> plan.ranges, plan.host_strides, plan.device_strides
    ((4, 1024, 64), (64, 256, 1), (65536, 64, 1))
    """
    core = core_of(layout)
    wanted, view = _view_of(layout, size, view_strides)
    strides = (
        _core.contiguous_strides(wanted)
        if host_strides is None
        else integers(host_strides, "host_strides")
    )
    pieces = _core.transfer_plan(
        core, wanted, strides, view, integer(storage_offset, "storage_offset")
    )
    return DmaPlan(DmaPiece(*piece) for piece in pieces)


def to_device(
    values: ArrayLike,
    layout: SpyreTensorLayout,
    *,
    dtype: DTypeLike | None = None,
    out: ArrayLike | None = None,
) -> Any:
    """Copy a host array, in any strides, to device bytes of a layout.

    Args:
        values: The array; of the size of the layout's host tensor where that is known, laid out
            row-major where not.
        layout: The layout.
        dtype: What the elements are, where the array cannot say: "bfloat16" for bits in an array of
            16-bit integers. If left out, the array's own dtype; but integers stand for the bits of
            the layout's host tensor if that is of their width and of a dtype that NumPy lacks.
        out: Contiguous writable memory of at least `layout.device_nbytes` bytes, apart from
            `values`; its padding is left alone.

    Returns:
        `out`, or a new bytearray with zeros in the padding.
    """
    name = None if dtype is None else dtype_name(dtype)
    return _core.to_device(values, name, core_of(layout), out)


def from_device(
    data: ArrayLike,
    layout: SpyreTensorLayout,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    storage_offset: int = 0,
    *,
    dtype: DTypeLike | None = None,
    out: ArrayLike | None = None,
) -> Any:
    """Copy (a view of) device bytes of a layout to a host array.

    Args:
        data: Device memory.
        layout: Its layout.
        size: Size of the view; by default that of the layout's host tensor.
        stride: Strides of the view, in host elements; by default those of the layout's host tensor
            if `size` is left out too, contiguous ones if not.
        storage_offset: Offset of the view's first element, in host elements.
        dtype: Dtype of the result; by default that of `out`, or of the layout's host tensor. One
            that NumPy lacks (bfloat16, 8-bit floats) comes as its bits in an unsigned array.
        out: A writable array of the view's size, in any strides, to fill. Integers of its width
            take the bits of a `dtype` (or of a host tensor's dtype) that NumPy lacks.

    Returns:
        `out`, or a new contiguous array.
    """
    core = core_of(layout)
    wanted, view = _view_of(layout, size, stride)
    name = None if dtype is None else dtype_name(dtype)
    offset = integer(storage_offset, "storage_offset")
    return _core.from_device(data, core, wanted, view, offset, name, out)


def restickify(
    data: ArrayLike,
    layout: SpyreTensorLayout,
    to: SpyreTensorLayout,
    *,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    out: ArrayLike | None = None,
) -> Any:
    """Move device bytes from one layout of a host tensor to another of the same format.

    Args:
        data: Device memory in `layout`.
        layout: Its layout.
        to: The layout wanted.
        size: Size of the host tensor; by default that known to `layout`, or to `to`.
        stride: Its strides; by default those known, or contiguous ones.
        out: Contiguous writable memory of at least `to.device_nbytes` bytes, apart from `data`; its
            padding is left alone.

    Returns:
        `out`, or a new bytearray with zeros in the padding.
    """
    source, target = core_of(layout), core_of(to, "to")
    known = layout if layout.host_size is not None or to.host_size is None else to
    wanted, strides = _view_of(known, size, stride)
    return _core.restickify(data, source, target, wanted, strides, out)


def _view_of(
    layout: SpyreTensorLayout, size: Sequence[int] | None, stride: Sequence[int] | None
) -> tuple[list[int], list[int]]:
    known, strides = layout.host_size, layout.host_strides
    if size is None:
        if known is None or strides is None:
            raise ValueError(
                f"the size of the host tensor is needed, which {layout!r} does not know; give size="
            )
        wanted = known
    else:
        wanted = integers(size, "size")
    if stride is not None:
        return wanted, integers(stride, "stride")
    if strides is not None and wanted == known:
        return wanted, strides
    return wanted, _core.contiguous_strides(wanted)
