# SPDX-License-Identifier: Apache-2.0
"""Arrays in and out: NumPy's where there is NumPy, memoryviews where there is not."""

from __future__ import annotations

import array
import sys
from collections.abc import Sequence
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


def as_array(values: Any) -> tuple[Any, str | None]:
    """Return what the compiled part can borrow, and the dtype to read it as if it cannot tell.

    Lists and tuples of numbers become arrays; arrays of the ml_dtypes types, which have neither
    buffer nor DLPack, become views of their bits.
    """
    if isinstance(values, (list, tuple)):
        if all(isinstance(value, int) for value in values):
            return array.array("q", values), None
        return array.array("f", values), None
    dtype: Any = getattr(values, "dtype", None)
    if (
        type(dtype).__module__.partition(".")[0] == "numpy"
        and dtype.kind == "V"
        and dtype.names is None
    ):
        name = _core.dtype_name(dtype.name)
        return values.view(_BIT_PATTERNS[dtype.itemsize]), name
    return values, None
