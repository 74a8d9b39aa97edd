# SPDX-License-Identifier: Apache-2.0
import copy
import pickle

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from spyre_layout import DataFormats, SpyreTensorLayout, dtype_name
from strategies import EPS, cases

SEN169 = DataFormats.SEN169_FP16


# ---- the constructors ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host_size", "dtype", "device_size", "stride_map"),
    [
        ([4, 128], "float16", [4, 2, 64], [128, 64, 1]),
        ([4, 100], "float16", [4, 2, 64], [100, 64, 1]),
        ([50], "float16", [1, 64], [64, 1]),
        ([], "float16", [1, 64], [-1, -1]),
        ([1], "float16", [1, 64], [-1, -1]),
        ([3, 1, 70], "float16", [3, 1, 2, 64], [70, -1, 64, 1]),
        ([5, 1], "float16", [5, 1, 64], [1, -1, -1]),
        ([0, 128], "float16", [0, 2, 64], [128, 64, 1]),
        ([4, 0], "float16", [4, 0, 64], [1, 64, 1]),
        ([2, 40], "float32", [2, 2, 32], [40, 32, 1]),
        ([2, 40], "int64", [2, 3, 16], [40, 16, 1]),
        ([2, 40], "uint8", [2, 2, 32], [40, 32, 1]),
        ([2, 200], "int8", [2, 2, 128], [200, 128, 1]),
        ([2, 3, 4, 5, 6, 7, 8, 9], "bool", [2, 3, 4, 5, 6, 7, 8, 1, 64],
         [181440, 60480, 15120, 3024, 504, 72, 9, 64, 1]),
    ],
)  # fmt: skip
def test_row_major_sticks(host_size, dtype, device_size, stride_map):
    layout = SpyreTensorLayout(host_size, dtype)
    assert layout.device_size == device_size
    assert layout.stride_map == stride_map
    assert layout.host_size == host_size
    assert layout.host_dtype == dtype
    assert layout == SpyreTensorLayout(host_size=host_size, dtype=dtype)


@pytest.mark.parametrize(
    ("host_size", "dim_order", "device_size", "stride_map"),
    [
        ([512, 256], [0, 1], [4, 512, 64], [64, 256, 1]),
        ([512, 256], [0, 1, -1], [256, 1, 512, 64], [1, -1, 256, -1]),
        ([512, 256], [1, 0], [8, 256, 64], [16384, 1, 256]),
        ([5, 100, 150], [0, 1, 2], [100, 3, 5, 64], [150, 64, 15000, 1]),
        ([5, 100, 150], [2, 0, 1], [5, 2, 150, 64], [15000, 9600, 1, 150]),
        ([100], [0], [2, 64], [64, 1]),
        ([100], [0, -1], [1, 100, 64], [-1, 1, -1]),
        ([], [], [1, 64], [-1, -1]),
        ([], [-1], [1, 64], [-1, -1]),
        ([7, 1], [0, 1], [1, 7, 64], [-1, 1, -1]),
        ([1, 7], [0, 1], [1, 1, 64], [64, -1, 1]),
    ],
)
def test_generic_sticks(host_size, dim_order, device_size, stride_map):
    strides = [int(np.prod(host_size[dim + 1 :])) for dim in range(len(host_size))]
    layout = SpyreTensorLayout(host_size, strides, "float16", dim_order)
    assert layout.device_size == device_size
    assert layout.stride_map == stride_map
    assert layout == SpyreTensorLayout(host_size, "float16", dim_order=dim_order)
    named = SpyreTensorLayout(
        host_size=host_size, host_strides=strides, dtype="float16", dim_order=dim_order
    )
    assert layout == named


def test_generic_sticks_of_a_transposed_tensor():
    layout = SpyreTensorLayout([256, 512], [1, 256], "float16", [1, 0])
    assert layout == SpyreTensorLayout([512, 256], [256, 1], "float16", [0, 1])


