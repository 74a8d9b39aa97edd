# SPDX-License-Identifier: Apache-2.0
"""Copies, plans and restickify against the reference's positions."""

import numpy as np
import pytest
import spyre_layout as sl
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from spyre_layout import (
    DataFormats,
    SpyreTensorLayout,
    dma_plan,
    from_device,
    restickify,
    to_device,
)
from strategies import EPS, cases, view_of, views

EXAMPLES = settings(max_examples=300, deadline=None)
CODE_TYPES = {64: np.uint16, 32: np.uint32, 16: np.uint64, 128: np.uint8}


def host_values(dtype, size, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, size).astype(bool)
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(size).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, size, dtype=dtype, endpoint=True)


def expected_device(case, values, fill=0):
    """Device codes, by scattering the encoded values to the reference's positions."""
    codes = np.full(case.layout.device_numel, fill, CODE_TYPES[EPS[case.dtype]])
    encoded = sl.encode_from(np.ascontiguousarray(values), case.layout.device_dtype)
    codes[case.positions.reshape(-1)] = encoded.reshape(-1)
    return codes


def restrided(draw, values):
    """The same values in an array of other strides."""
    order = draw(st.permutations(range(values.ndim)))
    padded = [n + draw(st.integers(0, 2)) for n in (values.shape[dim] for dim in order)]
    storage = np.zeros(padded, values.dtype)
    array = storage[(*(slice(values.shape[dim]) for dim in order), ...)]
    array = array.transpose(np.argsort(order)) if values.ndim else array
    for dim in range(array.ndim):
        if draw(st.integers(0, 3)) == 0:
            array = np.flip(array, dim)
    array[...] = values
    return array


@EXAMPLES
@given(st.data())
def test_to_device_from_any_strides(data):
    case = data.draw(cases(max_rank=5))
    values = host_values(case.dtype, case.size)
    array = restrided(data.draw, values)
    expected = expected_device(case, values)
    device = to_device(array, case.layout)
    assert isinstance(device, bytearray)
    np.testing.assert_array_equal(np.frombuffer(device, expected.dtype), expected)


@EXAMPLES
@given(st.data())
def test_in_place_and_padding_is_left_alone(data):
    case = data.draw(cases(max_rank=4))
    values = host_values(case.dtype, case.size)
    out = np.full(case.layout.device_nbytes, 0xAB, np.uint8)
    assert to_device(values, case.layout, out=out) is out
    fill = np.frombuffer(b"\xab" * 8, CODE_TYPES[EPS[case.dtype]])[0]
    expected = expected_device(case, values, fill)
    np.testing.assert_array_equal(out.view(expected.dtype), expected)


@EXAMPLES
@given(st.data())
def test_from_device_of_any_view_to_any_strides(data):
    case = data.draw(cases(max_rank=5))
    values = host_values(case.dtype, case.size)
    view, hosts = data.draw(views(case.size))
    device = to_device(values, case.layout)
    rounded = from_device(device, case.layout)
    assert rounded.shape == values.shape
    assert rounded.dtype == values.dtype
    if case.dtype != "float16":
        np.testing.assert_array_equal(rounded, values)
    expected = rounded.reshape(-1)[hosts]
    np.testing.assert_array_equal(from_device(device, case.layout, *view), expected)
    out = restrided(data.draw, np.zeros_like(expected))
    assert from_device(device, case.layout, *view, out=out) is out
    np.testing.assert_array_equal(out, expected)


@EXAMPLES
@given(st.data())
def test_plans_move_every_element_once(data):
    case = data.draw(cases(max_rank=5))
    view, hosts = data.draw(views(case.size))
    base = np.arange(hosts.size).reshape(hosts.shape)
    plan = dma_plan(case.layout, view.size, view_of(base, base).stride, view_strides=view.stride,
                    storage_offset=view.offset)  # fmt: skip
    moved = np.full(hosts.size, -1)
    for piece in plan:
        assert list(piece.device_strides) == sorted(piece.device_strides, reverse=True)
        assert all(extent > 1 for extent in piece.ranges)
        host, device = np.array([piece.host_offset]), np.array([piece.device_offset])
        for extent, hs, ds in zip(
            piece.ranges, piece.host_strides, piece.device_strides, strict=True
        ):
            host = (host[:, None] + np.arange(extent) * hs).reshape(-1)
            device = (device[:, None] + np.arange(extent) * ds).reshape(-1)
        assert (moved[host] == -1).all()
        moved[host] = device
    np.testing.assert_array_equal(moved, case.positions.reshape(-1)[hosts].reshape(-1))
    if sl.resolve_view(case.layout, *view).affine and hosts.size:
        assert len(plan) == 1


