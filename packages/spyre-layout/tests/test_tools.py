# SPDX-License-Identifier: Apache-2.0
"""Pictures, footprints, files of device tensors, the command line."""

import json
import os
import re
import subprocess
import sys
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from spyre_layout import DataFormats, SpyreTensorLayout, from_device, to_device
from spyre_layout.cli import main
from spyre_layout.picture import describe_dimensions, stick_at, to_svg, to_text
from strategies import cases

# ---- pictures ------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(cases())
def test_every_layout_can_be_drawn(case):
    text = to_text(case.layout, sticks=5)
    assert "\x1b" not in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", to_text(case.layout, sticks=5, color=True))
    assert plain == text
    root = ET.fromstring(to_svg(case.layout))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert case.layout._repr_svg_() == to_svg(case.layout)
    explicit = SpyreTensorLayout(
        case.layout.device_size, case.layout.stride_map, case.layout.device_dtype
    )
    assert to_text(explicit)
    ET.fromstring(to_svg(explicit))


def test_a_picture_tells_sticks_padding_and_addresses():
    layout = SpyreTensorLayout([5, 100, 150], "float16", dim_order=[0, 1, 2])
    text = to_text(layout, at=[1, 2, 70])
    assert "1,500 sticks of 64 elements, 192,000 bytes, 21.9% padding" in text
    assert "sticks along dimension 2: 150 in 3 x 64, the last 42 padding" in text
    assert "byte 0x120c, stick 36, element 6 of it" in text
    assert re.search(r"^ +0 +0x0 +█{32}  \[0, 0, 0:64\]$", text, re.MULTILINE)
    assert re.search(r"^ +10 +0x500 +█{11}░{21}  \[0, 0, 128:150\]$", text, re.MULTILINE)
    assert re.search(r"^ 1499 +0x2ed80 +█+░+  \[4, 99, 128:150\]$", text, re.MULTILINE)


@pytest.mark.parametrize(
    "layout",
    [
        SpyreTensorLayout([2] * 12 + [2000, 130], "float16"),
        SpyreTensorLayout([1_000_000], "int64"),
        SpyreTensorLayout([512, 256], "float16", dim_order=[0, 1, -1]),
        SpyreTensorLayout([1000] * 5 + [64], [64 * 1000**k for k in range(5)] + [1], "SEN169_FP16"),
    ],
    ids=["rank", "tiles", "sparse", "explicit"],
)
def test_nothing_in_a_drawing_runs_into_anything_else(layout):
    root = ET.fromstring(to_svg(layout))
    right = float(root.get("viewBox").split()[2])
    rows = {}
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        width = {"title": 8, "small": 5, "mono": 6}.get(text.get("class"), 6) * len(text.text)
        rows.setdefault(float(text.get("y")), []).append((float(text.get("x")), width))
    for row in rows.values():
        places = sorted(row)
        for (x, width), (beside, _) in zip(places, [*places[1:], (right, 0)], strict=True):
            assert x + width < beside


def test_tiles_that_are_left_out_leave_a_gap():
    texts = list(ET.fromstring(to_svg(SpyreTensorLayout([2000], "float16"))).itertext())
    assert "⋯" in texts
    assert "1984:2000" in texts
    assert "⋯" not in to_svg(SpyreTensorLayout([200], "float16"))


def test_sticks():
    layout = SpyreTensorLayout([2, 70], "float16")
    stick = stick_at(layout, 1)
    assert (stick.address, stick.filled) == (128, 6)
    assert stick.lanes[:7] == (64, 65, 66, 67, 68, 69, None)
    with pytest.raises(IndexError, match="stick 4 does not lie in the 4 sticks"):
        stick_at(layout, 4)


# ---- checkpoints ---------------------------------------------------------------------------------

checkpoint = pytest.importorskip("spyre_layout.checkpoint")
safetensors_numpy = pytest.importorskip("safetensors.numpy", reason="the safetensors extra")


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "model.safetensors"
    tensors = {
        "embed": rng.standard_normal((10, 100)).astype(np.float16),
        "bias": rng.standard_normal(5).astype(np.float32),
        "ids": np.arange(40, dtype=np.int64).reshape(2, 20),
        "scalar": np.array(3, dtype=np.int32),
        "empty": np.zeros((0, 3), np.float32),
        "double": np.ones(3),
    }
    safetensors_numpy.save_file(tensors, path)
    return path, tensors


