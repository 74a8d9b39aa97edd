# SPDX-License-Identifier: Apache-2.0
"""Layout propagation: every buffer gets the tiled layout that device memory holds it in.

Before: buffers have host sizes and strides. After: `Buffer.layout` is the layout of a tensor
allocated with them, where the sizes are numbers. For what lives inside the program that is how it
will lie. An argument brings its own layout to each launch, which nothing here depends on: passes
take sizes in device memory from it to divide work and to plan, never addresses.
"""

from __future__ import annotations

from spyre_layout import SpyreTensorLayout

from spyre_inductor.ir.program import Buffer, Program
from spyre_inductor.ops.table import STORAGE_DTYPES

STICK_BYTES = 128


def propagate_layouts(program: Program) -> None:
    """Gives a layout to each buffer that is used and has none."""
    for name in program.used():
        buffer = program.buffers[name]
        if buffer.layout is None:
            buffer.layout = layout_of(buffer)


def layout_of(buffer: Buffer) -> SpyreTensorLayout | None:
    """The layout of a buffer, or None if a size is symbolic or its dtype has no device format."""
    if buffer.dtype not in STORAGE_DTYPES:
        return None
    sizes: list[tuple[int, int]] = []
    for size, stride in zip(buffer.size, buffer.stride, strict=True):
        if not isinstance(size, int) or not isinstance(stride, int):
            return None
        sizes.append((stride, size))
    ordered = sorted((each for each in sizes if each[1] != 1), reverse=True)
    step = 1
    for stride, size in reversed(ordered):
        if stride != step:  # a part of something else: as a row of all that it spans
            span = 1 + sum(st * (n - 1) for st, n in sizes if n > 0)
            return SpyreTensorLayout([span], STORAGE_DTYPES[buffer.dtype])
        step *= size
    return SpyreTensorLayout([size for _, size in ordered], STORAGE_DTYPES[buffer.dtype])


def element_bytes(buffer: Buffer) -> int:
    """Bytes of one element in device memory: bool takes two, uint8 four."""
    layout = buffer.layout
    if layout is None:
        if buffer.dtype not in STORAGE_DTYPES:
            return buffer.dtype.itemsize  # printing refuses the program, and says why
        layout = SpyreTensorLayout([1], STORAGE_DTYPES[buffer.dtype])
    return STICK_BYTES // layout.elems_per_stick()
