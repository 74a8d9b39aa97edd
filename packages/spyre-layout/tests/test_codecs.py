# SPDX-License-Identifier: Apache-2.0
"""Codecs against the golden files, and against the reference on every code and every input."""

import csv
from pathlib import Path

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from spyre_layout import DataFormats, decode, decode_to, encode, encode_from

GOLDEN = Path(__file__).parent / "golden"
ALL_16 = np.arange(65536, dtype=np.uint16)
ALL_8 = np.arange(256, dtype=np.uint8)


def golden(name, *columns):
    with (GOLDEN / name).open() as file:
        table = list(csv.DictReader(file))
    return [np.array([int(row[column], 16) for row in table]) for column in columns]


def same(actual, expected):
    """Equal bits, whatever the NaNs."""
    np.testing.assert_array_equal(
        np.asarray(actual).view(f"u{np.asarray(actual).itemsize}"), expected
    )


def same_values(actual, expected):
    """Equal values and signs of zero, NaN equal to NaN."""
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(
        np.signbit(actual)[~np.isnan(expected)], np.signbit(expected)[~np.isnan(expected)]
    )


# ---- golden --------------------------------------------------------------------------------------


def test_golden_float32_to_sen169():
    bits, codes, saturated = golden("fp32_to_sen169.csv", "fp32_bits", "code", "code_saturate")
    values = bits.astype(np.uint32).view(np.float32)
    same(encode(values, DataFormats.SEN169_FP16), codes)
    same(encode(values, DataFormats.SEN169_FP16, saturate=True), saturated)
    same(encode_from(values, DataFormats.SEN169_FP16), codes)


def test_golden_float16_to_sen169_and_back():
    bits, codes = golden("fp16_to_sen169.csv", "fp16_bits", "code")
    same(encode_from(bits.astype(np.uint16).view(np.float16), DataFormats.SEN169_FP16), codes)
    codes, bits = golden("sen169_to_fp16.csv", "code", "fp16")
    same(decode_to(codes.astype(np.uint16), DataFormats.SEN169_FP16, np.float16), bits)


def test_golden_sen169_values():
    with (GOLDEN / "sen169_decode.csv").open() as file:
        table = [(int(row["code"], 16), float(row["value"])) for row in csv.DictReader(file)]
    codes = np.array([code for code, _ in table], dtype=np.uint16)
    same_values(decode(codes, "SEN169_FP16"), np.array([value for _, value in table]))


def test_golden_bfloat16():
    with (GOLDEN / "bf16_sen169.csv").open() as file:
        table = list(csv.DictReader(file))
    for row in table:
        given = np.array([int(row["input_bits"], 16)], dtype=np.uint16)
        expected = [int(row["expected_bits"], 16)]
        if row["direction"] == "to":
            same(encode_from(given, "SEN169_FP16", dtype="bfloat16"), expected)
        else:
            same(decode_to(given, "SEN169_FP16", "bfloat16"), expected)


@pytest.mark.parametrize("fmt", [DataFormats.SEN143_FP8, DataFormats.SEN152_FP8])
def test_golden_eight_bit_floats(fmt):
    bits, codes = golden(f"{fmt.name.lower()}_encode.csv", "fp32_bits", "code")
    same(encode(bits.astype(np.uint32).view(np.float32), fmt), codes)


# ---- every code ----------------------------------------------------------------------------------


def test_every_sen169_code_has_its_value():
    same_values(decode(ALL_16, "SEN169_FP16"), reference.sen169_decode(ALL_16))
    same_values(decode_to(ALL_16, "SEN169_FP16", "float32"), reference.sen169_decode(ALL_16))


def test_every_sen169_value_has_its_code():
    same(encode(decode(ALL_16, "SEN169_FP16"), "SEN169_FP16"), ALL_16)


def test_every_float16_copied_in_and_out():
    codes = encode_from(ALL_16.view(np.float16), "SEN169_FP16")
    same(codes, reference.half_to_sen169(ALL_16))
    same(decode_to(ALL_16, "SEN169_FP16", "float16"), reference.sen169_to_half(ALL_16))


