# SPDX-License-Identifier: Apache-2.0
"""Inductor's scalar operations and the program instructions they become, by operand type.

To support another Inductor operation: a row here if it maps to one instruction, a method of
`ops/handler.py` if it takes several. What is in neither runs eagerly.
"""

from __future__ import annotations

import torch

# name in Inductor -> instruction; operands and result are float lanes
FLOAT_UNARY = {
    name: name
    for name in [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "erfc",
        "erfinv",
        "lgamma",
        "digamma",
        "sigmoid",
        "i0",
        "i0e",
        "i1",
        "i1e",
    ]
} | {"modified_bessel_i0": "i0", "modified_bessel_i1": "i1"}

# result has the operand's type: (float instruction, integer instruction or None for identity)
SAME_UNARY: dict[str, tuple[str, str | None]] = {
    "neg": ("neg", "neg_i"),
    "abs": ("abs", "abs_i"),
    "sign": ("sign", "sign_i"),
    "floor": ("floor", None),
    "ceil": ("ceil", None),
    "trunc": ("trunc", None),
    "round": ("round", None),
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

# (float, integer, bool) instruction; None: not defined there
SAME_BINARY: dict[str, tuple[str | None, str | None, str | None]] = {
    "add": ("add", "add_i", "or_b"),
    "sub": ("sub", "sub_i", None),
    "mul": ("mul", "mul_i", "and_b"),
    "mul_rn": ("mul", "mul_i", "and_b"),
    "maximum": ("maximum", "maximum_i", "or_b"),
    "minimum": ("minimum", "minimum_i", "and_b"),
    "fmod": ("fmod", "fmod_i", None),
    "mod": ("fmod", "fmod_i", None),
    "remainder": ("remainder", "remainder_i", None),
    "floordiv": ("floordiv", "floordiv_i", None),
    "truncdiv": ("truncdiv", "truncdiv_i", None),
    "pow": ("pow", "pow_i", None),
    "bitwise_and": (None, "and_i", "and_b"),
    "bitwise_or": (None, "or_i", "or_b"),
    "bitwise_xor": (None, "xor_i", "xor_b"),
    "and_": (None, "and_i", "and_b"),
    "or_": (None, "or_i", "or_b"),
    "xor": (None, "xor_i", "xor_b"),
    "bitwise_left_shift": (None, "shl_i", None),
    "bitwise_right_shift": (None, "shr_i", None),
    "lshift": (None, "shl_i", None),
    "rshift": (None, "shr_i", None),
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