@pytest.mark.parametrize(
    ("size", "strides", "device_size", "stride_map"),
    [
        # channels_last
        ([2, 80, 4, 5], [1600, 1, 400, 80], [2, 4, 5, 2, 64], [1600, 400, 80, 64, 1]),
        ([100, 3], [1, 100], [3, 2, 64], [100, 64, 1]),
        ([4, 128], [128, 1], [4, 2, 64], [128, 64, 1]),
        # A dimension of one element may have any stride.
        ([100, 1, 3], [1, 7, 100], [3, 1, 2, 64], [100, -1, 64, 1]),
        # Gaps and overlaps: flat sticks of all that is spanned.
        ([4, 10], [16, 1], [1, 64], [64, 1]),
        ([3, 100], [0, 1], [2, 64], [64, 1]),
        ([5, 5], [1, 1], [1, 64], [64, 1]),
        ([2, 0], [7, 9], [2, 0, 64], [7, 576, 9]),
    ],
)
def test_sticks_of_a_tensor_allocated_with_other_strides(size, strides, device_size, stride_map):
    layout = SpyreTensorLayout(size, host_strides=strides, dtype="float16")
    assert layout.device_size == device_size
    assert layout.stride_map == stride_map


def test_explicit_layouts():
    layout = SpyreTensorLayout(device_size=[4, 2, 64], stride_map=[128, 64, 1], device_dtype=SEN169)
    assert layout == SpyreTensorLayout([4, 128], "float16")
    assert layout == SpyreTensorLayout([4, 2, 64], [128, 64, 1], "SEN169_FP16")
    assert layout.host_size is None
    assert layout.host_strides is None
    assert layout.host_dtype is None
    known = layout.with_host([4, 128], None, "float16")
    assert known == layout
    assert (known.host_size, known.host_strides, known.host_dtype) == (
        [4, 128],
        [128, 1],
        "float16",
    )


def test_sizes_may_be_any_integers():
    assert SpyreTensorLayout((np.int64(4), 128), np.float16).device_size == [4, 2, 64]
    assert SpyreTensorLayout(np.array([4, 128]), "float16").device_size == [4, 2, 64]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, TypeError, "given nothing; expected \\(host_size, dtype\\); or"),
        ({"host_size": [1]}, TypeError, "given host_size; expected"),
        (
            {"host_size": [1], "dtype": "float16", "stride": [1]},
            TypeError,
            "given dtype, host_size, stride",
        ),
        ({"host_size": [-1], "dtype": "float16"}, ValueError, "negative entry -1 in dimension 0"),
        ({"host_size": [1.5], "dtype": "float16"}, TypeError, "expected a sequence of integers"),
        ({"host_size": 4, "dtype": "float16"}, TypeError, "host_size is 4"),
        (
            {"host_size": [4], "dtype": "float64"},
            ValueError,
            "float64 has no device format; cast .* float32",
        ),
        ({"host_size": [4], "dtype": "float8_e5m2"}, ValueError, "float8_e5m2fnuz"),
        ({"host_size": [2**40, 2**40], "dtype": "float16"}, ValueError, "more elements than"),
        (
            {"host_size": [2**62], "dtype": "float16"},
            ValueError,
            "more (elements|bytes) than|further than",
        ),
        ({"host_size": [2**70], "dtype": "float16"}, ValueError, "holds 1180591620717411303424"),
        (
            {"host_size": [4, 5], "host_strides": [1], "dtype": "float16", "dim_order": [0, 1]},
            ValueError,
            "host size \\[4, 5\\] has 2 dimensions, but host strides \\[1\\] have 1",
        ),
        (
            {"host_size": [4, 5], "dtype": "float16", "dim_order": [0, 0]},
            ValueError,
            "dim_order \\[0, 0\\] names dimension 0 twice; expected each of the dimensions 0 to 1",
        ),
        (
            {"host_size": [4, 5], "dtype": "float16", "dim_order": [0, 2]},
            ValueError,
            "rank 2 has not",
        ),
        (
            {"host_size": [4, 5], "dtype": "float16", "dim_order": [-1, 0]},
            ValueError,
            "names dimension -1",
        ),
        (
            {"host_size": [4, 5], "dtype": "float16", "dim_order": [0]},
            ValueError,
            "names 1 dimensions",
        ),
        (
            {"host_size": [4, 5], "host_strides": [0, 1], "dtype": "float16", "dim_order": [0, 1]},
            ValueError,
            "the entry 0 in dimension 0; .* make the tensor contiguous",
        ),
        (
            {"host_size": [4, 5], "host_strides": [3, 1], "dtype": "float16", "dim_order": [0, 1]},
            ValueError,
            "overlap or interleave",
        ),
        (
            {"host_size": [4], "host_strides": [-1], "dtype": "float16"},
            ValueError,
            "negative entry",
        ),
        (
            {"device_size": [4, 2, 60], "stride_map": [128, 64, 1], "device_dtype": SEN169},
            ValueError,
            "is 60, but a stick of SEN169_FP16 holds 64 elements",
        ),
        (
            {"device_size": [4, 64], "stride_map": [64], "device_dtype": SEN169},
            ValueError,
            "has 2 dimensions, but stride_map \\[64\\] has 1",
        ),
        (
            {"device_size": [], "stride_map": [], "device_dtype": SEN169},
            ValueError,
            "device_size is empty",
        ),
        (
            {"device_size": [4, 64], "stride_map": [0, 1], "device_dtype": SEN169},
            ValueError,
            "the entry 0 for device dimension 0; expected a host stride of at least 1, or -1",
        ),
        (
            {"device_size": [4, 64], "stride_map": [1, 1], "device_dtype": SEN169},
            ValueError,
            "gives two dimensions the host stride 1",
        ),
        (
            {"device_size": [-4, 64], "stride_map": [1, 1], "device_dtype": SEN169},
            ValueError,
            "negative",
        ),
        (
            {"device_size": [4, 64], "stride_map": [64, 1], "device_dtype": DataFormats.INVALID},
            ValueError,
            "cannot lay out a tensor in format INVALID",
        ),
        (
            {"device_size": [4, 64], "stride_map": [64, 1], "device_dtype": DataFormats.SEN153_FP9},
            ValueError,
            "compute only and has no storage",
        ),
        (
            {"device_size": [4, 64], "stride_map": [64, 1], "device_dtype": "FP16"},
            ValueError,
            "no data format",
        ),
        (
            {"device_size": [2**60, 64], "stride_map": [64, 1], "device_dtype": SEN169},
            ValueError,
            "64-bit",
        ),
        (
            {"device_size": [4, 64], "stride_map": [2**62, 1], "device_dtype": SEN169},
            ValueError,
            "further than 2.56 elements",
        ),
    ],
)
def test_what_makes_no_layout(arguments, error, message):
    with pytest.raises(error, match=message):
        SpyreTensorLayout(**arguments)


