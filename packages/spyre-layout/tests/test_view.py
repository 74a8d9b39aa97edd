# SPDX-License-Identifier: Apache-2.0
"""View resolution against brute force: the reference's positions seen through NumPy's views."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from spyre_layout import DataFormats, SpyreTensorLayout, contiguous_runs, resolve_view
from strategies import cases, views

EXAMPLES = settings(max_examples=1000, deadline=None)
FEWER = settings(max_examples=300, deadline=None)


def offsets(view):
    """Device offset of each element of a resolved view, row-major, by its loops alone."""
    start = view.device_offset if view.affine else view.host_offset
    result = np.array([start], dtype=np.int64)
    for loop in view.loops:
        steps = np.arange(loop.extent, dtype=np.int64) * loop.device_stride
        result = (result[:, None] + steps).reshape(-1)
    if not view.affine:
        host, result = result, np.zeros_like(result)
        for divisor, stride, _ in view.digits:
            result += host // divisor * stride
            host = host % divisor
    return result


def check(layout, size, stride, offset, expected):
    view = resolve_view(layout, size, stride, offset)
    np.testing.assert_array_equal(offsets(view), expected.reshape(-1))
    # Loops are those of the dimensions, outermost part first.
    assert [loop.dim for loop in view.loops] == sorted(loop.dim for loop in view.loops)
    for dim, extent in enumerate(size):
        parts = [loop.extent for loop in view.loops if loop.dim == dim]
        assert parts
        assert int(np.prod(parts)) == extent
    return view


@EXAMPLES
@given(st.data())
def test_views_made_by_numpy(data):
    case = data.draw(cases())
    view, hosts = data.draw(views(case.size))
    check(case.layout, *view, case.positions.reshape(-1)[hosts])


@EXAMPLES
@given(st.data())
def test_any_strides_within_range(data):
    case = data.draw(cases(max_rank=4))
    numel = case.positions.size
    assume(numel > 0)
    size, stride, low, high = [], [], 0, 0
    for _ in range(data.draw(st.integers(0, 5))):
        extent = data.draw(st.integers(1, 8))
        step = data.draw(st.integers(-70, 130))
        reach = (extent - 1) * step
        if high + max(reach, 0) - low - min(reach, 0) >= numel:
            continue
        low, high = low + min(reach, 0), high + max(reach, 0)
        size.append(extent)
        stride.append(step)
    offset = -low + data.draw(st.integers(0, numel - 1 - (high - low)))
    hosts = np.full((1,), offset)
    for extent, step in zip(size, stride, strict=True):
        hosts = (hosts[:, None] + np.arange(extent) * step).reshape(-1)
    check(case.layout, size, stride, offset, case.positions.reshape(-1)[hosts])


@FEWER
@given(st.data())
def test_row_major_sticks_keep_slices_affine(data):
    """Nothing but flattening over padding may take the default layout to the indexed form."""
    case = data.draw(cases(family="row_major"))
    view, hosts = data.draw(
        views(case.size, steps=("slice", "transpose", "expand", "unsqueeze", "select"))
    )
    resolved = check(case.layout, *view, case.positions.reshape(-1)[hosts])
    assert resolved.affine
    assert len(resolved.loops) == len(view.size)


@FEWER
@given(st.data())
def test_whole_sticks_keep_every_shape_affine(data):
    """Without padding the default layout is the host's own order: nothing is ever indexed."""
    case = data.draw(cases(family="row_major", whole_sticks=True))
    view, hosts = data.draw(views(case.size))
    assert check(case.layout, *view, case.positions.reshape(-1)[hosts]).affine


@FEWER
@given(st.data())
def test_a_view_that_is_affine_without_splits_is_found_to_be(data):
    """Completeness: if the positions of a view are affine in its dimensions, so is the result."""
    case = data.draw(cases(max_rank=5))
    view, hosts = data.draw(views(case.size))
    assume(hosts.size)
    expected = case.positions.reshape(-1)[hosts]
    model = np.array(expected[(0,) * expected.ndim])
    for dim, extent in enumerate(view.size):
        if extent > 1:
            second = [0] * expected.ndim
            second[dim] = 1
            step = expected[tuple(second)] - expected[(0,) * expected.ndim]
            shape = [1] * expected.ndim
            shape[dim] = extent
            model = model + (np.arange(extent) * step).reshape(shape)
    assume(np.array_equal(np.broadcast_to(model, expected.shape), expected))
    assert resolve_view(case.layout, *view).affine


@FEWER
@given(st.data())
def test_runs(data):
    case = data.draw(cases(max_rank=5))
    view, hosts = data.draw(views(case.size))
    expected = case.positions.reshape(-1)[hosts].reshape(-1)
    runs = contiguous_runs(case.layout, *view)
    listed = [run.device_offset + k for run in runs for k in range(run.length)]
    assert listed == expected.tolist()
    index = 0
    for run, following in itertools.zip_longest(runs, runs[1:]):
        assert run.view_index == index
        index += run.length
        if following is not None:  # the fewest: neighbours are never one run
            assert run.device_offset + run.length != following.device_offset