def test_every_bfloat16_copied_in_and_out():
    same(encode_from(ALL_16, "SEN169_FP16", dtype="bfloat16"), reference.bf16_to_sen169(ALL_16))
    same(decode_to(ALL_16, "SEN169_FP16", "bfloat16"), reference.sen169_to_bf16(ALL_16))


def test_every_finite_bfloat16_in_range_survives_a_round_trip():
    values = np.abs(reference.bf16_values(ALL_16))
    exact = (values < 2.0**33) & ((values > 2.0**-31) | (values == 0)) & (values != 2.0**32)
    codes = encode_from(ALL_16[exact], "SEN169_FP16", dtype="bfloat16")
    same(decode_to(codes, "SEN169_FP16", "bfloat16"), ALL_16[exact])


def test_every_eight_bit_float():
    same_values(decode(ALL_8, "SEN143_FP8"), reference.sen143_decode(ALL_8))
    same_values(decode(ALL_8, "SEN152_FP8"), reference.sen152_decode(ALL_8))
    same(encode(decode(ALL_8, "SEN143_FP8"), "SEN143_FP8"), ALL_8)
    same(encode(decode(ALL_8, "SEN152_FP8"), "SEN152_FP8"), ALL_8)


@pytest.mark.parametrize(
    ("fmt", "dtype"), [("SEN143_FP8", "float8_e4m3fn"), ("SEN152_FP8", "float8_e5m2fnuz")]
)
def test_copies_of_eight_bit_floats_keep_their_bytes(fmt, dtype):
    same(encode_from(ALL_8, fmt, dtype=dtype), ALL_8)
    same(decode_to(ALL_8, fmt, dtype), ALL_8)


def test_every_ieee_half_and_bfloat16_code():
    same_values(decode(ALL_16, "IEEE_FP16"), reference.doubles(ALL_16.view(np.float16)))
    same_values(decode(ALL_16, "BFLOAT16"), reference.bf16_values(ALL_16))
    same(encode_from(ALL_16.view(np.float16), "IEEE_FP16"), ALL_16)
    same(encode_from(ALL_16, "BFLOAT16", dtype="bfloat16"), ALL_16)


def test_every_bool_byte():
    truth = np.arange(256) != 0
    same(encode_from(ALL_8.view(np.bool_), "SEN169_FP16"), np.where(truth, 0x3E00, 0))
    same(encode_from(ALL_8.view(np.bool_), "BOOL"), truth)
    np.testing.assert_array_equal(decode(ALL_8, "BOOL"), truth)
    nonzero = (ALL_16 & 0x7FFF) != 0
    np.testing.assert_array_equal(decode_to(ALL_16, "SEN169_FP16", "bool"), nonzero)


# ---- float32 by the million ----------------------------------------------------------------------