def test_a_host_tensor_that_does_not_fit_is_refused():
    layout = SpyreTensorLayout([4, 2, 64], [128, 64, 1], SEN169)
    with pytest.raises(
        ValueError, match="positions for host offsets below 512, but size .* needs 640"
    ):
        layout.with_host([5, 128], None, "float16")


def test_a_host_tensor_that_falls_between_positions_is_refused():
    layout = SpyreTensorLayout([4, 64], [100, 1], SEN169)
    assert layout.with_host([4, 64], [100, 1], "float16").host_size == [4, 64]
    with pytest.raises(ValueError, match="host offset 64 has no position"):
        layout.with_host([3, 100], None, "float16")


# ---- as a value ----------------------------------------------------------------------------------


def test_repr_reads_like_the_constructor():
    layout = SpyreTensorLayout([4, 128], "float16")
    text = (
        "SpyreTensorLayout(device_size=[4, 2, 64], stride_map=[128, 64, 1], "
        "device_dtype=DataFormats.SEN169_FP16)"
    )
    assert repr(layout) == str(layout) == text
    assert (
        eval(text, {"SpyreTensorLayout": SpyreTensorLayout, "DataFormats": DataFormats}) == layout
    )


def test_equality_and_hash():
    layout = SpyreTensorLayout([4, 128], "float16")
    assert layout == SpyreTensorLayout([4, 128], "bfloat16")
    assert hash(layout) == hash(SpyreTensorLayout([4, 128], "bfloat16"))
    assert layout != SpyreTensorLayout([4, 100], "float16")
    assert layout != SpyreTensorLayout([4, 128], "float32")
    assert layout != "layout"
    assert (
        len(
            {layout, SpyreTensorLayout([4, 128], "float16"), SpyreTensorLayout([128, 4], "float16")}
        )
        == 2
    )