def test_the_plan_of_the_documentation():
    plan = dma_plan(SpyreTensorLayout([1024, 256], [256, 1], "float16", [0, 1]))
    assert plan.ranges == (4, 1024, 64)
    assert plan.host_strides == (64, 256, 1)
    assert plan.device_strides == (65536, 64, 1)


def test_plans_are_cut_where_padding_breaks_a_view():
    plan = dma_plan(
        SpyreTensorLayout([4, 100], "float16"), [200], view_strides=[1], storage_offset=50
    )
    assert [(p.ranges, p.host_offset, p.device_offset) for p in plan] == [
        ((2, 50), 0, 50), ((2, 50), 50, 128),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="the plan has 2 pieces"):
        _ = plan.ranges
    ragged = dma_plan(SpyreTensorLayout([5, 100, 150], "float16", dim_order=[0, 1, 2]))
    assert len(ragged) == 2


@EXAMPLES
@given(st.data())
def test_restickify(data):
    first = data.draw(cases(max_rank=4))
    rank = len(first.size)
    order = list(data.draw(st.permutations(range(rank)))) + [-1] * data.draw(st.integers(0, 1))
    second = SpyreTensorLayout(first.size, first.dtype, dim_order=order)
    values = host_values(first.dtype, first.size)
    source = to_device(values, first.layout)
    moved = restickify(source, first.layout, second)
    assert moved == to_device(values, second)
    back = bytearray(first.layout.device_nbytes)
    assert restickify(moved, second, first.layout, out=back) is back
    assert back == source


