# SPDX-License-Identifier: Apache-2.0
"""Arrays in and out: NumPy's where there is NumPy, memoryviews where there is not."""

from __future__ import annotations

import array
import sys
from collections.abc import Sequence
from operator import index
from typing import Any

from spyre_layout import _core

# Array-likes: objects with the buffer protocol, or with __dlpack__ on the CPU.
ArrayLike = Any

# dtype -> struct format of a memoryview. Dtypes that neither NumPy nor memoryview has are bit
# patterns.
_STRUCT_FORMATS = {
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
}
_BIT_PATTERNS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


def storage_dtype(dtype: str) -> str:
    """Return the dtype itself, or the unsigned one of its width if arrays cannot have it."""
    return dtype if dtype in _STRUCT_FORMATS else _BIT_PATTERNS[_core.itemsize(dtype)]


def empty(dtype: str, size: Sequence[int]) -> Any:
    """Make an array that results are written to."""
    name = storage_dtype(dtype)
    try:
        import numpy as np
    except ImportError:
        return _empty_memoryview(name, size)
    return np.empty(size, dtype=name)


def _empty_memoryview(name: str, size: Sequence[int]) -> Any:
    count = 1
    for extent in size:
        count *= extent
    code = _STRUCT_FORMATS[name]
    if code == "e" and sys.version_info < (3, 12):
        code = "H"  # memoryview.cast learnt half floats in 3.12: bits until then
    flat: Any = memoryview(bytearray(count * _core.itemsize(name)))
    # A memoryview cannot be cast to a shape with a zero, or without dimensions.
    return flat.cast(code, list(size)) if count and size else flat.cast(code)


def lend(values: Any, writable: bool, what: str) -> tuple[Any, str | None]:
    """Return what the compiled part can borrow, and the dtype to read it as if it cannot tell.

    Lists and tuples of numbers become arrays; arrays of the ml_dtypes types, which have neither
    buffer nor DLPack, become views of their bits; torch tensors that are negated by a mark, which
    DLPack does not carry, are resolved.
    """
    if not writable and isinstance(values, (list, tuple)):
        return numbers_as_array(values, what), None
    dtype: Any = getattr(values, "dtype", None)
    if (
        type(dtype).__module__.partition(".")[0] == "numpy"
        and dtype.kind == "V"
        and dtype.names is None
        and dtype.itemsize in _BIT_PATTERNS
    ):
        name = _core.dtype_name(dtype.name)
        return values.view(_BIT_PATTERNS[dtype.itemsize]), name
    is_neg = getattr(values, "is_neg", None)
    if is_neg is not None and is_neg():
        if writable:
            raise ValueError(f"{what} is a view that negates what is written; give another tensor")
        return values.resolve_neg(), None
    return values, None


def numbers_as_array(values: Sequence[Any], what: str) -> Any:
    """Return an array of the values: of 64-bit integers if they all are, of doubles if not."""
    try:
        return array.array("q", [_index(value) for value in values])
    except TypeError:
        pass  # not integers all
    except OverflowError:
        large = next(value for value in values if not -(2**63) <= index(value) < 2**63)
        raise ValueError(
            f"{what} holds {large}, which is more than a 64-bit integer counts; "
            "give it as a float, or clamp it"
        ) from None
    try:
        return array.array("d", values)
    except TypeError:
        strange = next(value for value in values if not _is_real(value))
        raise TypeError(
            f"{what} is a {type(values).__name__} that holds {strange!r}, "
            f"a {type(strange).__name__}; expected numbers, or an array"
        ) from None


def _index(value: Any) -> int:
    # NumPy's truth values are no integers to NumPy.
    return int(value) if getattr(getattr(value, "dtype", None), "kind", "") == "b" else index(value)


def _is_real(value: Any) -> bool:
    try:
        array.array("d", [value])
    except TypeError:
        return False
    return True
