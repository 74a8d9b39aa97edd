# SPDX-License-Identifier: Apache-2.0
"""What the functions take and give: buffers, DLPack, strides, `out`, and life without NumPy."""

import array
import re
import subprocess
import sys

import numpy as np
import pytest
import spyre_layout as sl


class DLPackOnly:
    """An array that has no buffer, as a CPU tensor has none."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **kwargs):
        return self.values.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


HALVES = np.linspace(-2, 2, 60, dtype=np.float16)
CODES = sl.encode_from(HALVES, "SEN169_FP16")


@pytest.mark.parametrize(
    "given",
    [
        HALVES,
        memoryview(HALVES),
        DLPackOnly(HALVES.copy()),
        HALVES.view(np.uint16),
        array.array("H", HALVES.view(np.uint16).tolist()),
    ],
    ids=["numpy", "memoryview", "dlpack", "bits", "array"],
)
def test_arrays_of_all_kinds(given):
    np.testing.assert_array_equal(sl.encode_from(given, "SEN169_FP16", dtype="float16"), CODES)


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "bool", "float32", "float64"]
)
def test_dlpack_dtypes(dtype):
    values = np.arange(10).astype(dtype)
    np.testing.assert_array_equal(
        sl.encode(DLPackOnly(values), "IEEE_FP32"), sl.encode(values, "IEEE_FP32")
    )


def test_dlpack_strides():
    values = np.arange(24, dtype=np.float32).reshape(4, 6)[::2, ::-1].T
    np.testing.assert_array_equal(
        sl.encode(DLPackOnly(values), "IEEE_FP32").view(np.float32), values
    )


def test_shapes_and_strides_are_kept():
    base = np.arange(5 * 6 * 7, dtype=np.float32).reshape(5, 6, 7)
    for values in (
        base,
        base.T,
        base[::2, ::-1],
        base[:, 1],
        base[0, 0, 0:1].reshape(()),
        base[:0],
        base.transpose(1, 0, 2),
    ):
        codes = sl.encode(values, "IEEE_FP32")
        assert codes.shape == values.shape
        np.testing.assert_array_equal(codes.view(np.float32).reshape(values.shape), values)
        np.testing.assert_array_equal(sl.decode(codes, "IEEE_FP32"), values)


def test_lists_of_numbers():
    assert sl.encode([1, 2, 3], "SENINT8").tolist() == [1, 2, 3]
    assert sl.encode((1.0, 0.5), "SEN169_FP16").tolist() == [0x3E00, 0x3C00]
    assert sl.decode([0x3E00, 0x3C00], "SEN169_FP16").tolist() == [1.0, 0.5]
    assert sl.encode([], "SENINT8").tolist() == []


def test_out_is_filled_and_returned():
    out = np.zeros(60, dtype=np.uint16)
    assert sl.encode_from(HALVES, "SEN169_FP16", out=out) is out
    np.testing.assert_array_equal(out, CODES)
    back = np.zeros(60, dtype=np.float16)
    assert sl.decode_to(CODES, "SEN169_FP16", "float16", out=back) is back
    floats = np.zeros(60, dtype=np.float32)
    assert sl.decode(CODES, "SEN169_FP16", out=floats) is floats
    np.testing.assert_array_equal(floats, back.astype(np.float32))
    bits = np.zeros(60, dtype=np.uint16)
    sl.encode(HALVES.astype(np.float32), "SEN169_FP16", out=bits)
    np.testing.assert_array_equal(bits, CODES)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (
            np.zeros(59, np.uint16),
            "out is an array of size [59] of uint16; expected a contiguous one of size [60]",
        ),
        (np.zeros(120, np.uint16)[::2], "out is an array of size [60] of uint16, not contiguous"),
        (np.zeros(60, np.uint8), "of uint8; expected a contiguous one"),
        (np.zeros(60, np.float16), "of float16; expected a contiguous one"),
        (np.zeros((6, 10), np.uint16), "of size [6, 10] of uint16; expected"),
    ],
)
def test_an_out_that_does_not_fit_is_refused(out, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        sl.encode_from(HALVES, "SEN169_FP16", out=out)


def test_read_only_memory_is_never_written():
    out = np.zeros(60, np.uint16)
    out.flags.writeable = False
    message = "out is read-only; give a writable array"
    with pytest.raises(ValueError, match=message):
        sl.encode_from(HALVES, "SEN169_FP16", out=out)
    with pytest.raises((ValueError, BufferError)):  # NumPy 1 does not export it at all
        sl.encode_from(HALVES, "SEN169_FP16", out=DLPackOnly(out))
    with pytest.raises(ValueError, match=message):
        sl.to_device(HALVES, sl.SpyreTensorLayout([60], "float16"), out=bytes(128))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (object(), TypeError, "expected an object with the buffer protocol"),
        ("abc", TypeError, "array is a str"),
        (np.zeros(3, dtype="S3"), ValueError, "buffer format '3s'"),
        (np.zeros(3).astype(np.dtype("f4").newbyteorder()), ValueError, "the other byte order"),
        ([1.0, "a"], TypeError, "a list that holds 'a', a str; expected numbers"),
        ([[1, 2], [3, 4]], TypeError, "a list that holds .1, 2., a list; expected numbers"),
        ([1, 2**63], ValueError, "holds 9223372036854775808, which is more than a 64-bit"),
        (np.zeros(3, dtype=[("a", "f4")]), ValueError, "buffer format"),
        (np.zeros(3, dtype=np.complex64), ValueError, "complex64 has no device format"),
        (np.frombuffer(bytes(9), np.uint8)[1:].view(np.float32), ValueError, "copy it first"),
    ],
)
def test_what_is_no_array_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        sl.encode_from(given, "IEEE_FP32")


def test_fields_of_a_record_array_that_step_between_elements_are_refused():
    records = np.zeros(4, dtype=[("a", "u1"), ("b", "<u4")])
    with pytest.raises(ValueError, match="copy it first"):
        sl.encode_from(records["b"], "IEEE_INT32")


def test_a_dtype_of_another_width_is_refused():
    with pytest.raises(ValueError, match="cannot read the float16 elements of array as float32"):
        sl.encode_from(HALVES, "IEEE_FP32", dtype="float32")


def test_a_float_array_is_not_read_as_another_dtype():
    with pytest.raises(ValueError, match="only integers of that width are taken for its bits"):
        sl.encode_from(HALVES, "SEN169_FP16", dtype="bfloat16")


@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        (lambda out: sl.decode(CODES, "SEN169_FP16", out=out), np.int32),
        (lambda out: sl.decode_to(CODES, "SEN169_FP16", "float32", out=out), np.int32),
        (lambda out: sl.decode_to(CODES, "SEN169_FP16", "int16", out=out), np.uint16),
    ],
)
def test_results_are_not_written_to_arrays_of_another_dtype(call, dtype):
    with pytest.raises(ValueError, match=f"of {np.dtype(dtype).name}; expected a contiguous one"):
        call(np.zeros(60, dtype))


def test_codes_overwrite_values_only_one_for_one():
    floats = np.arange(64, dtype=np.float32)
    with pytest.raises(ValueError, match="the array read and out share memory"):
        sl.encode(floats, "SEN169_FP16", out=floats.view(np.uint16)[2:66])
    halves = HALVES.copy()
    sl.encode_from(halves, "SEN169_FP16", out=halves.view(np.uint16))
    np.testing.assert_array_equal(halves.view(np.uint16), CODES)


class BeforeDLPack1(DLPackOnly):
    def __dlpack__(self):
        return self.values.__dlpack__()


def test_exporters_of_the_first_dlpack_are_read():
    np.testing.assert_array_equal(
        sl.encode_from(BeforeDLPack1(HALVES.copy()), "SEN169_FP16"), CODES
    )


class NegatedByAMark(DLPackOnly):
    """As torch's imag of a conjugated tensor: DLPack does not carry the mark."""

    def is_neg(self):
        return True

    def resolve_neg(self):
        return DLPackOnly(-self.values)


