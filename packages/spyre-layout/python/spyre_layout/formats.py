# SPDX-License-Identifier: Apache-2.0
"""Device formats, and names of host dtypes."""

from __future__ import annotations

import enum
from operator import index
from typing import Any

from spyre_layout import _core

__all__ = ["DTypeLike", "DataFormats", "FormatLike", "device_format", "dtype_name"]

# What stands for a dtype: "float16", numpy.float16, numpy.dtype("float16") or torch.float16.
DTypeLike = Any
# What stands for a format: a DataFormats, its value, or its name.
FormatLike = Any

_KINDS = ("none", "float", "signed", "unsigned", "bool")
_BUILTIN_DTYPES = {bool: "bool", int: "int64", float: "float32"}
# The last letters of format specifications that ask for a number.
_INTEGER_TYPES = tuple("bcdoxXneEfFgG%")
# NumPy's names of types by what C calls them.
_C_NAMES = {"longlong": "int64", "ulonglong": "uint64"}


class DataFormats(enum.IntEnum):
    """On-device data formats: the bit-level encoding of an element in device memory."""

    SEN169_FP16 = 0
    IEEE_FP32 = 1
    INVALID = 2
    SEN143_FP8 = 3
    SEN152_FP8 = 4
    SEN153_FP9 = 5
    SENINT2 = 6
    SENINT4 = 7
    SENINT8 = 8
    SENINT16 = 9
    SENINT24 = 10
    IEEE_INT64 = 11
    IEEE_INT32 = 12
    SENUINT32 = 13
    SENUINT2 = 14
    IEEE_FP16 = 15
    BOOL = 16
    BFLOAT16 = 17
    SEN18F_FP24 = 18

    def __str__(self) -> str:
        return f"DataFormats.{self.name}"

    def __format__(self, spec: str) -> str:
        return format(int(self) if spec[-1:] in _INTEGER_TYPES else str(self), spec)

    @classmethod
    def of(cls, value: FormatLike) -> DataFormats:
        """Return the format that a member, a value or a name stands for."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            try:
                return cls[value.removeprefix("DataFormats.")]
            except KeyError:
                names = ", ".join(cls.__members__)
                raise ValueError(
                    f"no data format is called {value!r}; expected one of {names}"
                ) from None
        try:
            return cls(index(value))
        except ValueError:
            raise ValueError(
                f"no data format has the value {value}; expected 0 to {len(cls) - 1}"
            ) from None
        except TypeError:
            pass
        raise TypeError(
            f"a data format was given as a {type(value).__name__}; "
            "expected a DataFormats, its value or its name"
        )

    def elems_per_stick(self) -> int:
        """Return how many elements a 128-byte stick holds; 0 for formats without storage."""
        return int(_core.format_properties(self)[2])

    @property
    def bits(self) -> int:
        """Width of an element; 0 for INVALID."""
        return int(_core.format_properties(self)[1])

    @property
    def has_storage(self) -> bool:
        """Whether tensors can be kept in this format; compute-only formats have no storage."""
        return bool(_core.format_properties(self)[3])

    @property
    def kind(self) -> str:
        """What the bits stand for: "float", "signed", "unsigned", "bool" or "none"."""
        return _KINDS[_core.format_properties(self)[4]]

    @property
    def range(self) -> tuple[float, float] | tuple[int, int]:
        """Least and largest finite value. Raises ValueError for formats without storage."""
        _, bits, _, has_storage, _, low, high, _ = _core.format_properties(self)
        if not has_storage:
            raise ValueError(f"format {self.name} has no storage, and so no range of stored values")
        if self.kind == "float":
            return low, high
        if self.kind == "signed":
            return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return 0, int(high)

    @property
    def smallest(self) -> float:
        """Smallest value above zero. Raises ValueError for formats without storage."""
        _, _, _, has_storage, _, _, _, smallest = _core.format_properties(self)
        if not has_storage:
            raise ValueError(f"format {self.name} has no storage, and so no smallest stored value")
        return float(smallest)


def dtype_name(dtype: DTypeLike) -> str:
    """Return PyTorch's name of a dtype given as a string, a NumPy dtype or type, or a torch dtype.

    Raises:
        ValueError: There is no such dtype.
        TypeError: The argument is nothing that names a dtype.
    """
    if isinstance(dtype, str):
        return _core.dtype_name(dtype)
    if isinstance(dtype, type):
        builtin = _BUILTIN_DTYPES.get(dtype)
        return builtin or _core.dtype_name(_C_NAMES.get(dtype.__name__, dtype.__name__))
    name = getattr(dtype, "name", None)  # numpy.dtype
    if isinstance(name, str) and not isinstance(dtype, enum.Enum):
        return _core.dtype_name(name)
    if type(dtype).__module__ == "torch" and type(dtype).__name__ == "dtype":
        return _core.dtype_name(str(dtype))
    raise TypeError(
        f"a dtype was given as {dtype!r} of type {type(dtype).__name__}; "
        "expected a name such as 'float16', a NumPy dtype or a torch dtype"
    )


def device_format(dtype: DTypeLike) -> DataFormats:
    """Return the format in which tensors of a dtype are kept on the device.

    >>> device_format("float16")
    <DataFormats.SEN169_FP16: 0>

    Raises:
        ValueError: The dtype has no device format; the message names one to cast to.
    """
    return DataFormats(_core.device_format(dtype_name(dtype)))