def gappy_layouts():
    """Explicit layouts in which not every host offset has a place."""
    return st.sampled_from(
        [
            ([4, 64], [100, 1]),
            ([4, 64], [128, 2]),
            ([3, 2, 64], [400, 64, 1]),
            ([2, 5, 1, 64], [1, 40, -1, 4]),
            ([7, 3, 64], [3, 1, -1]),
            ([2, 64], [64, 1]),
            ([1, 64], [5, 3]),
        ]
    )


@FEWER
@given(gappy_layouts(), st.data())
def test_explicit_layouts_with_gaps(parts, data):
    device_size, stride_map = parts
    layout = SpyreTensorLayout(device_size, stride_map, DataFormats.SEN169_FP16)
    place = {}
    for device in range(layout.device_numel):
        host = layout.host_offset(device)
        if host is not None:
            place[host] = device
    size, stride = [], []
    for _ in range(data.draw(st.integers(0, 3))):
        size.append(data.draw(st.integers(1, 6)))
        stride.append(
            data.draw(st.sampled_from((0, 1, 2, 3, 4, 8, 40, 64, 80, 100, 128, -1, -2, -100)))
        )
    offset = data.draw(st.integers(0, max(place)))
    hosts = np.full((1,), offset)
    for extent, step in zip(size, stride, strict=True):
        hosts = (hosts[:, None] + np.arange(extent) * step).reshape(-1)
    if all(host in place for host in hosts.tolist()):
        check(layout, size, stride, offset, np.array([place[host] for host in hosts.tolist()]))
    else:
        with pytest.raises(IndexError):
            resolve_view(layout, size, stride, offset)


# ---- what is wrong -------------------------------------------------------------------------------

LAYOUT = SpyreTensorLayout([4, 100], "float16")


@pytest.mark.parametrize(
    ("size", "stride", "offset", "message"),
    [
        ([401], [1], 0, "reaches host offsets 0 to 400, but the storage has elements at 0 to 399"),
        ([2], [-1], 0, "reaches host offsets -1 to 0"),
        ([1], [1], 400, "reaches host offsets 400 to 400"),
        ([], [], -1, "reaches host offsets -1 to -1"),
        ([2], [2**62], 0, "reaches host offsets 0 to 4611686018427387904"),
        ([2**40], [2**40], 0, "beyond 64 bits"),
        ([3, 3], [2**62, 2**62], 2**62, "beyond 64 bits"),
    ],
)
def test_views_that_leave_their_storage(size, stride, offset, message):
    with pytest.raises(IndexError, match=message):
        resolve_view(LAYOUT, size, stride, offset)


@pytest.mark.parametrize(
    ("size", "stride", "message"),
    [
        ([2, 2], [1], "view size \\[2, 2\\] has 2 dimensions, but stride \\[1\\] has 1"),
        ([-1], [1], "negative entry -1"),
    ],
)
def test_malformed_views(size, stride, message):
    with pytest.raises(ValueError, match=message):
        resolve_view(LAYOUT, size, stride)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(-20, 20)), max_size=4))
def test_writes_that_overlap_are_refused(dims):
    size = [extent for extent, _ in dims]
    stride = [step for _, step in dims]
    low = sum(min(0, (n - 1) * s) for n, s in dims)
    layout = SpyreTensorLayout([1000], "float32")
    hosts = np.full((1,), -low)
    for extent, step in dims:
        hosts = (hosts[:, None] + np.arange(extent) * step).reshape(-1)
    if len(set(hosts.tolist())) == hosts.size:
        resolve_view(layout, size, stride, -low, write=True)
    else:
        with pytest.raises(ValueError, match="several of its elements share one address"):
            resolve_view(layout, size, stride, -low, write=True)
    resolve_view(layout, size, stride, -low)


def test_empty_views_may_have_any_offset():
    view = resolve_view(LAYOUT, [3, 0], [1, 1], 10**9)
    assert view.affine
    assert [loop.extent for loop in view.loops] == [3, 0]


def test_a_view_tells_its_offsets():
    layout = SpyreTensorLayout([2, 100], "float16", dim_order=[0, 1])
    for size, stride in (([2, 100], [100, 1]), ([200], [1]), ([100, 2], [1, 100])):
        view = resolve_view(layout, size, stride)
        assert list(view.device_offsets()) == offsets(view).tolist()


def test_runs_of_more_elements_than_64_bits_count_are_refused():
    layout = SpyreTensorLayout([4, 100], "float16")
    assert len(resolve_view(layout, [2**40, 2**40], [0, 0]).loops) == 2
    with pytest.raises(ValueError, match="more elements than a 64-bit integer counts"):
        contiguous_runs(layout, [2**40, 2**40], [0, 0])