def test_a_footprint_adds_up(model):
    path, tensors = model
    told = checkpoint.footprint(path)
    entries = {entry.name: entry for entry in told.entries}
    assert set(entries) == set(tensors)
    for name, entry in entries.items():
        assert entry.host_nbytes == tensors[name].nbytes
        if name != "double":
            assert entry.layout == SpyreTensorLayout(tensors[name].shape, tensors[name].dtype)
    assert entries["double"].layout is None
    assert "cast the tensor to float32" in entries["double"].problem
    assert told.device_nbytes == 10 * 2 * 128 + 128 + 2 * 2 * 128 + 128
    assert list(told.by_format()) == [
        DataFormats.SEN169_FP16,
        DataFormats.IEEE_FP32,
        DataFormats.IEEE_INT64,
        DataFormats.IEEE_INT32,
    ]
    text = told.text()
    row = r"^embed +\[10, 100\] float16 +\[10, 2, 64\] SEN169_FP16 +2,000 +2,560 +21.9%$"
    assert re.search(row, text, re.MULTILINE)
    assert re.search(r"^total +5 ", text, re.MULTILINE)
    cast = checkpoint.footprint(path, dtype="float16")
    assert cast.by_format()[DataFormats.SEN169_FP16][0].layout is not None
    assert {entry.name: entry.layout for entry in cast.entries}["double"] is not None
    with pytest.raises(ValueError, match="cannot cast floating tensors to int8"):
        checkpoint.footprint(path, dtype="int8")


def test_device_tensors_survive_a_file(tmp_path):
    path = tmp_path / "packed.safetensors"
    rng = np.random.default_rng(1)
    tensors = {}
    for name, layout in {
        "rows": SpyreTensorLayout([7, 100], "float16"),
        "sparse": SpyreTensorLayout([7, 3], "float32", dim_order=[0, 1, -1]),
        "explicit": SpyreTensorLayout([4, 2, 64], [128, 64, 1], "SEN169_FP16"),
        "packed": SpyreTensorLayout([2, 512], [512, 1], "SENUINT2"),
        "empty": SpyreTensorLayout([0, 5], "bool"),
    }.items():
        tensors[name] = checkpoint.DeviceTensor(layout, rng.bytes(layout.device_nbytes))
    checkpoint.save_file(tensors, path)
    loaded = checkpoint.load_file(path)
    assert set(loaded) == set(tensors)
    for name, (layout, data) in loaded.items():
        assert layout == tensors[name].layout
        assert layout.host_size == tensors[name].layout.host_size
        assert layout.host_strides == tensors[name].layout.host_strides
        assert layout.host_dtype == tensors[name].layout.host_dtype
        assert bytes(data) == tensors[name].data
    told = checkpoint.footprint(path)
    assert told.device_nbytes == sum(layout.device_nbytes for layout, _ in tensors.values())


def test_packing_a_checkpoint(model, tmp_path):
    path, tensors = model
    target = tmp_path / "packed.safetensors"
    with pytest.raises(
        ValueError, match="cannot pack tensor 'double': .* cast the tensor to float32"
    ):
        checkpoint.pack_file(path, target)
    checkpoint.pack_file(path, target, dtype="float16")
    for name, (layout, data) in checkpoint.load_file(target).items():
        values = tensors[name]
        expected = values.astype(np.float16) if values.dtype.kind == "f" else values
        assert bytes(data) == bytes(to_device(expected.copy(), layout))
        assert from_device(data, layout).dtype == expected.dtype


