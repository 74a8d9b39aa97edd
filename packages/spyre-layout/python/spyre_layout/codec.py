# SPDX-License-Identifier: Apache-2.0
"""Codecs between host values and device codes, of scalars and arrays."""

from __future__ import annotations

import array
from operator import index
from typing import Any, overload

from spyre_layout import _core
from spyre_layout._arrays import ArrayLike, numbers_as_array
from spyre_layout._numbers import integer
from spyre_layout.formats import DataFormats, DTypeLike, FormatLike, dtype_name

__all__ = ["decode", "decode_to", "encode", "encode_from"]

_CODE_TYPES = {8: "B", 16: "H", 32: "I", 64: "Q"}


def _is_number(value: object) -> bool:
    """Tell numbers, Python's and NumPy's, from arrays."""
    return isinstance(value, (int, float)) or (
        getattr(value, "shape", None) == () and not hasattr(value, "__dlpack__")
    )


@overload
def encode(values: float, fmt: FormatLike, saturate: bool = ...) -> int: ...
@overload
def encode(
    values: ArrayLike, fmt: FormatLike, saturate: bool = ..., *, out: ArrayLike | None = ...
) -> Any: ...
def encode(
    values: Any, fmt: FormatLike, saturate: bool = False, *, out: ArrayLike | None = None
) -> Any:
    """Encode values as the device does when it stores what it computed.

    Numbers given to a float format are taken as float32 and rounded as the format says; floats
    given to an integer format are truncated and clamped, NaN becomes 0; integers given to an
    integer format wrap. Infinity has no code in most formats: see `encode_from` for what copies of
    host tensors do.

    Args:
        values: A number, a list of numbers, or an array.
        fmt: The format, e.g. `DataFormats.SEN169_FP16`.
        saturate: Clamp finite values to the largest finite one where the default overflows, and
            integers to the range where it wraps.
        out: An array of integers of the format's width to write the codes to: of `values`' shape,
            or flat.

    Returns:
        Codes as unsigned integers, one an element: an int for a number, else an array of `values`'
        shape. A format narrower than a byte takes a byte an element.

    Raises:
        ValueError: The format has no storage, the array is of a dtype without codec, or `out` does
            not fit.

    >>> hex(encode(1.0, DataFormats.SEN169_FP16))
    '0x3e00'
    """
    chosen = DataFormats.of(fmt)
    if out is None and _is_number(values):
        return int(_core.encode(numbers_as_array([values], "values"), chosen, saturate, None)[0])
    return _core.encode(values, chosen, saturate, out)


@overload
def decode(codes: int, fmt: FormatLike) -> float: ...
@overload
def decode(codes: ArrayLike, fmt: FormatLike, *, out: ArrayLike | None = ...) -> Any: ...
def decode(codes: Any, fmt: FormatLike, *, out: ArrayLike | None = None) -> Any:
    """Decode codes to the values they stand for, exactly.

    Args:
        codes: An int, a list of ints, or an array of unsigned integers of the format's width.
        fmt: The format.
        out: An array of the result's dtype to write the values to: of `codes`' shape, or flat.

    Returns:
        float32 for float formats, int64 for integer formats, bool for BOOL.

    >>> decode(0x3E00, "SEN169_FP16")
    1.0
    """
    chosen = DataFormats.of(fmt)
    if out is None and _is_number(codes):
        value = _core.decode(_codes_as_array([codes], chosen), chosen, None)[0]
        return {"float": float, "bool": bool}.get(chosen.kind, int)(value)
    if isinstance(codes, (list, tuple)):
        codes = _codes_as_array(codes, chosen)
    return _core.decode(codes, chosen, out)


def _codes_as_array(codes: Any, fmt: DataFormats) -> Any:
    if not fmt.has_storage:
        raise ValueError(f"cannot decode codes of {fmt.name}: it has no storage")
    limit = 1 << fmt.bits
    listed = []
    for code in codes:
        try:
            listed.append(index(code))
        except TypeError:
            raise TypeError(f"a code was given as {code!r}; expected an integer") from None
        if not 0 <= listed[-1] < limit:
            raise ValueError(f"{code} is not a code of {fmt.name}; expected 0 to {limit - 1:#x}")
    return array.array(_CODE_TYPES[max(8, fmt.bits)], listed)


def encode_from(
    values: ArrayLike,
    fmt: FormatLike,
    *,
    dtype: DTypeLike | None = None,
    saturate: bool = False,
    out: ArrayLike | None = None,
) -> Any:
    """Encode a host array as a copy to the device does.

    Where the format is the one that tensors of the dtype are kept in, the rules of copies hold (for
    float16 in SEN169: finite stays finite, infinity becomes 0x7E00, which reads back as infinity;
    bool becomes 0.0 and 1.0; 8-bit floats keep their bytes). Other pairs convert by value.

    Args:
        values: An array, in any strides.
        fmt: The format.
        dtype: What the elements are, where the array cannot say: "bfloat16" for bits in an array of
            16-bit integers.
        saturate: Convert by value, as `encode` does, and clamp as it does.
        out: An array to write the codes to.

    Returns:
        An array of codes of the shape of `values`; for formats narrower than a byte, a flat array
        of bytes into which the codes are packed, lowest bits first.
    """
    name = None if dtype is None else dtype_name(dtype)
    return _core.encode_from(values, name, DataFormats.of(fmt), saturate, out)


def decode_to(
    codes: ArrayLike,
    fmt: FormatLike,
    dtype: DTypeLike,
    *,
    count: int | None = None,
    out: ArrayLike | None = None,
) -> Any:
    """Decode codes to a host dtype as a copy from the device does: the way back of `encode_from`.

    Args:
        codes: An array of codes; packed bytes for formats narrower than a byte.
        fmt: The format.
        dtype: The dtype of the result. One that NumPy lacks (bfloat16, 8-bit floats) comes as its
            bits in an unsigned array; give `out` to fill a tensor of it.
        count: How many elements to decode, where the codes hold more.
        out: An array of `dtype` to write the elements to; integers of its width take the bits of
            one that NumPy lacks.
    """
    if count is not None:
        count = integer(count, "count")
    return _core.decode_to(codes, DataFormats.of(fmt), dtype_name(dtype), count, out)
