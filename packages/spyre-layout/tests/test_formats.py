# SPDX-License-Identifier: Apache-2.0
import csv
import pickle
from pathlib import Path

import numpy as np
import pytest
import spyre_layout
from spyre_layout import DataFormats, device_format, dtype_name

GOLDEN = Path(__file__).parent / "golden"


def rows(name):
    with (GOLDEN / name).open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", rows("sticks.csv"), ids=lambda row: row["format"])
def test_properties_are_those_of_the_specification(row):
    fmt = DataFormats[row["format"]]
    assert fmt.value == int(row["enum_value"])
    assert fmt.bits == int(row["bits"])
    assert fmt.elems_per_stick() == int(row["elems_per_stick"])
    assert fmt.has_storage == (int(row["elems_per_stick"]) > 0)


def test_every_format_is_listed():
    assert [fmt.value for fmt in DataFormats] == list(range(19))
    assert len(rows("sticks.csv")) == 19


@pytest.mark.parametrize(
    ("fmt", "low", "high", "smallest"),
    [
        (DataFormats.SEN169_FP16, -8573157376.0, 8573157376.0, 2.0**-31 * (1 + 1 / 512)),
        (DataFormats.IEEE_FP32, -3.4028234663852886e38, 3.4028234663852886e38, 2.0**-149),
        (DataFormats.SEN143_FP8, -448.0, 448.0, 2.0**-9),
        (DataFormats.SEN152_FP8, -57344.0, 57344.0, 2.0**-17),
        (DataFormats.IEEE_FP16, -65504.0, 65504.0, 2.0**-24),
        (DataFormats.SENINT2, -2, 1, 1),
        (DataFormats.SENINT4, -8, 7, 1),
        (DataFormats.SENINT8, -128, 127, 1),
        (DataFormats.SENINT16, -(2**15), 2**15 - 1, 1),
        (DataFormats.IEEE_INT32, -(2**31), 2**31 - 1, 1),
        (DataFormats.IEEE_INT64, -(2**63), 2**63 - 1, 1),
        (DataFormats.SENUINT2, 0, 3, 1),
        (DataFormats.SENUINT32, 0, 2**32 - 1, 1),
        (DataFormats.BOOL, 0, 1, 1),
    ],
)
def test_ranges(fmt, low, high, smallest):
    assert fmt.range == (low, high)
    assert fmt.smallest == smallest


def test_formats_without_storage_say_so():
    for fmt in (DataFormats.INVALID, DataFormats.SEN153_FP9, DataFormats.SENINT24):
        with pytest.raises(ValueError, match=f"{fmt.name} has no storage"):
            _ = fmt.range
        with pytest.raises(ValueError, match="choose a format with storage"):
            spyre_layout.encode(1.0, fmt)
        with pytest.raises(ValueError, match="no storage"):
            spyre_layout.decode(1, fmt)


def test_formats_are_found_by_member_value_and_name():
    for given in (DataFormats.BFLOAT16, 17, "BFLOAT16", "DataFormats.BFLOAT16"):
        assert DataFormats.of(given) is DataFormats.BFLOAT16
    with pytest.raises(ValueError, match="expected one of SEN169_FP16, "):
        DataFormats.of("FP16")
    with pytest.raises(ValueError, match="no data format has the value 19; expected 0 to 18"):
        DataFormats.of(19)
    with pytest.raises(TypeError, match="given as a float"):
        DataFormats.of(1.5)


def test_formats_pickle_by_name():
    assert pickle.loads(pickle.dumps(DataFormats.SENINT4)) is DataFormats.SENINT4


DEVICE_FORMATS = {
    "float16": DataFormats.SEN169_FP16,
    "bfloat16": DataFormats.SEN169_FP16,
    "float32": DataFormats.IEEE_FP32,
    "bool": DataFormats.SEN169_FP16,
    "float8_e4m3fn": DataFormats.SEN143_FP8,
    "float8_e5m2fnuz": DataFormats.SEN152_FP8,
    "int8": DataFormats.SENINT8,
    "int16": DataFormats.SENINT16,
    "int32": DataFormats.IEEE_INT32,
    "int64": DataFormats.IEEE_INT64,
    "uint8": DataFormats.SENUINT32,
}


@pytest.mark.parametrize(("dtype", "fmt"), DEVICE_FORMATS.items())
def test_device_formats(dtype, fmt):
    assert device_format(dtype) is fmt
    assert device_format("torch." + dtype) is fmt


@pytest.mark.parametrize(
    ("dtype", "advice"),
    [
        ("float64", "float32"),
        ("float8_e5m2", "float8_e5m2fnuz"),
        ("float8_e4m3fnuz", "float8_e4m3fn"),
        ("complex64", "float32"),
        ("complex128", "complex64"),
        ("uint16", "int32"),
        ("uint64", "int64"),
    ],
)
def test_a_dtype_without_a_format_is_told_what_to_become(dtype, advice):
    with pytest.raises(
        ValueError, match=f"dtype {dtype} has no device format; cast .* to {advice}"
    ):
        device_format(dtype)


class FakeTorchDtype:
    """What torch.float16 looks like to a package that does not import torch."""

    def __repr__(self):
        return "torch.float16"


FakeTorchDtype.__module__ = "torch"
FakeTorchDtype.__qualname__ = FakeTorchDtype.__name__ = "dtype"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("float16", "float16"),
        ("half", "float16"),
        ("torch.long", "int64"),
        (np.float16, "float16"),
        (np.dtype("float16"), "float16"),
        (np.dtype("<f4"), "float32"),
        (np.bool_, "bool"),
        (np.uint8, "uint8"),
        (bool, "bool"),
        (int, "int64"),
        (float, "float32"),
        (FakeTorchDtype(), "float16"),
    ],
)
def test_dtypes_are_named_in_any_way(given, name):
    assert dtype_name(given) == name


def test_unknown_dtypes_are_refused():
    with pytest.raises(
        ValueError, match="unknown dtype 'float15'; dtypes with a device format are"
    ):
        dtype_name("float15")
    with pytest.raises(TypeError, match="expected a name such as 'float16'"):
        dtype_name(16)
    with pytest.raises(ValueError, match="unknown dtype 'str'"):
        dtype_name(str)