def float32_inputs(seed, count=2_000_000):
    """Random bit patterns, random values in range of the formats, and all of their boundaries."""
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, 2**32, count, dtype=np.uint32)
    near = rng.standard_normal(count // 2).astype(np.float32)
    scaled = np.ldexp(near, rng.integers(-33, 34, count // 2)).astype(np.float32)
    middles = []
    for table in (
        reference.sen169_values()[:-1],
        reference.e4m3fn_values(),
        reference.e5m2fnuz_values(),
        ALL_16[:0x7C00].view(np.float16).astype(np.float64),
    ):
        for point in (table[:-1], (table[1:] + table[:-1]) / 2, table[1:]):
            exact = point.astype(np.float32)
            middles += [
                exact,
                np.nextafter(exact, np.float32(np.inf)),
                np.nextafter(exact, np.float32(0)),
            ]
    edges = np.array(
        [0, 2**-31, 2**-32, 448, 464, 57344, 61440, 65504, 65520, 2**32, 2**33], np.float32
    )
    special = np.array([0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 1, 0x007FFFFF], np.uint32)
    limit = np.array([0x4FFF9FFF, 0x4FFFA000, 0x4FFFA001, 0x30001FFF, 0x30002000], np.uint32)
    values = np.concatenate(
        [
            patterns.view(np.float32),
            scaled,
            *middles,
            edges,
            special.view(np.float32),
            limit.view(np.float32),
        ]
    )
    return np.concatenate([values, -values])


@pytest.mark.parametrize("seed", [1, 2])
def test_float32_to_sen169(seed):
    values = float32_inputs(seed)
    same(encode(values, "SEN169_FP16"), reference.sen169_encode(values))
    same(
        encode(values, "SEN169_FP16", saturate=True), reference.sen169_encode(values, saturate=True)
    )


def test_float32_to_eight_bit_floats():
    values = float32_inputs(3)
    same(encode(values, "SEN143_FP8"), reference.sen143_encode(values))
    same(encode(values, "SEN152_FP8"), reference.sen152_encode(values))
    same(
        encode(values, "SEN152_FP8", saturate=True), reference.sen152_encode(values, saturate=True)
    )


def test_float32_to_ieee_half():
    values = float32_inputs(4)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    actual = encode(values, "IEEE_FP16").view(np.float16)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))


def test_float32_to_bfloat16():
    values = float32_inputs(5, 200_000)
    table = reference.bf16_values(np.arange(0x7F80))
    finite = np.where(np.isfinite(values), values, 0).astype(np.float64)
    bits = reference.nearest(np.abs(finite), table, "even")
    bits = np.where(np.abs(finite) >= table[-1] + (table[-1] - table[-2]) / 2, 0x7F80, bits)
    expected = reference.with_sign(bits, values, 0x8000)
    known = np.isfinite(values)
    same(encode(values, "BFLOAT16")[known], expected[known])
    assert np.isnan(decode(encode(values[np.isnan(values)], "BFLOAT16"), "BFLOAT16")).all()


def test_float32_is_kept_exactly():
    values = float32_inputs(6, 100_000)
    same(encode(values, "IEEE_FP32"), values.view(np.uint32))
    same(decode(values.view(np.uint32), "IEEE_FP32"), values.view(np.uint32))


# ---- integers ------------------------------------------------------------------------------------

INTEGER_FORMATS = [
    DataFormats.SENINT2,
    DataFormats.SENINT4,
    DataFormats.SENINT8,
    DataFormats.SENINT16,
    DataFormats.IEEE_INT32,
    DataFormats.IEEE_INT64,
    DataFormats.SENUINT2,
    DataFormats.SENUINT32,
]


@pytest.mark.parametrize("fmt", INTEGER_FORMATS, ids=lambda fmt: fmt.name)
def test_integers_wrap_or_clamp(fmt):
    rng = np.random.default_rng(fmt.value)
    low, high = fmt.range
    values = np.concatenate(
        [
            np.array([0, 1, -1, 2**62, -(2**63), 2**63 - 1, low, high]),
            rng.integers(-(2**63), 2**63 - 1, 2000),
            rng.integers(-300, 300, 1000),
        ]
    )
    mask = (1 << fmt.bits) - 1
    wrapped = [int(value) & mask for value in values]
    np.testing.assert_array_equal(encode(values, fmt), np.array(wrapped, dtype=np.uint64))
    clamped = [min(max(int(value), low), high) for value in values]
    codes = encode(values, fmt, saturate=True)
    np.testing.assert_array_equal(decode(codes, fmt), clamped)


@pytest.mark.parametrize("fmt", INTEGER_FORMATS, ids=lambda fmt: fmt.name)
def test_floats_truncate_and_clamp(fmt):
    low, high = fmt.range
    values = np.array(
        [np.nan, np.inf, -np.inf, 0.9, -0.9, 1.5, -1.5, 2.7, 3e9, -3e9, 1e30, -1e30, 127.99],
        np.float32,
    )
    expected = [
        0 if np.isnan(v) else high if v >= high else low if v <= low else int(v)
        for v in values.tolist()
    ]
    assert decode(encode(values, fmt), fmt).tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "fmt"),
    [("int8", "SENINT8"), ("int16", "SENINT16"), ("int32", "IEEE_INT32"), ("int64", "IEEE_INT64"),
     ("uint8", "SENUINT32"), ("uint32", "SENUINT32")],
)  # fmt: skip
def test_integer_copies_are_exact(dtype, fmt):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    values = rng.integers(info.min, info.max, 5000, dtype=dtype, endpoint=True)
    values[:2] = info.min, info.max
    codes = encode_from(values, fmt)
    assert codes.dtype.itemsize * 8 == DataFormats[fmt].bits
    np.testing.assert_array_equal(decode_to(codes, fmt, dtype), values)