def test_bad_files(tmp_path, model):
    path, _ = model
    with pytest.raises(FileNotFoundError, match="there is no file"):
        checkpoint.footprint(tmp_path / "none")
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"not a safetensors file")
    with pytest.raises(ValueError, match="is not a safetensors file"):
        checkpoint.footprint(broken)
    with pytest.raises(ValueError, match="holds no device-format tensors"):
        checkpoint.load_file(path)
    layout = SpyreTensorLayout([64], "float16")
    with pytest.raises(ValueError, match="has 3 bytes, but .* takes 128"):
        checkpoint.save_file({"a": checkpoint.DeviceTensor(layout, b"abc")}, broken)
    entry = '{"device_size": [1, 64], "stride_map": [64, 1], "device_dtype": "SEN169_FP16"}'
    for metadata, message in [
        ("{", "is malformed"),
        ('{"version": 2, "tensors": {}}', "its version is 2, this package reads 1"),
        ('{"version": 1, "tensors": {"a": {}}}', "malformed: it has no 'device_size'"),
        (
            f'{{"version": 1, "tensors": {{"b": {entry}}}}}',
            "has no layout for 'a', but the file has that tensor",
        ),
        (f'{{"version": 1, "tensors": {{"a": {entry}}}}}', "has 3 bytes of U8, but its layout"),
        ("[" * 100_000, "is malformed: maximum recursion depth"),
        (f'{{"version": 1, "tensors": {{"a": {entry}, "a": {entry}}}}}', "'a' stands there twice"),
        ("[]", "is malformed"),
    ]:
        safetensors_numpy.save_file(
            {"a": np.zeros(3, np.uint8)}, broken, {"spyre_layout": metadata}
        )
        with pytest.raises(ValueError, match=message):
            checkpoint.load_file(broken)
        with pytest.raises(ValueError, match=message):
            checkpoint.footprint(broken)


def skip_unless_known(path, code):
    safetensors = pytest.importorskip("safetensors")
    try:
        with safetensors.safe_open(path, framework="numpy"):
            pass
    except safetensors.SafetensorError:
        pytest.skip(f"safetensors {safetensors.__version__} does not know {code} yet")


def write_raw(path, header, data=b""):
    text = header.encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.mark.parametrize(
    ("code", "device"),
    [("F8_E5M2FNUZ", DataFormats.SEN152_FP8), ("F8_E4M3", DataFormats.SEN143_FP8)],
)
def test_8_bit_floats_of_a_checkpoint(tmp_path, code, device):
    path = tmp_path / "model"
    write_raw(path, f'{{"a":{{"dtype":"{code}","shape":[3],"data_offsets":[0,3]}}}}', b"123")
    skip_unless_known(path, code)
    assert list(checkpoint.footprint(path).by_format()) == [device]
    checkpoint.pack_file(path, path)  # in place
    ((_, data),) = checkpoint.load_file(path).values()
    assert bytes(data[:3]) == b"123"
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("code", ["F4", "F8_E5M2", "F8_E4M3FNUZ", "F8_E8M0"])
def test_dtypes_without_a_device_format_are_told(tmp_path, code):
    path = tmp_path / "model"
    write_raw(path, f'{{"a":{{"dtype":"{code}","shape":[2,2],"data_offsets":[0,4]}}}}', b"1234")
    if code == "F4":
        write_raw(path, f'{{"a":{{"dtype":"{code}","shape":[2,4],"data_offsets":[0,4]}}}}', b"1234")
    skip_unless_known(path, code)
    (entry,) = checkpoint.footprint(path).entries
    assert entry.layout is None
    assert entry.host_nbytes == 4
    assert "cast the tensor to" in entry.problem


def test_a_name_that_stands_twice_is_refused(tmp_path):
    path = tmp_path / "model"
    entry = '"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}'
    write_raw(path, f"{{{entry},{entry}}}", b"123")
    with pytest.raises(ValueError, match="'a' stands there twice"):
        checkpoint.footprint(path)