@settings(max_examples=100, deadline=None)
@given(cases())
def test_pickle_and_copy_keep_everything(case):
    for other in (
        pickle.loads(pickle.dumps(case.layout)),
        copy.copy(case.layout),
        copy.deepcopy(case.layout),
    ):
        assert other == case.layout
        assert hash(other) == hash(case.layout)
        assert repr(other) == repr(case.layout)
        assert other.host_size == case.layout.host_size
        assert other.host_strides == case.layout.host_strides
        assert other.host_dtype == case.layout.host_dtype


def test_explicit_layouts_pickle_without_a_host():
    layout = SpyreTensorLayout([4, 2, 64], [128, 64, 1], SEN169)
    assert pickle.loads(pickle.dumps(layout)).host_size is None


def test_layouts_are_immutable():
    layout = SpyreTensorLayout([4, 128], "float16")
    layout.device_size.append(3)
    assert layout.device_size == [4, 2, 64]
    with pytest.raises(AttributeError, match="layouts are immutable"):
        layout.device_size = [1]
    with pytest.raises(AttributeError, match="layouts are immutable"):
        del layout.device_size
    with pytest.raises(AttributeError, match="layouts are immutable"):
        layout.other = 1


def test_numbers():
    layout = SpyreTensorLayout([4, 100], "float16")
    assert layout.elems_per_stick() == 64
    assert layout.device_numel == 512
    assert layout.device_nbytes == 1024
    assert layout.num_sticks == 8
    assert layout.padding_ratio == 1 - 400 / 512
    assert layout.device_strides == [128, 64, 1]
    assert SpyreTensorLayout([0], "float16").padding_ratio == 0
    assert SpyreTensorLayout([3], "int64").device_nbytes == 128
    assert SpyreTensorLayout([2, 512], [1, 2], "SENINT2").device_nbytes == 256