@pytest.mark.parametrize("fmt", ["SENINT2", "SENINT4", "SENUINT2"])
def test_sub_byte_formats_are_packed_in_sticks(fmt):
    chosen = DataFormats[fmt]
    eps = chosen.elems_per_stick()
    low, high = chosen.range
    values = np.random.default_rng(0).integers(low, high, (3, 700), dtype=np.int8, endpoint=True)
    sticks = -(-700 // eps)
    rows = SpyreTensorLayout([3, sticks, eps], [700, eps, 1], fmt).with_host([3, 700], None, "int8")
    device = to_device(values, rows)
    padded = np.zeros((3, sticks * eps), np.int8)
    padded[:, :700] = values
    assert bytes(device) == sl.encode_from(padded, fmt).tobytes()
    np.testing.assert_array_equal(from_device(device, rows), values)
    np.testing.assert_array_equal(from_device(device, rows, [700, 3], [1, 700]), values.T)
    generic = SpyreTensorLayout([sticks, 3, eps], [eps, 700, 1], fmt).with_host(
        [3, 700], None, "int8"
    )
    moved = restickify(device, rows, generic)
    np.testing.assert_array_equal(from_device(moved, generic), values)
    assert restickify(moved, generic, rows) == device


@pytest.mark.parametrize("shape", [(1000, 1100), (257, 70, 65), (3, 500_001)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "int8", "uint8", "bool"])
def test_large_arrays_take_several_threads(shape, dtype):
    values = host_values(dtype, shape)
    flat = values.reshape(shape[0], -1)
    for array in (flat, np.asfortranarray(flat), flat[::-1, ::2]):
        size = list(array.shape)
        for layout in (
            SpyreTensorLayout(size, dtype),
            SpyreTensorLayout(size, dtype, dim_order=[0, 1]),
        ):
            device = to_device(array, layout)
            back = from_device(device, layout)
            codes = sl.encode_from(np.ascontiguousarray(array), layout.device_dtype)
            np.testing.assert_array_equal(back, sl.decode_to(codes, layout.device_dtype, dtype))
            out = np.asfortranarray(np.zeros_like(back))
            np.testing.assert_array_equal(from_device(device, layout, out=out), back)


def test_bfloat16_by_its_bits():
    bits = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    layout = SpyreTensorLayout([256, 256], "bfloat16")
    device = to_device(bits, layout, dtype="bfloat16")
    back = from_device(device, layout)
    assert back.dtype == np.uint16
    codes = sl.encode_from(bits, "SEN169_FP16", dtype="bfloat16")
    np.testing.assert_array_equal(back, sl.decode_to(codes, "SEN169_FP16", "bfloat16"))


def test_a_copy_may_convert_the_dtype():
    layout = SpyreTensorLayout([4, 100], "float16")
    values = np.linspace(-3, 3, 400, dtype=np.float32).reshape(4, 100)
    device = to_device(values, layout)
    np.testing.assert_array_equal(
        from_device(device, layout, dtype="float32"),
        sl.decode(sl.encode(values, "SEN169_FP16"), "SEN169_FP16"),
    )


def test_explicit_layouts_take_sizes():
    layout = SpyreTensorLayout([4, 2, 64], [128, 64, 1], DataFormats.SEN169_FP16)
    values = np.arange(512, dtype=np.float16).reshape(4, 128)
    device = to_device(values, layout)
    np.testing.assert_array_equal(from_device(device, layout, [4, 128], dtype="float16"), values)
    with pytest.raises(ValueError, match="does not know; give size="):
        from_device(device, layout, dtype="float16")
    with pytest.raises(ValueError, match="does not know; give dtype="):
        from_device(device, layout, [4, 128])
    with pytest.raises(ValueError, match="give size="):
        restickify(device, layout, layout)
    assert restickify(device, layout, layout, size=[4, 128]) == device


# ---- what is wrong -------------------------------------------------------------------------------

LAYOUT = SpyreTensorLayout([4, 100], "float16")


def test_memory_that_is_too_small_is_refused():
    values = np.zeros((4, 100), np.float16)
    with pytest.raises(ValueError, match="out holds 1023 bytes, but .* takes 1024"):
        to_device(values, LAYOUT, out=bytearray(1023))
    with pytest.raises(ValueError, match="data holds 100 bytes"):
        from_device(bytes(100), LAYOUT)
    with pytest.raises(ValueError, match="not contiguous"):
        from_device(np.zeros(2048, np.uint8)[::2], LAYOUT)


def test_memory_that_is_not_aligned_is_refused():
    memory = np.zeros(1026, np.uint8)
    odd = memory[1 - memory.__array_interface__["data"][0] % 2 :][:1024]
    with pytest.raises(ValueError, match="multiple of its 2-byte elements; copy it first"):
        from_device(odd, LAYOUT)


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(
        ValueError, match="array of size \\[4, 101\\] into the layout .* \\[4, 100\\]"
    ):
        to_device(np.zeros((4, 101), np.float16), LAYOUT)
    with pytest.raises(ValueError, match="out has size \\[100, 4\\]; expected \\[4, 100\\]"):
        from_device(bytes(1024), LAYOUT, out=np.zeros((100, 4), np.float16))
    with pytest.raises(ValueError, match="out holds float32 elements; expected float16"):
        from_device(bytes(1024), LAYOUT, dtype="float16", out=np.zeros((4, 100), np.float32))
    with pytest.raises(IndexError, match="reaches host offsets"):
        from_device(bytes(1024), LAYOUT, [5, 100])
    with pytest.raises(ValueError, match="complex64 has no device format"):
        to_device(np.zeros((4, 100), np.complex64), LAYOUT)


def test_overlapping_targets_are_refused():
    out = np.lib.stride_tricks.as_strided(np.zeros(100, np.float16), (4, 100), (0, 2))
    with pytest.raises(ValueError, match="several of its elements share one address"):
        from_device(bytes(1024), LAYOUT, out=out)


def test_the_dtype_of_out_is_what_it_gets():
    values = np.linspace(-100, 100, 400).reshape(4, 100).astype(np.float16)
    device = to_device(values, LAYOUT)
    kept = from_device(device, LAYOUT)
    for dtype in (np.float32, np.float64, np.int16, np.int32):
        out = np.zeros((4, 100), dtype)
        np.testing.assert_array_equal(from_device(device, LAYOUT, out=out), kept.astype(dtype))
    for out in (np.zeros((4, 100), np.int32), np.zeros((4, 100), np.uint32)):
        with pytest.raises(ValueError, match="leave dtype out to convert"):
            from_device(device, LAYOUT, dtype="float32", out=out)


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("bfloat16", np.uint16), ("float8_e4m3fn", np.uint8), ("float8_e5m2fnuz", np.uint8)],
)
def test_bits_of_dtypes_that_numpy_lacks_come_back_as_they_went(dtype, bits):
    layout = SpyreTensorLayout([4, 100], dtype)
    one = 0x3F80 if bits is np.uint16 else 0x3C
    device = to_device(np.full((4, 100), one, bits), layout, dtype=dtype)
    back = from_device(device, layout)
    assert back.dtype == bits
    assert to_device(back, layout) == device
    signed = np.zeros((4, 100), f"i{bits().itemsize}")
    from_device(device, layout, out=signed)
    np.testing.assert_array_equal(signed.view(bits), back)
    # Integers of another width are numbers.
    assert to_device(back.astype(np.int64), layout) != device