@pytest.mark.parametrize("fmt", ["SENINT2", "SENINT4", "SENUINT2"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 8, 1023, 1024, 1025, 300_001])
def test_sub_byte_integers_are_packed_lowest_bits_first(fmt, count):
    bits = DataFormats[fmt].bits
    low, high = DataFormats[fmt].range
    values = np.random.default_rng(count).integers(low, high, count, dtype=np.int8, endpoint=True)
    packed = encode_from(values, fmt)
    assert packed.dtype == np.uint8
    assert packed.shape == ((count * bits + 7) // 8,)
    flat = np.unpackbits(packed, bitorder="little")[: count * bits].reshape(count, bits)
    codes = (flat << np.arange(bits)).sum(axis=1)
    np.testing.assert_array_equal(codes, values.astype(np.int64) & ((1 << bits) - 1))
    np.testing.assert_array_equal(decode_to(packed, fmt, "int8", count=count), values)
    np.testing.assert_array_equal(encode(values, fmt), codes)


def test_integers_to_sen169_round_like_computed_values():
    values = np.concatenate([np.arange(-70000, 70000), [2**31, -(2**31), 2**40, 2**33, 2**62]])
    expected = reference.sen169_encode(values.astype(np.float32))
    same(encode(values, "SEN169_FP16"), expected)
    same(encode_from(values, "SEN169_FP16"), expected)


# ---- other pairs ---------------------------------------------------------------------------------

FLOATS = {"float16": "IEEE_FP16", "bfloat16": "BFLOAT16", "float32": "IEEE_FP32",
          "float8_e4m3fn": "SEN143_FP8", "float8_e5m2fnuz": "SEN152_FP8"}  # fmt: skip


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("fmt", ["IEEE_FP32", "SEN169_FP16", "IEEE_FP16", "SEN143_FP8", "SENINT8"])
def test_other_pairs_convert_by_value(source, fmt):
    own = FLOATS[source]
    if own == fmt or (fmt == "SEN169_FP16" and source in ("float16", "bfloat16")):
        return  # copies, tested above
    codes = encode(np.linspace(-300, 300, 999, dtype=np.float32), own)
    values = decode(codes, own)
    same(encode_from(codes, fmt, dtype=source), encode(values, fmt))


def test_saturating_copies_convert_by_value():
    half = np.array([np.inf, -np.inf, 65504, 1], np.float16)
    same(encode_from(half, "SEN169_FP16", saturate=True), [0x7FFF, 0xFFFF, 0x5E00, 0x3E00])
    bits = np.array([0x5001, 0xD001, 0x7F80], np.uint16)
    codes = encode_from(bits, "SEN169_FP16", dtype="bfloat16", saturate=True)
    same(codes, [0x7FFE, 0xFFFE, 0x7FFF])


def test_float64_rounds_by_way_of_float32():
    values = np.array([1 / 3, 1e300, -1e-300, np.nan])
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    same(encode(values, "SEN169_FP16"), reference.sen169_encode(rounded))


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32))
def test_scalars_agree_with_arrays(value):
    array = np.array([value], dtype=np.float32)
    for fmt in ("SEN169_FP16", "SEN143_FP8", "SEN152_FP8", "IEEE_FP16", "IEEE_FP32"):
        code = encode(value, fmt)
        assert isinstance(code, int)
        assert code == encode(array, fmt)[0]
        decoded = decode(code, fmt)
        assert isinstance(decoded, float)
        np.testing.assert_equal(
            decoded, float(decode(np.array([code], f"u{DataFormats[fmt].bits // 8}"), fmt)[0])
        )


