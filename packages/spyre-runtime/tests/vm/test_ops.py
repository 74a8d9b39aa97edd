# SPDX-License-Identifier: Apache-2.0
"""Every op of the op table against PyTorch on the CPU, special values included."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from programs import pointwise, run, stage
from spyre_runtime import op_table

F = torch.nn.functional
Reference = Callable[..., torch.Tensor]

FLOAT_UNARY: dict[str, Reference] = {
    name: getattr(torch, name)
    for name in [
        "neg",
        "abs",
        "sign",
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
        "relu",
        "floor",
        "ceil",
        "trunc",
        "round",
        "frac",
        "i0",
    ]
} | {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "i0e": torch.special.i0e,
    "i1": torch.special.i1,
    "i1e": torch.special.i1e,
    "round_bfloat16": lambda x: x.bfloat16().float(),
    "round_float16": lambda x: x.half().float(),
}
FLOAT_BINARY: dict[str, Reference] = {
    name: getattr(torch, name)
    for name in [
        "add",
        "sub",
        "mul",
        "div",
        "fmod",
        "pow",
        "atan2",
        "hypot",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "copysign",
        "nextafter",
    ]
} | {
    "remainder": torch.remainder,
    "floordiv": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "truncdiv": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
}
PREDICATES: dict[str, Reference] = {
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "signbit": torch.signbit,
}
COMPARISONS: dict[str, Reference] = {
    name: getattr(torch, name) for name in ["eq", "ne", "lt", "le", "gt", "ge"]
}
INT_UNARY: dict[str, Reference] = {
    "neg_i": torch.neg,
    "abs_i": torch.abs,
    "sign_i": torch.sign,
    "not_i": torch.bitwise_not,
    "wrap_i8": lambda x: x.to(torch.int8).long(),
    "wrap_i16": lambda x: x.to(torch.int16).long(),
    "wrap_i32": lambda x: x.to(torch.int32).long(),
    "wrap_u8": lambda x: x.to(torch.uint8).long(),
}
INT_BINARY: dict[str, Reference] = {
    "add_i": torch.add,
    "sub_i": torch.sub,
    "mul_i": torch.mul,
    "floordiv_i": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "truncdiv_i": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder_i": torch.remainder,
    "fmod_i": torch.fmod,
    "maximum_i": torch.maximum,
    "minimum_i": torch.minimum,
    "and_i": torch.bitwise_and,
    "or_i": torch.bitwise_or,
    "xor_i": torch.bitwise_xor,
    "shl_i": torch.bitwise_left_shift,
    "shr_i": torch.bitwise_right_shift,
    "pow_i": torch.pow,
}
# Tested elsewhere: memory, selection, random numbers, reductions, conversions, products.
ELSEWHERE = {
    "load",
    "store",
    "store_add",
    "const_f",
    "const_i",
    "iota",
    "index_check",
    "dot",
    "where",
    "where_i",
    "where_b",
    "not_b",
    "and_b",
    "or_b",
    "xor_b",
    "rand",
    "randn",
    "randint",
    "fma",
    "f2b",
    "i2b",
    "b2f",
    "b2i",
    "i2f",
    "bits_f2i",
    "bits_i2f",
    "isinf_sen169",
    "inf_from_sen169",
    "inf_to_sen169",
    "round_sen169",
    "round_fp8_e4m3fn",
    "round_fp8_e5m2fnuz",
    "f2i_i8",
    "f2i_i16",
    "f2i_i32",
    "f2i_i64",
    "f2i_u8",
}


def float_values() -> torch.Tensor:
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        3.0,
        -7.25,
        20.0,
        88.7,
        -88.0,
        -104.0,
    ]
    special += [math.inf, -math.inf, math.nan, 1e-30, 1e30, 1e-38, 65504.0, 0.99999994]
    generator = torch.Generator().manual_seed(0)
    return torch.cat([torch.tensor(special), torch.randn(77, generator=generator) * 4])


def int_values() -> torch.Tensor:
    values = [
        0,
        1,
        -1,
        2,
        -2,
        3,
        7,
        -7,
        63,
        64,
        65,
        -64,
        127,
        128,
        255,
        256,
        32767,
        32768,
        2**31 - 1,
    ]
    return torch.tensor([*values, 2**31, -(2**31), 2**62, -(2**63)])


def pairs(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    left, right = torch.meshgrid(values, values, indexing="ij")
    return left.contiguous(), right.contiguous()


def device(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.to("spyre") for t in tensors]


def test_every_op_has_a_test() -> None:
    tested = {
        *FLOAT_UNARY,
        *FLOAT_BINARY,
        *PREDICATES,
        *COMPARISONS,
        *INT_UNARY,
        *INT_BINARY,
        *ELSEWHERE,
    }
    tested |= {name + "_i" for name in COMPARISONS}
    names = {name for name, _, _ in op_table()}
    assert {n for n in names - tested if not n.startswith("reduce_")} == set()


@pytest.mark.parametrize("name", FLOAT_UNARY)
def test_float_unary(name: str) -> None:
    x = float_values()
    got = pointwise(name, device(x), torch.empty_like(x, device="spyre"))
    want = FLOAT_UNARY[name](x)
    if name == "gelu":  # PyTorch gives NaN or infinity where x * x or x * 0 does
        keep = x.abs() < 1e30
        got, want = got[keep], want[keep]
    torch.testing.assert_close(got, want, rtol=2e-5, atol=1e-6, equal_nan=True)


def test_infinity_of_the_half_format() -> None:
    # 2^32 and what rounds to it; the next values on both sides; infinities of float32; the rest.
    top = 2.0**32
    inside = [top, top * (1 - 2**-11), top * (1 + 2**-10 - 2**-23)]
    outside = [top * (1 - 2**-11 - 2**-24), top * (1 + 2**-10), 0.0, 1.0, 2.0**33, 1e30]
    outside += [top * (1 + 510.5 / 512), top * (1 + 510.49 / 512)]
    x = torch.tensor([*inside, *outside, math.inf, math.nan] * 4)
    x = torch.cat([x, -x])
    rounded = pointwise("round_sen169", device(x), torch.empty_like(x, device="spyre"))
    widened = pointwise("inf_from_sen169", device(x), torch.empty_like(x, device="spyre"))
    beyond = x.abs() >= top * (1 + 510.5 / 512)
    infinite = rounded.abs() == top
    assert infinite[beyond].all()
    want = torch.where(infinite, torch.copysign(torch.tensor(math.inf), x), x)
    assert (widened[: len(inside)] == math.inf).all()
    torch.testing.assert_close(widened, want, rtol=0, atol=0, equal_nan=True)
    narrowed = pointwise("inf_to_sen169", device(x), torch.empty_like(x, device="spyre"))
    want = torch.where(beyond, torch.copysign(torch.tensor(top), x), x)
    torch.testing.assert_close(narrowed, want, rtol=0, atol=0, equal_nan=True)


def test_stores_of_halves_take_overflow_as_infinity() -> None:
    edge = 2.0**32 * (1 + 510.5 / 512)
    inside = [1.0, -65504.0, 2.0**32, -edge * (1 - 2**-23), 1e-12, -0.0]
    x = torch.tensor([*inside, edge, -1e30, math.inf, -math.inf, math.nan] * 13)
    inputs = device(x)
    for dtype in (torch.float16, torch.bfloat16):
        plain = pointwise("abs", inputs, torch.empty_like(inputs[0], dtype=dtype)).float()
        out = pointwise("inf_to_sen169", inputs, torch.empty_like(inputs[0], dtype=dtype)).float()
        beyond = x.abs() >= edge
        assert plain[beyond].isnan().all()  # what a store alone gives
        assert torch.equal(out[beyond], torch.copysign(torch.tensor(math.inf), x[beyond]))
        assert torch.equal(out[x.isnan()].isnan(), torch.ones(13, dtype=torch.bool))
        finite = ~beyond & ~x.isnan()
        assert torch.equal(out[finite], torch.copysign(plain[finite], x[finite]))
    # The value may be wanted elsewhere, too.
    half, wide = torch.empty_like(inputs[0], dtype=torch.float16), torch.empty_like(inputs[0])
    body = "phase\n%0 = load a0\n%1 = inf_to_sen169 %0\nstore a1 %1\nstore a2 %1"
    tensors = [inputs[0], half, wide]
    run(stage(tensors, x.shape, [(i, [1], 0) for i in range(3)], body), tensors)
    assert torch.equal(half.cpu().isnan(), x.isnan())
    assert (wide.cpu()[beyond].abs() == 2.0**32).all()


def test_erf_of_small_numbers_keeps_its_digits() -> None:
    x = torch.cat([torch.linspace(-2, 2, 4001), 10.0 ** torch.arange(-30, 0)])
    got = pointwise("erf", [x.to("spyre")], torch.empty_like(x, device="spyre"))
    torch.testing.assert_close(got.double(), torch.erf(x.double()), rtol=1e-6, atol=0)


def test_exp_keeps_its_accuracy_over_the_range() -> None:
    x = torch.linspace(-86, 88, 20001)
    got = pointwise("exp", device(x), torch.empty_like(x, device="spyre"))
    torch.testing.assert_close(got.double(), x.double().exp(), rtol=2e-6, atol=0)


@pytest.mark.parametrize("name", FLOAT_BINARY)
def test_float_binary(name: str) -> None:
    a, b = pairs(float_values())
    if name == "remainder":  # the quotient of such pairs has no exact float
        keep = (a.abs() < 1e20) & (b.abs() > 1e-20)
        a, b = a[keep], b[keep]
    got = pointwise(name, device(a, b), torch.empty_like(a, device="spyre"))
    torch.testing.assert_close(got, FLOAT_BINARY[name](a, b), rtol=2e-6, atol=1e-30, equal_nan=True)


@pytest.mark.parametrize("name", PREDICATES)
def test_predicates(name: str) -> None:
    x = float_values()
    got = pointwise(name, device(x), torch.empty(x.shape, dtype=torch.bool, device="spyre"))
    assert torch.equal(got, PREDICATES[name](x))


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("integers", [False, True])
def test_comparisons(name: str, integers: bool) -> None:
    a, b = pairs(int_values() if integers else float_values())
    out = torch.empty(a.shape, dtype=torch.bool, device="spyre")
    got = pointwise(name + ("_i" if integers else ""), device(a, b), out)
    assert torch.equal(got, COMPARISONS[name](a, b))


@pytest.mark.parametrize("name", INT_UNARY)
def test_int_unary(name: str) -> None:
    x = int_values()
    got = pointwise(name, device(x), torch.empty_like(x, device="spyre"))
    assert torch.equal(got, INT_UNARY[name](x))


@pytest.mark.parametrize("name", INT_BINARY)
def test_int_binary(name: str) -> None:
    a, b = pairs(int_values())
    if "div" in name or name in ("remainder_i", "fmod_i"):  # PyTorch refuses or traps
        keep = (b != 0) & (b != -1)
        a, b = a[keep], b[keep]
    if name == "pow_i":
        a, b = a[b >= 0], b[b >= 0]
    got = pointwise(name, device(a, b), torch.empty_like(a, device="spyre"))
    assert torch.equal(got, INT_BINARY[name](a, b))


@pytest.mark.parametrize("name", ["floordiv_i", "truncdiv_i", "remainder_i", "fmod_i"])
def test_division_by_zero_gives_zero_or_the_operand_but_never_traps(name: str) -> None:
    a = torch.tensor([5, -5, 0, -(2**63)])
    got = pointwise(
        name, device(a, torch.tensor([0, 0, 0, -1])), torch.empty_like(a, device="spyre")
    )
    assert got[:3].tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8])
def test_float_to_integer_saturates(dtype: torch.dtype) -> None:
    x = torch.tensor([0.9, -0.9, 1e30, -1e30, math.nan, math.inf, -math.inf, 127.5, -3.0, 255.0])
    name = "f2i_" + str(dtype).removeprefix("torch.").replace("uint", "u").replace("int", "i")
    got = pointwise(name, device(x), torch.empty(x.shape, dtype=torch.int64, device="spyre"))
    info = torch.iinfo(dtype)
    want = []
    for value in x.tolist():
        if math.isnan(value):
            want.append(0)
        else:
            want.append(
                int(
                    max(
                        info.min,
                        min(info.max, math.trunc(value) if math.isfinite(value) else value),
                    )
                )
            )
    assert got.tolist() == want


def test_random_numbers_depend_on_seed_and_offset_alone() -> None:
    n = 4096
    seed, offset = torch.full((n,), 7), torch.arange(n)
    outs = [torch.empty(n, device="spyre") for _ in range(2)]
    first, second = (pointwise("rand", device(seed, offset), out) for out in outs)
    assert torch.equal(first, second)
    assert first.min() >= 0
    assert first.max() < 1
    assert abs(first.mean() - 0.5) < 0.02
    normal = pointwise("randn", device(seed, offset), outs[0])
    assert abs(normal.mean()) < 0.06
    assert abs(normal.std() - 1) < 0.05
    low, high = torch.full((n,), -3), torch.full((n,), 4)
    whole = pointwise(
        "randint",
        device(seed, offset, low, high),
        torch.empty(n, dtype=torch.int64, device="spyre"),
    )
    assert set(whole.tolist()) == set(range(-3, 4))