def test_a_negation_that_is_only_marked_is_done():
    given = NegatedByAMark(HALVES.copy())
    np.testing.assert_array_equal(
        sl.encode_from(given, "SEN169_FP16"), sl.encode_from(-HALVES, "SEN169_FP16")
    )
    with pytest.raises(ValueError, match="negates what is written"):
        sl.decode_to(CODES, "SEN169_FP16", "float16", out=given)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, np.int64, np.bool_])
def test_numbers_of_numpy_are_numbers(kind):
    code = sl.encode(kind(1), "SEN169_FP16")
    assert (type(code), code) == (int, 0x3E00)
    value = sl.decode(np.uint16(0x3E00), "SEN169_FP16")
    assert (type(value), value) == (float, 1.0)
    assert sl.encode(np.array(1.0), np.int64(0)).shape == ()


def test_a_count_that_is_no_integer_is_refused():
    with pytest.raises(TypeError, match="count is 1.5; expected an integer"):
        sl.decode_to(CODES, "SEN169_FP16", "float16", count=1.5)


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
import spyre_layout as sl
from array import array

codes = sl.encode(array("f", [1.0, -2.0, 0.5]), "SEN169_FP16")
assert isinstance(codes, memoryview) and codes.tolist() == [0x3E00, 0xC000, 0x3C00], codes
assert sl.decode(codes, "SEN169_FP16").tolist() == [1.0, -2.0, 0.5]
assert sl.encode(1.0, "SEN169_FP16") == 0x3E00 and sl.decode(0x3E00, "SEN169_FP16") == 1.0
grid = memoryview(array("i", range(12))).cast("B").cast("i", [3, 4])
layout = sl.SpyreTensorLayout([3, 4], "int32")
data = sl.to_device(grid, layout)
assert sl.from_device(data, layout).tolist() == grid.tolist()
turned = [list(row) for row in zip(*grid.tolist())]
assert sl.from_device(data, layout, [4, 3], [1, 4]).tolist() == turned
nothing = sl.SpyreTensorLayout([0], "uint8")
assert sl.from_device(sl.to_device(memoryview(b""), nothing), nothing).tolist() == []
scalar = sl.SpyreTensorLayout([], "int64")
assert sl.from_device(bytes(128), scalar).tolist() in (0, [0])
half = sl.from_device(bytes(256), sl.SpyreTensorLayout([2, 2], "float16"))
assert half.nbytes == 8
assert "numpy" not in {name for name, module in sys.modules.items() if module}
"""


def test_numpy_is_optional():
    subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], check=True)
