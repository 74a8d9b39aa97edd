# SPDX-License-Identifier: Apache-2.0
"""`SpyreTensorLayout`: how a tensor lies in device memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

from spyre_layout import _core
from spyre_layout._core import Layout
from spyre_layout._numbers import integer, integers
from spyre_layout.formats import DataFormats, DTypeLike, FormatLike, dtype_name

__all__ = ["SpyreTensorLayout"]

# The argument lists of the constructor. Earlier ones win where positional arguments fit several.
_FORMS = (
    ("host_size", "dtype"),
    ("host_size", "host_strides", "dtype", "dim_order"),
    ("device_size", "stride_map", "device_dtype"),
    ("host_size", "host_strides", "dtype"),
    ("host_size", "dtype", "dim_order"),
)


class SpyreTensorLayout:
    """How a tensor lies in device memory: tiling, padding and the order of dimensions.

    There are three ways to make one:

    - `SpyreTensorLayout(host_size, dtype)`: row-major sticks, the default layout. The last
      dimension is split into (sticks, elements per stick) and padded to whole sticks; the others
      keep their order. With `host_strides=` (by keyword) the dimensions go in order of decreasing
      stride.
    - `SpyreTensorLayout(host_size, host_strides, dtype, dim_order)`: generic sticks. Device
      dimensions are those of `dim_order[1:]`, then `dim_order[0]`, then the stick, which runs along
      `dim_order[-1]`. A trailing -1 makes the sparse layout, with one element per stick.
      `host_strides` may be left out (by keyword) for a contiguous tensor.
    - `SpyreTensorLayout(device_size, stride_map, device_dtype)`: as given.

    Device memory is row-major over `device_size`, in whole 128-byte sticks, and the element at
    device coordinates c is the host element at offset `sum(c * stride_map)`.

    Layouts are immutable values: they compare by device size, stride map and format, and hash,
    pickle and copy as one expects.

    >>> layout = SpyreTensorLayout([4, 128], "float16")
    >>> layout.device_size, layout.stride_map
    ([4, 2, 64], [128, 64, 1])
    """

    __slots__ = ("_core",)
    _core: Layout

    @overload
    def __init__(
        self,
        host_size: Sequence[int],
        dtype: DTypeLike,
        *,
        host_strides: Sequence[int] = ...,
        dim_order: Sequence[int] = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        host_size: Sequence[int],
        host_strides: Sequence[int],
        dtype: DTypeLike,
        dim_order: Sequence[int],
    ) -> None: ...
    @overload
    def __init__(
        self, device_size: Sequence[int], stride_map: Sequence[int], device_dtype: FormatLike
    ) -> None: ...
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = _bind(args, kwargs)
        object.__setattr__(self, "_core", _make(given))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name!r}: layouts are immutable; make another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name!r}: layouts are immutable")

    @classmethod
    def _wrap(cls, core: Layout) -> SpyreTensorLayout:
        layout = object.__new__(cls)
        object.__setattr__(layout, "_core", core)
        return layout

    def with_host(
        self, host_size: Sequence[int], host_strides: Sequence[int] | None, dtype: DTypeLike
    ) -> SpyreTensorLayout:
        """Return the same layout, knowing the host tensor it is of; None means contiguous strides.

        An explicit layout knows only its device side: told of its host tensor, it can tell all
        padding apart, and the functions that copy need no sizes.

        Raises:
            ValueError: Some element of that tensor has no place in the layout, or no codec converts
                the dtype to its format.
        """
        size = integers(host_size, "host_size")
        strides = (
            _core.contiguous_strides(size)
            if host_strides is None
            else integers(host_strides, "host_strides")
        )
        return self._wrap(self._core.with_host(size, strides, dtype_name(dtype)))

    # ---- the device side -------------------------------------------------------------------------

    @property
    def device_size(self) -> list[int]:
        """Shape on the device, including tiling dimensions and padding."""
        return self._core.device_size

    @property
    def stride_map(self) -> list[int]:
        """Host stride of each device dimension; -1 for one that stands for no host dimension."""
        return self._core.stride_map

    @property
    def device_dtype(self) -> DataFormats:
        """Format of an element."""
        return DataFormats(self._core.format)

    def elems_per_stick(self) -> int:
        """Return the number of elements per stick for this layout's dtype."""
        return self._core.elems_per_stick

    @property
    def device_strides(self) -> list[int]:
        """Stride of each device dimension, in device elements."""
        return self._core.device_strides

    @property
    def device_numel(self) -> int:
        """Elements on the device, padding included."""
        return self._core.device_numel

    @property
    def device_nbytes(self) -> int:
        """Bytes on the device: a multiple of 128."""
        return self._core.device_bytes

    @property
    def num_sticks(self) -> int:
        """Sticks on the device."""
        return self._core.device_bytes // 128

    @property
    def padding_ratio(self) -> float:
        """Share of the device elements that hold no host element, from 0 to 1."""
        total = self._core.device_numel
        return 1.0 - self._core.host_numel / total if total else 0.0

    # ---- the host side ---------------------------------------------------------------------------

    @property
    def host_size(self) -> list[int] | None:
        """Size of the host tensor; None if unknown."""
        return self._core.host_size if self._core.host_known else None

    @property
    def host_strides(self) -> list[int] | None:
        """Strides of the host tensor, in elements; None if unknown."""
        return self._core.host_strides if self._core.host_known else None

    @property
    def host_dtype(self) -> str | None:
        """Name of the host tensor's dtype; None if unknown."""
        return self._core.host_dtype if self._core.host_known else None

    # ---- coordinates -----------------------------------------------------------------------------

    def device_offset(self, host: int | Sequence[int]) -> int:
        """Return the device offset of a host offset or of the index of a host element.

        Raises:
            IndexError: The layout has no place for it.
        """
        if not _is_index(host):
            return self._core.device_offset(integer(host, "host offset"))
        size, strides = self._known_host("device_offset of a host index")
        position = _checked_index(host, size, "host index")
        return self._core.device_offset(sum(i * s for i, s in zip(position, strides, strict=True)))

    def host_offset(self, device: int | Sequence[int]) -> int | None:
        """Return the host offset of a device offset or of device coordinates; None for padding."""
        if _is_index(device):
            coordinates = _checked_index(device, self._core.device_size, "device coordinates")
            strides = self._core.device_strides
            device = sum(c * s for c, s in zip(coordinates, strides, strict=True))
        offset = self._core.host_offset(integer(device, "device offset"))
        return None if offset < 0 else offset

    def device_coordinates(self, host: int | Sequence[int]) -> list[int]:
        """Return the device coordinates of a host offset or of the index of a host element."""
        rest = self.device_offset(host)
        coordinates = []
        for size in reversed(self._core.device_size):
            rest, coordinate = divmod(rest, size)
            coordinates.append(coordinate)
        return coordinates[::-1]

    def host_index(self, device: int | Sequence[int]) -> tuple[int, ...] | None:
        """Return the index of the host element at a device position; None for padding."""
        size, strides = self._known_host("host_index")
        rest = self.host_offset(device)
        if rest is None:
            return None
        result = [0] * len(size)
        for dim in sorted(range(len(size)), key=lambda d: -strides[d]):
            if size[dim] > 1:
                result[dim], rest = divmod(rest, strides[dim])
        return tuple(result)

    def _known_host(self, what: str) -> tuple[list[int], list[int]]:
        if not self._core.host_known:
            raise ValueError(
                f"{what} needs the host tensor, which {self!r} does not know; "
                "use with_host() to tell it"
            )
        return self._core.host_size, self._core.host_strides

    # ---- as a value ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SpyreTensorLayout):
            return NotImplemented
        return self._core.equals(other._core)

    def __hash__(self) -> int:
        return self._core.hash()

    def __repr__(self) -> str:
        return self._core.repr()

    def _repr_svg_(self) -> str:
        from spyre_layout.picture import to_svg

        return to_svg(self)

    def __copy__(self) -> SpyreTensorLayout:
        return self

    def __deepcopy__(self, memo: object) -> SpyreTensorLayout:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        host = (
            (self.host_size, self.host_strides, self.host_dtype) if self._core.host_known else None
        )
        return _rebuild, (self.device_size, self.stride_map, self.device_dtype.name, host)