# ---- coordinates ---------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(cases(max_rank=5))
def test_every_position_both_ways(case):
    layout = case.layout
    assert layout.device_nbytes == layout.device_numel // EPS[case.dtype] * 128
    flat = case.positions.reshape(-1)
    assert len(set(flat.tolist())) == flat.size
    back = np.full(layout.device_numel, -1)
    back[flat] = np.arange(flat.size)
    step = max(1, flat.size // 500)
    for host in range(0, flat.size, step):
        assert layout.device_offset(host) == flat[host]
    step = max(1, layout.device_numel // 500)
    for device in range(0, layout.device_numel, step):
        expected = back[device]
        assert layout.host_offset(device) == (None if expected < 0 else expected)
    for host in range(0, flat.size, max(1, flat.size // 20)):
        index = np.unravel_index(host, case.size)
        coordinates = layout.device_coordinates(host)
        assert layout.device_offset([int(i) for i in index]) == flat[host]
        assert layout.host_index(int(flat[host])) == tuple(int(i) for i in index)
        assert layout.host_offset(coordinates) == host
        # The identity that defines layouts; -1 stands for dimensions with nothing to count.
        moves = zip(coordinates, layout.stride_map, strict=True)
        assert sum(c * s for c, s in moves if c) == host


def test_gaps_of_a_host_tensor_are_padding():
    layout = SpyreTensorLayout([3, 10], [16, 1], "float16", [0, 1])
    offsets = [layout.host_offset(k) for k in range(layout.device_numel)]
    assert [o for o in offsets if o is not None] == [
        r * 16 + c for r in range(3) for c in range(10)
    ]
    with pytest.raises(IndexError, match="host offset 64 lies outside|lies outside the layout"):
        layout.device_offset(64)


def test_explicit_layouts_with_gaps():
    layout = SpyreTensorLayout([4, 64], [100, 1], SEN169)
    assert layout.device_offset(163) == 127
    with pytest.raises(
        IndexError, match="host offset 64 has no position .* falls between the elements"
    ):
        layout.device_offset(64)
    even = SpyreTensorLayout([4, 64], [128, 2], SEN169)
    assert even.device_offset(130) == 65
    with pytest.raises(IndexError, match="falls between"):
        even.device_offset(131)


def test_positions_that_there_are_not():
    layout = SpyreTensorLayout([4, 100], "float16")
    for offset in (-1, 400, 2**62):
        with pytest.raises(IndexError, match=f"host offset {offset} lies outside the layout"):
            layout.device_offset(offset)
    for offset in (-1, 512):
        with pytest.raises(IndexError, match="lies outside the layout's 512 device elements"):
            layout.host_offset(offset)
    with pytest.raises(IndexError, match="host index \\[4, 0\\] must lie in size \\[4, 100\\]"):
        layout.device_offset([4, 0])
    with pytest.raises(IndexError, match="device coordinates"):
        layout.host_offset([0, 0, 64])
    with pytest.raises(ValueError, match="use with_host"):
        SpyreTensorLayout([4, 2, 64], [128, 64, 1], SEN169).host_index(0)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_dense_strides_are_laid_out_like_their_permutation(data):
    rank = data.draw(st.integers(1, 5))
    size = data.draw(st.lists(st.integers(2, 6), min_size=rank, max_size=rank))
    size[data.draw(st.integers(0, rank - 1))] = data.draw(st.sampled_from((33, 64, 100)))
    order = data.draw(st.permutations(range(rank)))
    ordered = [size[dim] for dim in order]
    strides = [0] * rank
    for place, dim in enumerate(order):
        strides[dim] = int(np.prod(ordered[place + 1 :]))
    layout = SpyreTensorLayout(size, host_strides=strides, dtype="float32")
    assert layout == SpyreTensorLayout(ordered, "float32")
    positions = reference.row_major_positions(ordered, 32).reshape(-1)
    for host in range(0, positions.size, max(1, positions.size // 50)):
        assert layout.device_offset(host) == positions[host]


@pytest.mark.parametrize(
    ("device_size", "stride_map", "elements"),
    [
        ([4, 64], [1000, 1], 256),  # gaps between rows
        ([64], [2], 64),  # every other element
        ([2, 3, 64], [64, 200, 1], 384),
        ([3, 2, 64], [100, 64, 1], 300),  # the end of a row is the start of the next
        ([4, 5, 64], [256, 3, -1], 20),
    ],
)
def test_padding_of_explicit_layouts(device_size, stride_map, elements):
    layout = SpyreTensorLayout(device_size, stride_map, DataFormats.SEN169_FP16)
    placed = {layout.host_offset(position) for position in range(layout.device_numel)} - {None}
    assert len(placed) == elements
    assert layout.padding_ratio == pytest.approx(1 - elements / layout.device_numel)


def test_positions_may_be_arrays_and_must_be_integers():
    layout = SpyreTensorLayout([4, 100], "float16")
    assert layout.device_offset(np.array([1, 2])) == layout.device_offset([1, 2])
    assert layout.device_offset(np.int64(102)) == layout.device_offset(102)
    assert layout.host_index(np.array([1, 0, 2])) == (1, 2)
    for position in ([0.5, 0], "ab", [None, 0]):
        with pytest.raises(TypeError, match="host index is .*; expected a sequence of integers"):
            layout.device_offset(position)


def test_an_empty_tensor_may_have_any_strides():
    layout = SpyreTensorLayout([0, 64], [0, 1], "float16", [0, 1])
    assert layout.device_nbytes == 0
    with pytest.raises(IndexError, match="the layout, which has no elements"):
        layout.device_offset(0)


def test_a_host_dtype_without_codec_is_refused():
    layout = SpyreTensorLayout([4, 2, 64], [128, 64, 1], DataFormats.SEN169_FP16)
    with pytest.raises(ValueError, match="complex64 has no device format"):
        layout.with_host([4, 128], None, "complex64")


def test_formats_read_well_where_they_are_printed():
    fmt = DataFormats.SEN169_FP16
    assert (str(fmt), f"{fmt}", f"{fmt:>23}") == (
        "DataFormats.SEN169_FP16",
        "DataFormats.SEN169_FP16",
        "DataFormats.SEN169_FP16",
    )
    assert (f"{fmt:d}", int(fmt), fmt + 1) == ("0", 0, 1)


@pytest.mark.parametrize(("dtype", "name"), [(np.longlong, "int64"), (np.ulonglong, "uint64")])
def test_numpy_types_with_names_from_c(dtype, name):
    assert dtype_name(dtype) == name
