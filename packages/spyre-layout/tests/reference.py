# SPDX-License-Identifier: Apache-2.0
"""The rules of formats and layouts once more, written for NumPy by value instead of by bits.

Nothing of the package is used here: codes are chosen by searching tables of the values that exist,
layouts are built by dividing indices.
"""

from __future__ import annotations

import numpy as np

NAN169 = 0x7FFF
INF169 = 0x7E00


def sen169_values() -> np.ndarray:
    """Value of each of the 32,768 codes without sign, as float64; NaN for the last."""
    codes = np.arange(0x8000)
    exponent, fraction = codes // 512, codes % 512
    values = np.ldexp(1 + fraction / 512, exponent - 31)
    values[0] = 0
    values[NAN169] = np.nan
    return values


def sen169_decode(codes: np.ndarray) -> np.ndarray:
    codes = np.asarray(codes, dtype=np.uint16)
    values = sen169_values()[codes & 0x7FFF]
    return np.copysign(values, np.where(codes & 0x8000, -1.0, 1.0))


def nearest(values: np.ndarray, table: np.ndarray, ties: str) -> np.ndarray:
    """Find the nearest entry of an ascending table to each value; ties "away" or "even"."""
    upper = np.clip(np.searchsorted(table, values), 1, len(table) - 1)
    lower = upper - 1
    to_lower, to_upper = values - table[lower], table[upper] - values
    at_tie = upper if ties == "away" else np.where(lower % 2 == 0, lower, upper)
    chosen = np.where(to_lower < to_upper, lower, np.where(to_upper < to_lower, upper, at_tie))
    return np.where(values >= table[-1], len(table) - 1, chosen)


def doubles(values: np.ndarray) -> np.ndarray:
    """Convert to float64; NumPy warns of signalling NaNs, of which there are many here."""
    with np.errstate(invalid="ignore"):
        return np.asarray(values).astype(np.float64)


def with_sign(codes: np.ndarray, values: np.ndarray, bit: int) -> np.ndarray:
    return np.where(np.signbit(values), codes | bit, codes)


def sen169_encode(values: np.ndarray, saturate: bool = False) -> np.ndarray:
    """Store a computed value: half away from zero."""
    values = doubles(values)
    magnitude = np.abs(values)
    finite = np.where(np.isfinite(magnitude), magnitude, 0)
    codes = 1 + nearest(finite, sen169_values()[1:NAN169], "away")
    codes = np.where(finite < 2.0**-31 * (1 + 1 / 1024), 0, codes)
    overflow = magnitude >= 2.0**32 * (1 + 510.5 / 512)
    codes = np.where(overflow, NAN169 - 1 if saturate else NAN169, codes)
    codes = np.where(np.isfinite(values), codes, NAN169)
    return with_sign(codes, values, 0x8000).astype(np.uint16)


def half_to_sen169(bits: np.ndarray) -> np.ndarray:
    """A float16 host copy in."""
    values = doubles(np.asarray(bits, dtype=np.uint16).view(np.float16))
    magnitude = np.abs(values)
    finite = np.where(np.isfinite(magnitude), magnitude, 0)
    table = sen169_values()[:0x5E00]  # up to 65472
    codes = np.where(finite == 0, 0, nearest(finite, table, "away"))
    codes = np.where(np.isinf(values), INF169, codes)
    codes = np.where(np.isnan(values), NAN169, codes)
    return with_sign(codes, values, 0x8000).astype(np.uint16)