def _rebuild(
    device_size: list[int],
    stride_map: list[int],
    device_dtype: str,
    host: tuple[list[int], list[int], str] | None,
) -> SpyreTensorLayout:
    layout = SpyreTensorLayout(device_size, stride_map, DataFormats[device_dtype])
    return layout if host is None else layout.with_host(*host)


def _bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    for form in _FORMS:
        if len(args) <= len(form) and set(kwargs) == set(form[len(args) :]):
            return dict(zip(form, args, strict=False)) | kwargs
    wanted = "; or ".join(f"({', '.join(form)})" for form in _FORMS[:3])
    given = ", ".join([f"{len(args)} positional"] * bool(args) + sorted(kwargs)) or "nothing"
    raise TypeError(f"SpyreTensorLayout was given {given}; expected {wanted}")


def _make(given: dict[str, Any]) -> Layout:
    if "device_size" in given:
        return Layout.make(
            integers(given["device_size"], "device_size"),
            integers(given["stride_map"], "stride_map"),
            DataFormats.of(given["device_dtype"]),
        )
    size = integers(given["host_size"], "host_size")
    dtype = dtype_name(given["dtype"])
    if "dim_order" in given:
        strides = given.get("host_strides")
        return Layout.generic_stick(
            size,
            _core.contiguous_strides(size)
            if strides is None
            else integers(strides, "host_strides"),
            dtype,
            integers(given["dim_order"], "dim_order"),
        )
    if "host_strides" in given:
        return Layout.strided(size, integers(given["host_strides"], "host_strides"), dtype)
    return Layout.row_major(size, dtype)


def _is_index(position: object) -> bool:
    """Tell an index (a list, a tuple, an array) from an offset."""
    return isinstance(position, Iterable) and getattr(position, "shape", None) != ()


def _checked_index(position: Any, size: Sequence[int], what: str) -> list[int]:
    checked = integers(position, what)
    if len(checked) != len(size) or not all(0 <= i < n for i, n in zip(checked, size, strict=True)):
        raise IndexError(f"{what} {checked} must lie in size {list(size)}")
    return checked


def core_of(layout: SpyreTensorLayout, what: str = "layout") -> Layout:
    """Return the compiled part of a layout; a TypeError names what was given instead."""
    if not isinstance(layout, SpyreTensorLayout):
        raise TypeError(
            f"{what} is {layout!r}, a {type(layout).__name__}; expected a SpyreTensorLayout"
        )
    return layout._core