def test_memory_that_is_read_and_written_is_refused():
    memory = np.zeros(4096, np.uint8)
    values = memory[:800].view(np.float16).reshape(4, 100)
    other = SpyreTensorLayout([4, 100], "float16", dim_order=[0, 1])
    message = "share memory"
    with pytest.raises(ValueError, match=message):
        to_device(values, LAYOUT, out=memory[:1024])
    with pytest.raises(ValueError, match=message):
        from_device(memory[512:1536], LAYOUT, out=values)
    with pytest.raises(ValueError, match=message):
        from_device(memory[512:1536], LAYOUT, out=values[::-1])
    with pytest.raises(ValueError, match=message):
        restickify(memory[:1024], LAYOUT, other, out=memory[1000:2024])
    to_device(values, LAYOUT, out=memory[1024:])  # beside it is fine
    to_device(values[1:0], SpyreTensorLayout([0, 100], "float16"), out=memory)


@pytest.mark.parametrize("call", [dma_plan, lambda x: to_device(np.zeros(1), x)])
def test_what_is_no_layout_is_refused(call):
    with pytest.raises(TypeError, match="layout is 'x', a str; expected a SpyreTensorLayout"):
        call("x")


def test_a_plan_has_no_loop_that_another_counts_on_from():
    # 100 columns: one whole stick and a part of one.
    plan = dma_plan(SpyreTensorLayout([10, 100], "float16", dim_order=[0, 1]))
    assert [piece.ranges for piece in plan] == [(10, 64), (10, 36)]
    assert [piece.device_strides for piece in plan] == [(64, 1), (64, 1)]


@pytest.mark.parametrize("strides", [[2**62, 1], [1, -(2**63)], [2**59, 2**59]])
def test_host_strides_beyond_64_bits_are_refused(strides):
    with pytest.raises(ValueError, match="reaches further than 2\\^60 elements"):
        dma_plan(LAYOUT, host_strides=strides)


def test_restickify_keeps_the_format():
    with pytest.raises(ValueError, match="from format SEN169_FP16 to format IEEE_FP32"):
        restickify(bytes(1024), LAYOUT, SpyreTensorLayout([4, 100], "float32"))
    with pytest.raises(IndexError, match="reaches host offsets"):
        restickify(bytes(1024), LAYOUT, SpyreTensorLayout([4, 99], "float16"))


def test_an_expanded_host_array_is_read():
    values = np.broadcast_to(np.arange(100, dtype=np.float16), (4, 100))
    np.testing.assert_array_equal(from_device(to_device(values, LAYOUT), LAYOUT), values)


@settings(max_examples=200, deadline=None)
@given(cases(max_rank=4), st.integers(0, 7))
def test_padding_never_reaches_a_result(case, seed):
    values = host_values(case.dtype, case.size, seed)
    assume(values.size)
    noisy = np.random.default_rng(seed).integers(0, 256, case.layout.device_nbytes, dtype=np.uint8)
    to_device(values, case.layout, out=noisy)
    np.testing.assert_array_equal(
        from_device(noisy, case.layout), from_device(to_device(values, case.layout), case.layout)
    )