def sen169_to_half(codes: np.ndarray) -> np.ndarray:
    """A float16 host copy out, as bits."""
    codes = np.asarray(codes, dtype=np.uint16)
    magnitude = np.abs(sen169_decode(codes))
    with np.errstate(over="ignore"):
        half = np.where(np.isnan(magnitude), 0, magnitude).astype(np.float16).view(np.uint16)
    half = np.where((codes & 0x7FFF) // 512 == 63, 0x7C00, half)
    half = np.where((codes & 0x7FFF) == NAN169, 0x7E00, half)
    return (half | (codes & 0x8000)).astype(np.uint16)


def bf16_values(bits: np.ndarray) -> np.ndarray:
    return doubles((np.asarray(bits, dtype=np.uint32) << 16).view(np.float32))


def bf16_to_sen169(bits: np.ndarray) -> np.ndarray:
    """A bfloat16 host copy in."""
    values = bf16_values(bits)
    codes = sen169_encode(values, saturate=True) & 0x7FFF
    codes = np.where(np.isinf(values), INF169, codes)
    return (codes | (np.asarray(bits) & 0x8000)).astype(np.uint16)


def sen169_to_bf16(codes: np.ndarray) -> np.ndarray:
    """A bfloat16 host copy out, as bits."""
    codes = np.asarray(codes, dtype=np.uint16)
    table = bf16_values(np.arange(0x7F80))
    magnitude = np.abs(sen169_decode(codes))
    bits = nearest(np.where(np.isnan(magnitude), 0, magnitude), table, "even")
    bits = np.where((codes & 0x7FFF) == INF169, 0x7F80, bits)
    bits = np.where((codes & 0x7FFF) == NAN169, 0x7FC0, bits)
    return (bits | (codes & 0x8000)).astype(np.uint16)


def e4m3fn_values() -> np.ndarray:
    codes = np.arange(0x7F)
    exponent, fraction = codes // 8, codes % 8
    return np.where(exponent == 0, fraction * 2.0**-9, np.ldexp(1 + fraction / 8, exponent - 7))


def e5m2fnuz_values() -> np.ndarray:
    codes = np.arange(0x80)
    exponent, fraction = codes // 4, codes % 4
    return np.where(exponent == 0, fraction * 2.0**-17, np.ldexp(1 + fraction / 4, exponent - 16))


def sen143_encode(values: np.ndarray) -> np.ndarray:
    values = doubles(values)
    codes = nearest(np.nan_to_num(np.abs(values), nan=0.0), e4m3fn_values(), "even")
    codes = np.where(np.isnan(values), 0x7F, codes)
    return with_sign(codes, values, 0x80).astype(np.uint8)


def sen143_decode(codes: np.ndarray) -> np.ndarray:
    codes = np.asarray(codes, dtype=np.uint8)
    values = np.append(e4m3fn_values(), np.nan)[codes & 0x7F]
    return np.copysign(values, np.where(codes & 0x80, -1.0, 1.0))


def sen152_encode(values: np.ndarray, saturate: bool = False) -> np.ndarray:
    values = doubles(values)
    magnitude = np.abs(values)
    codes = nearest(np.nan_to_num(magnitude, nan=0.0), e5m2fnuz_values(), "even")
    signed = np.where(codes == 0, 0, with_sign(codes, values, 0x80))
    overflow = magnitude >= 61440  # half way from 57344 to 65536
    if not saturate:
        signed = np.where(overflow, 0x80, signed)
    return np.where(np.isfinite(values), signed, 0x80).astype(np.uint8)


def sen152_decode(codes: np.ndarray) -> np.ndarray:
    codes = np.asarray(codes, dtype=np.uint8)
    values = e5m2fnuz_values()[codes & 0x7F] * np.where(codes & 0x80, -1.0, 1.0)
    return np.where(codes == 0x80, np.nan, values)


# ---- layouts -------------------------------------------------------------------------------------


def row_major_positions(size: list[int], eps: int) -> np.ndarray:
    """Device offset of each element of a tensor in row-major sticks."""
    if not size:
        return np.zeros((), dtype=np.int64)
    index = np.indices(size, dtype=np.int64)
    sticks = -(-size[-1] // eps)
    position = np.zeros(size, dtype=np.int64)
    for dim, extent in enumerate(size[:-1]):
        position = position * extent + index[dim]
    return (position * sticks + index[-1] // eps) * eps + index[-1] % eps


def generic_positions(size: list[int], dim_order: list[int], eps: int) -> np.ndarray:
    """Device offset of each element of a tensor in generic sticks."""
    index = dict(enumerate(np.indices(size, dtype=np.int64))) if size else {}
    zero = np.zeros(size, dtype=np.int64)
    order = dim_order or [-1]
    stick = order[-1]
    stick_index = index.get(stick, zero) if stick >= 0 else zero
    stick_size = size[stick] if stick >= 0 else 1
    coordinates = [(index[dim], size[dim]) for dim in order[1:-1]]
    coordinates.append((stick_index // eps, -(-stick_size // eps)))
    if len(order) > 1:
        coordinates.append((index[order[0]], size[order[0]]))
    coordinates.append((stick_index % eps, eps))
    position = zero
    for coordinate, extent in coordinates:
        position = position * extent + coordinate
    return position
