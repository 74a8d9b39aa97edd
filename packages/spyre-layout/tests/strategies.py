# SPDX-License-Identifier: Apache-2.0
"""Random layouts, and random views of a storage made by NumPy itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import reference
from hypothesis import strategies as st
from spyre_layout import SpyreTensorLayout

DTYPES = ("float16", "float32", "int8", "int64", "bool", "uint8")
EPS = {"float16": 64, "float32": 32, "int8": 128, "int64": 16, "bool": 64, "uint8": 32}


class Case(NamedTuple):
    """A layout and the device offset of each element of its host tensor, by the reference."""

    layout: SpyreTensorLayout
    size: list[int]
    dtype: str
    family: str
    positions: np.ndarray


class View(NamedTuple):
    size: list[int]
    stride: list[int]
    offset: int


def sizes(draw, rank, most=20_000):
    """Sizes with ones, zeros, small numbers and numbers about a stick, of a bounded product."""
    size, numel = [], 1
    for _ in range(rank):
        kind = draw(st.integers(0, 9))
        extent = (
            1 if kind < 2
            else draw(st.sampled_from((16, 31, 32, 33, 63, 64, 65, 96, 100, 128, 150, 192, 256))) if
            kind < 5 else draw(st.integers(2, 7))
        )  # fmt: skip
        if draw(st.integers(0, 60)) == 0:
            extent = 0
        if numel * max(extent, 1) > most:
            extent = 1
        numel *= max(extent, 1)
        size.append(extent)
    return size


@st.composite
def cases(draw, max_rank=8, family=None, whole_sticks=False):
    rank = draw(st.integers(1 if whole_sticks else 0, max_rank))
    size = sizes(draw, rank)
    dtype = draw(st.sampled_from(DTYPES))
    if whole_sticks:
        size[-1] = EPS[dtype] * draw(st.integers(1, 3))
    if family is None:
        family = draw(st.sampled_from(("row_major", "generic", "sparse")))
    if family == "row_major":
        layout = SpyreTensorLayout(size, dtype)
        return Case(layout, size, dtype, family, reference.row_major_positions(size, EPS[dtype]))
    order = draw(st.permutations(range(rank)))
    order = list(order) + [-1] * (family == "sparse")
    strides = [
        int(np.prod([max(n, 1) for n in size[dim + 1 :]], dtype=np.int64)) for dim in range(rank)
    ]
    layout = SpyreTensorLayout(size, strides, dtype, order)
    return Case(layout, size, dtype, family, reference.generic_positions(size, order, EPS[dtype]))


def _slices(draw, array):
    index = []
    for extent in array.shape:
        if extent == 0 or draw(st.booleans()):
            index.append(slice(None))
            continue
        start = draw(st.integers(0, extent - 1))
        stop = draw(st.integers(start, extent))
        step = draw(st.integers(1, 4))
        backwards = draw(st.integers(0, 3)) == 0
        index.append(
            slice(stop - 1, None if start == 0 else start - 1, -step)
            if backwards and stop > 0
            else slice(start, stop, step)
        )
    return array[(*index, ...)]


def _reshaped(draw, array):
    """Flatten neighbouring dimensions or split one, where that needs no copy."""
    shape = list(array.shape)
    if len(shape) > 1 and draw(st.booleans()):
        dim = draw(st.integers(0, len(shape) - 2))
        shape[dim : dim + 2] = [shape[dim] * shape[dim + 1]]
    elif shape:
        dim = draw(st.integers(0, len(shape) - 1))
        factors = [f for f in range(1, 70) if shape[dim] % f == 0]
        factor = draw(st.sampled_from(factors))
        shape[dim : dim + 1] = [shape[dim] // factor, factor]
    result = array.view()
    try:
        result.shape = shape
    except (AttributeError, ValueError):  # that would take a copy
        return array
    return result


def _expanded(draw, array):
    dims = [dim for dim, extent in enumerate(array.shape) if extent == 1]
    shape = list(array.shape)
    for dim in dims:
        if draw(st.booleans()):
            shape[dim] = draw(st.integers(1, 4))
    if draw(st.booleans()):
        shape.insert(0, draw(st.integers(1, 3)))
    return np.broadcast_to(array, shape)


STEPS = {
    "slice": _slices,
    "transpose": lambda draw, a: a.transpose(draw(st.permutations(range(a.ndim)))),
    "reshape": _reshaped,
    "expand": _expanded,
    "unsqueeze": lambda draw, a: np.expand_dims(a, draw(st.integers(0, a.ndim))),
    "select": lambda draw, a: (
        np.moveaxis(a, -1, 0)[draw(st.integers(0, a.shape[-1] - 1)), ...]
        if a.ndim and a.shape[-1]
        else a
    ),
}


def view_of(array: np.ndarray, base: np.ndarray) -> View:
    """Size, strides and offset of a NumPy view, in elements of its base."""
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return View(
        list(array.shape),
        [stride // base.itemsize for stride in array.strides],
        offset // base.itemsize if array.size else 0,
    )


@st.composite
def views(draw, size, steps=tuple(STEPS), most=30_000):
    """A view of a contiguous tensor: (View, the same view of host offsets)."""
    base = np.arange(int(np.prod(size, dtype=np.int64))).reshape(size)
    array = base
    for name in draw(st.lists(st.sampled_from(steps), max_size=4)):
        changed = STEPS[name](draw, array)
        if changed.size <= most and changed.ndim <= 10:
            array = changed
    return view_of(array, base), array
