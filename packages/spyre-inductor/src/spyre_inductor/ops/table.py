# SPDX-License-Identifier: Apache-2.0
"""Inductor's scalar operations and the program instructions they become, by operand type.

Which instructions there are is the device's own table, `spyre_runtime.op_table()`: what Inductor
and the device call by one name needs no row here. To support another Inductor operation: a row if
it maps to one instruction of another name, a method of `ops/handler.py` if it takes several. What
is in neither runs eagerly.
"""

from __future__ import annotations

import torch
from spyre_runtime import op_table

# instruction -> (type of its result, types of its operands), from "F", "I" and "B"
INSTRUCTIONS = {name: (result, "".join(operands)) for name, result, operands in op_table()}


def _named(result: str, operands: str) -> list[str]:
    """Instructions of this signature that compute lane by lane under a name of Inductor's."""
    apart = ("reduce_", "round_", "dot")
    found = [n for n, signature in INSTRUCTIONS.items() if signature == (result, operands)]
    return [name for name in found if not name.startswith(apart)]


# result has the operand's type: (float instruction, integer instruction or None for identity)
SAME_UNARY: dict[str, tuple[str, str | None]] = {
    name: (name, f"{name}_i" if f"{name}_i" in INSTRUCTIONS else None)
    for name in ("neg", "abs", "sign", "floor", "ceil", "trunc", "round")
}

# name in Inductor -> instruction; operands and result are float lanes
FLOAT_UNARY = {name: name for name in _named("F", "F") if name not in SAME_UNARY} | {
    "modified_bessel_i0": "i0",
    "modified_bessel_i1": "i1",
}

FLOAT_BINARY = {
    "truediv": "div",
    "int_truediv": "div",
    "div_rn": "div",
    "atan2": "atan2",
    "hypot": "hypot",
    "copysign": "copysign",
    "nextafter": "nextafter",
}

# what operations on numbers are on truth values
_OF_TRUTH = {"add": "or_b", "mul": "and_b", "maximum": "or_b", "minimum": "and_b"}
_ALIASES = {"mod": "fmod", "mul_rn": "mul"}
_BITWISE = {
    "and_i": ("bitwise_and", "and_"),
    "or_i": ("bitwise_or", "or_"),
    "xor_i": ("bitwise_xor", "xor"),
    "shl_i": ("bitwise_left_shift", "lshift"),
    "shr_i": ("bitwise_right_shift", "rshift"),
}

# (float, integer, bool) instruction; None: not defined there
SAME_BINARY: dict[str, tuple[str | None, str | None, str | None]] = {
    name: (name, f"{name}_i", _OF_TRUTH.get(name))
    for name in _named("F", "FF")
    if f"{name}_i" in INSTRUCTIONS
}
SAME_BINARY |= {alias: SAME_BINARY[name] for alias, name in _ALIASES.items()}
SAME_BINARY |= {
    name: (None, op, op[:-1] + "b" if op[:-1] + "b" in INSTRUCTIONS else None)
    for op, names in _BITWISE.items()
    for name in names
}

COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")

LOGICAL = {"logical_and": "and_b", "logical_or": "or_b", "logical_xor": "xor_b"}

# Inductor's reduction type -> (float, integer, bool) instruction
REDUCTIONS: dict[str, tuple[str | None, str | None, str | None]] = {
    "sum": ("reduce_sum", "reduce_sum_i", None),
    "prod": ("reduce_prod", "reduce_prod_i", None),
    "max": ("reduce_max", "reduce_max_i", "reduce_any"),
    "min": ("reduce_min", "reduce_min_i", "reduce_all"),
    "any": (None, None, "reduce_any"),
    "xor_sum": (None, "reduce_xor_i", None),
    "argmax": ("reduce_argmax", "reduce_argmax_i", None),
    "argmin": ("reduce_argmin", "reduce_argmin_i", None),
}

# dtypes stored as SEN169: rounding of an explicit cast, and what an infinite constant becomes
SEN169_DTYPES = (torch.float16, torch.bfloat16)
SEN169_INFINITY = float(2**32)
SEN169_OVERFLOW = SEN169_INFINITY * (1 + 510.5 / 512)  # rounds to no number any more

ROUND = {
    torch.float16: "round_sen169",
    torch.bfloat16: "round_sen169",
    torch.float8_e4m3fn: "round_fp8_e4m3fn",
    torch.float8_e5m2fnuz: "round_fp8_e5m2fnuz",
}

FLOAT_TO_INT = {
    torch.int8: "f2i_i8",
    torch.int16: "f2i_i16",
    torch.int32: "f2i_i32",
    torch.int64: "f2i_i64",
    torch.uint8: "f2i_u8",
}

WRAP = {
    torch.int8: "wrap_i8",
    torch.int16: "wrap_i16",
    torch.int32: "wrap_i32",
    torch.uint8: "wrap_u8",
}

# dtypes a buffer of a program may have, by their name in the text form
STORAGE_DTYPES = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.bool: "bool",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2fnuz: "float8_e5m2fnuz",
}


def lane_type(dtype: torch.dtype) -> str:
    """Register type of values of a dtype: F, I or B."""
    if dtype is torch.bool:
        return "B"
    return "F" if dtype.is_floating_point else "I"