def test_a_packed_file_is_not_packed_again(model, tmp_path):
    packed = tmp_path / "packed"
    checkpoint.pack_file(model[0], packed, dtype="float16")
    with pytest.raises(ValueError, match="it holds device-format tensors already"):
        checkpoint.pack_file(packed, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_loaded_file_can_be_saved(tmp_path, model):
    first, second = tmp_path / "first", tmp_path / "second"
    checkpoint.pack_file(model[0], first, dtype="float16")
    loaded = checkpoint.load_file(first)
    checkpoint.save_file(loaded, second)
    assert first.read_bytes() == second.read_bytes()
    assert safetensors_numpy.load_file(first).keys() == loaded.keys()


def test_a_failed_write_leaves_no_file_and_the_old_one_alone(tmp_path, model, monkeypatch):
    target = tmp_path / "out"
    target.write_text("old")
    monkeypatch.setattr(checkpoint, "to_device", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        checkpoint.pack_file(model[0], target, dtype="float16")
    assert target.read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.safetensors", "out"]


def test_what_cannot_be_saved(tmp_path):
    layout = SpyreTensorLayout([64], "float16")
    with pytest.raises(ValueError, match="a tensor is called '__metadata__'"):
        checkpoint.save_file({"__metadata__": (layout, bytes(128))}, tmp_path / "x")
    with pytest.raises(ValueError, match="the data of tensor 'a' is not contiguous"):
        checkpoint.save_file({"a": (layout, np.zeros(256, np.uint8)[::2])}, tmp_path / "x")


def test_a_name_does_not_command_the_terminal(tmp_path):
    path = tmp_path / "model"
    write_raw(path, '{"\\u001b[31mred":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}', b"123")
    text = checkpoint.footprint(path).text()
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text


def test_a_narrow_footprint(model):
    told = checkpoint.footprint(model[0])
    lines = told.text(width=60).splitlines()
    assert lines[lines.index("embed") + 1].startswith("  [10, 100] float16")
    assert told.text(width=200) == told.text()


# ---- the command line ----------------------------------------------------------------------------


def test_show(capsys, tmp_path):
    svg = tmp_path / "out.svg"
    arguments = [
        "show",
        "5",
        "100",
        "150",
        "--dtype",
        "float16",
        "--dim-order",
        "0,1,2",
        "--svg",
        str(svg),
    ]
    assert main(arguments) == 0
    layout = SpyreTensorLayout([5, 100, 150], "float16", dim_order=[0, 1, 2])
    assert capsys.readouterr().out == to_text(layout) + "\n"
    ET.parse(svg)
    assert main(["show", "3", "--dim-order=0,-1", "--color", "always", "--at", "2"]) == 0
    assert "\x1b[" in capsys.readouterr().out
    assert main(["show"]) == 0
    assert main(["show", "4", "6", "--strides", "1,4", "--dtype", "int64"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "4", "--dtype", "float64"], "cast the tensor to float32"),
        (["show", "4", "--dim-order", "1"], "dim_order [1]"),
        (["show", "4", "--at", "9"], "must lie in size [4]"),
        (["show", "4", "--sticks", "1"], "expected at least 2"),
        (["footprint", "nowhere.safetensors"], "there is no file"),
    ],
)
def test_mistakes_end_with_a_sentence(capsys, arguments, message):
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith(f"spyre-layout {arguments[0]}: ")


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_any_encoding_will_do(encoding, tmp_path):
    path = tmp_path / "model"
    name = "wei\u00df"
    write_raw(path, f'{{"{name}":{{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}}}', b"123")
    for arguments, wanted in [
        (["show", "70"], {"ascii": "###...", "utf-8": "███░░░"}),
        (["footprint", str(path)], {"ascii": "wei\\xdf ", "utf-8": "weiß "}),
    ]:
        done = subprocess.run(
            [sys.executable, "-m", "spyre_layout.cli", *arguments],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
        assert wanted[encoding] in done.stdout.decode(encoding)


def test_a_narrow_terminal():
    layout = SpyreTensorLayout([5, 100, 150], "float16")
    for width in (60, 80, 100):
        lines = to_text(layout, at=[1, 2, 3], width=width).splitlines()
        assert max(map(len, lines)) <= width
    assert to_text(layout, width=200) == to_text(layout)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ([3, 64], ["dimension 0", "sticks along dimension 1: 64 in 1 x 64"]),
        ([64, 64, 64], ["dimension 0", "dimension 1", "sticks along dimension 2: 64 in 1 x 64"]),
        ([0, 3], ["dimension 0", "sticks along dimension 1: 3 in 1 x 64, the last 61 padding"]),
    ],
)
def test_words_for_dimensions(size, words):
    layout = SpyreTensorLayout(size, "float16")
    assert [role.text for role in describe_dimensions(layout)[:-1]] == words


def test_footprint_and_pack(capsys, model, tmp_path):
    path, _ = model
    assert main(["footprint", str(path)]) == 0
    assert "without a device format, and not in the totals (1):" in capsys.readouterr().out
    assert main(["footprint", str(path), "--json", "--dtype", "float16"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["device_bytes"] == checkpoint.footprint(path, dtype="float16").device_nbytes
    assert main(["pack", str(path), str(tmp_path / "packed"), "--dtype", "float16"]) == 0
    assert "6 tensors" in capsys.readouterr().out


def test_the_installed_command():
    command = os.path.join(os.path.dirname(sys.executable), "spyre-layout")
    done = subprocess.run([command, "--version"], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("spyre-layout 0.")