def test_scalars_have_the_type_of_their_format():
    assert encode(3, "SENINT4") == 3
    assert encode(-3, "SENINT4") == 13
    assert decode(13, "SENINT4") == -3
    assert encode(True, "BOOL") == 1
    assert decode(1, "BOOL") is True
    assert decode(0xFFFF, "SENINT16") == -1
    assert np.isnan(decode(0x7FFF, "SEN169_FP16"))
    assert encode(1e30, "SEN169_FP16", saturate=True) == 0x7FFE


def test_codes_out_of_range_are_refused():
    with pytest.raises(
        ValueError, match="65536 is not a code of SEN169_FP16; expected 0 to 0xffff"
    ):
        decode(65536, "SEN169_FP16")
    with pytest.raises(ValueError, match="-1 is not a code of SENINT8"):
        decode([-1], "SENINT8")
    with pytest.raises(TypeError, match="codes are uint8, but those of SEN169_FP16 are uint16"):
        decode(ALL_8, "SEN169_FP16")
    with pytest.raises(TypeError, match="codes are float16"):
        decode(ALL_16.view(np.float16), "SEN169_FP16")


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 63, 511, 512, 513, 70_001, 400_003])
def test_lengths_that_are_no_multiple_of_anything(count):
    bits = np.resize(ALL_16[::7], count)
    same(encode_from(bits.view(np.float16), "SEN169_FP16"), reference.half_to_sen169(bits))
    same(decode_to(bits, "SEN169_FP16", "float16"), reference.sen169_to_half(bits))


def test_integers_and_doubles_beyond_float32_are_exact_in_integer_formats():
    values = [2.0**53 - 1, -(2.0**53 - 1), 16777217.0, 1e300, -1e300, np.nan, np.inf]
    wanted = [2**53 - 1, -(2**53) + 1, 16777217, 2**63 - 1, -(2**63), 0, 2**63 - 1]
    codes = encode(np.array(values), "IEEE_INT64")
    assert codes.view(np.int64).tolist() == wanted
    assert [decode(encode(v, "IEEE_INT64"), "IEEE_INT64") for v in values] == wanted


def test_uint64_is_not_negative_beyond_int64():
    values = np.array([2**63, 2**64 - 1, 5], np.uint64)
    floats = encode(values, "IEEE_FP32").view(np.float32)
    np.testing.assert_array_equal(floats, values.astype(np.float32))
    np.testing.assert_array_equal(encode_from(values, "IEEE_FP32").view(np.float32), floats)
    clamped = encode(values, "IEEE_INT32", saturate=True).view(np.int32)
    assert clamped.tolist() == [2**31 - 1, 2**31 - 1, 5]
    assert encode(values, "SENINT8").view(np.int8).tolist() == [0, -1, 5]  # wraps


@pytest.mark.parametrize(
    ("fmt", "largest"),
    [
        ("SEN169_FP16", 0x7FFE),
        ("IEEE_FP32", 0x7F7FFFFF),
        ("IEEE_FP16", 0x7BFF),
        ("BFLOAT16", 0x7F7F),
    ],
)
def test_saturating_holds_doubles_beyond_float32(fmt, largest):
    assert encode(1e300, fmt, saturate=True) == largest
    assert encode(np.array([1e39]), fmt, saturate=True)[0] == largest
    assert encode(np.inf, fmt, saturate=True) == encode(np.inf, fmt)


def test_codes_beyond_the_width_of_a_format_are_refused():
    for codes in (4, [4], np.array([0, 4], np.uint8)):
        with pytest.raises(ValueError, match="4 is not a code of SENINT2; expected 0 to"):
            decode(codes, "SENINT2")
    with pytest.raises(TypeError, match="codes are complex64, but those of IEEE_INT64 are uint64"):
        decode(np.ones(2, np.complex64), "IEEE_INT64")
    with pytest.raises(TypeError, match="a code was given as 'a'; expected an integer"):
        decode(["a"], "SENINT2")
