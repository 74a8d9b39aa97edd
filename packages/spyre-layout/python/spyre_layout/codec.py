# SPDX-License-Identifier: Apache-2.0
"""Codecs between host values and device codes, of scalars and arrays."""

from __future__ import annotations

import array
from typing import Any

from spyre_layout import _core
from spyre_layout._arrays import ArrayLike, as_array
from spyre_layout.formats import DataFormats, DTypeLike, FormatLike, dtype_name

__all__ = ["decode", "decode_to", "encode", "encode_from"]

_CODE_TYPES = {8: "B", 16: "H", 32: "I", 64: "Q"}


def encode(
    values: ArrayLike | float,
    fmt: FormatLike,
    saturate: bool = False,
    *,
    out: ArrayLike | None = None,
) -> Any:
    """Encode values as the device does when it stores what it computed.

    Floats are taken as float32 and rounded as the format says; integers given to a float format are
    rounded by way of float32; floats given to an integer format are truncated and clamped, NaN
    becomes 0; integers given to an integer format wrap. Infinity has no code in most formats: see
    `encode_from` for what copies of host tensors do.

    Args:
        values: A number, a list of numbers, or an array.
        fmt: The format, e.g. `DataFormats.SEN169_FP16`.
        saturate: Clamp finite values to the largest finite one where the default overflows, and
            integers to the range where it wraps.
        out: An array to write the codes to.

    Returns:
        Codes as unsigned integers, one an element: an int for a number, else an array of `values`'
        shape. A format narrower than a byte takes a byte an element.

    Raises:
        ValueError: The format has no storage, or the array is of a dtype without codec.

    >>> hex(encode(1.0, DataFormats.SEN169_FP16))
    '0x3e00'
    """
    chosen = DataFormats.of(fmt)
    if isinstance(values, (bool, int, float)):
        kind = "f" if isinstance(values, float) else "q"
        codes = _core.encode(array.array(kind, [values]), None, chosen, saturate, None)
        return int(codes[0])
    borrowed, dtype = as_array(values)
    return _core.encode(borrowed, dtype, chosen, saturate, out)


def decode(codes: ArrayLike | int, fmt: FormatLike, *, out: ArrayLike | None = None) -> Any:
    """Decode codes to the values they stand for, exactly.

    Args:
        codes: An int, a list of ints, or an array of unsigned integers of the format's width.
        fmt: The format.
        out: An array to write the values to.

    Returns:
        float32 for float formats, int64 for integer formats, bool for BOOL.

    >>> decode(0x3E00, "SEN169_FP16")
    1.0
    """
    chosen = DataFormats.of(fmt)
    scalar = isinstance(codes, int)
    if scalar or isinstance(codes, (list, tuple)):
        listed: list[int] = [codes] if isinstance(codes, int) else list(codes)
        if not chosen.has_storage:
            raise ValueError(f"cannot decode codes of {chosen.name}: it has no storage")
        limit = 1 << chosen.bits
        for code in listed:
            if not 0 <= code < limit:
                raise ValueError(
                    f"{code} is not a code of {chosen.name}; expected 0 to {limit - 1:#x}"
                )
        codes = array.array(_CODE_TYPES[max(8, chosen.bits)], listed)
    values = _core.decode(codes, chosen, None if scalar else out)
    if not scalar:
        return values
    value = values[0]
    return {"float": float, "bool": bool}.get(chosen.kind, int)(value)


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
        dtype: How to read the elements, where the array cannot say: "bfloat16" for bits in a uint16
            array.
        saturate: Convert by value, as `encode` does, and clamp as it does.
        out: An array to write the codes to.

    Returns:
        An array of codes of the shape of `values`; for formats narrower than a byte, a flat array
        of bytes into which the codes are packed, lowest bits first.
    """
    borrowed, own = as_array(values)
    name = own if dtype is None else dtype_name(dtype)
    return _core.encode_from(borrowed, name, DataFormats.of(fmt), saturate, out)


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
        out: An array to write the elements to.
    """
    return _core.decode_to(codes, DataFormats.of(fmt), dtype_name(dtype), count, out)
