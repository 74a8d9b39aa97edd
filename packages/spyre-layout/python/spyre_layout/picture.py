# SPDX-License-Identifier: Apache-2.0
"""Pictures of layouts: how a tensor lies in sticks, as text and as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from spyre_layout.layout import SpyreTensorLayout

__all__ = ["Stick", "describe_dimensions", "stick_at", "to_svg", "to_text"]


class Stick(NamedTuple):
    """One stick of device memory.

    Attributes:
        number: Place of the stick in device memory.
        lanes: For each element of the stick its host offset, or None for padding.
    """

    number: int
    lanes: tuple[int | None, ...]

    @property
    def address(self) -> int:
        """Offset of the stick in bytes."""
        return self.number * 128

    @property
    def filled(self) -> int:
        """How many elements are not padding."""
        return sum(lane is not None for lane in self.lanes)


class DimensionRole(NamedTuple):
    """What one device dimension stands for."""

    size: int
    host_stride: int
    text: str


def stick_at(layout: SpyreTensorLayout, number: int) -> Stick:
    """Return a stick of device memory by its number."""
    if not 0 <= number < layout.num_sticks:
        raise IndexError(
            f"stick {number} does not lie in the {layout.num_sticks} sticks of {layout!r}"
        )
    eps = layout.elems_per_stick()
    return Stick(number, tuple(layout.host_offset(number * eps + lane) for lane in range(eps)))


def describe_dimensions(layout: SpyreTensorLayout) -> list[DimensionRole]:
    """Say in words what each device dimension stands for."""
    roles = []
    last = len(layout.device_size) - 1
    for k, (size, stride) in enumerate(zip(layout.device_size, layout.stride_map, strict=True)):
        found = _host_dimension(layout, k)
        if stride < 0:
            text = "a stick of one element" if k == last else "no host dimension"
        elif found is None:
            text = f"steps of {stride} in host memory"
        else:
            dim, step = found
            along = f"dimension {dim}" if step == 1 else f"sticks along dimension {dim}"
            text = f"elements of a stick, along dimension {dim}" if k == last else along
            if step > 1 and layout.host_size is not None:
                missing = size * step - layout.host_size[dim]
                text += f": {layout.host_size[dim]} in {size} x {step}" + (
                    f", the last {missing} padding" if missing else ""
                )
        roles.append(DimensionRole(size, stride, text))
    return roles


def _host_dimension(layout: SpyreTensorLayout, k: int) -> tuple[int, int] | None:
    """Find the host dimension that device dimension k walks along, and by how many elements.

    Several may have a fitting stride: one that k covers comes first, then one of small steps.
    """
    stride = layout.stride_map[k]
    if layout.host_size is None or layout.host_strides is None or stride < 0:
        return None
    covers_all = k == len(layout.device_size) - 1  # a stick is a part by nature
    found = []
    for dim, (size, own) in enumerate(zip(layout.host_size, layout.host_strides, strict=True)):
        step, rest = divmod(stride, max(own, 1))
        if size != 1 and rest == 0 and step < max(size, layout.elems_per_stick() + 1):
            covers = covers_all or layout.device_size[k] * step >= size
            found.append((not covers, step, dim))
    if not found:
        return None
    _, step, dim = min(found)
    return dim, step


def _index_text(layout: SpyreTensorLayout, stick: Stick) -> str:
    """Name the host elements of a stick: "[0, 3, 64:128]"."""
    offsets = [lane for lane in stick.lanes if lane is not None]
    if not offsets:
        return "padding"
    if layout.host_size is None:
        step = offsets[1] - offsets[0] if len(offsets) > 1 else 1
        end = "" if step == 1 else f" by {step}"
        return f"offset {offsets[0]}" + (f" to {offsets[-1]}{end}" if len(offsets) > 1 else "")
    eps = layout.elems_per_stick()
    lanes = [k for k, lane in enumerate(stick.lanes) if lane is not None]
    first = layout.host_index(stick.number * eps + lanes[0])
    last = layout.host_index(stick.number * eps + lanes[-1])
    if first is None or last is None:
        return "padding"
    return (
        "["
        + ", ".join(str(a) if a == b else f"{a}:{b + 1}" for a, b in zip(first, last, strict=True))
        + "]"
    )


def _shown(total: int, most: int) -> Iterator[int | None]:
    """Yield the first numbers and the last one, with a None where some are left out."""
    if total <= most:
        yield from range(total)
        return
    yield from range(most - 1)
    yield None
    yield total - 1


def _summary(layout: SpyreTensorLayout) -> list[tuple[str, str]]:
    lines = []
    if layout.host_size is not None:
        lines.append(
            ("host", f"{layout.host_size} {layout.host_dtype}, strides {layout.host_strides}")
        )
    sticks = (
        f"{layout.num_sticks:,} stick{'s' * (layout.num_sticks != 1)} of {layout.elems_per_stick()}"
    )
    lines.append(
        (
            "device",
            f"{layout.device_size} {layout.device_dtype.name}, stride map {layout.stride_map}",
        )
    )
    padding = f", {layout.padding_ratio:.1%} padding"
    lines.append(("memory", f"{sticks} elements, {layout.device_nbytes:,} bytes{padding}"))
    return lines


# ---- text ----------------------------------------------------------------------------------------

_PALETTE = (39, 208, 71, 170, 220, 45, 203, 149)
_BARS = (8, 32)  # columns: at least, at most


class _Marks(NamedTuple):
    """What bars are drawn with."""

    element: str
    padding: str


_BLOCKS = _Marks("█", "░")
_ASCII = _Marks("#", ".")


def to_text(
    layout: SpyreTensorLayout,
    *,
    sticks: int = 16,
    at: Sequence[int] | None = None,
    color: bool = False,
    ascii_only: bool = False,
    width: int | None = None,
) -> str:
    """Draw a layout as text.

    Args:
        layout: The layout.
        sticks: How many sticks to draw at most.
        at: Index of a host element (or its offset, where the host is unknown) whose address to
            tell.
        color: Use ANSI colours.
        ascii_only: Draw with characters that every terminal has.
        width: Columns of the terminal, to wrap lines and shorten bars; None for no limit.
    """
    marks = _ASCII if ascii_only else _BLOCKS

    def paint(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if color and text else text

    def wrap(text: str, indent: int) -> str:
        # Imported here: only narrow terminals need it.
        from textwrap import fill

        room = max(width - indent, 24) if width is not None else len(text) + 1
        return fill(text, room, break_long_words=False).replace("\n", "\n" + " " * indent)

    lines = [paint(f"{key:8}", "1") + wrap(value, 8) for key, value in _summary(layout)]
    roles = describe_dimensions(layout)
    lines += ["", paint(f"{'device dim':>10}  {'size':>8}  {'host stride':>11}  stands for", "1")]
    lines += [
        f"{k:>10}  {role.size:>8}  {role.host_stride:>11}  {wrap(role.text, 35)}"
        for k, role in enumerate(roles)
    ]
    if at is not None:
        lines += ["", wrap(_address_text(layout, at), 0)]
    if layout.num_sticks == 0:
        return "\n".join([*lines, "", "no sticks: the tensor is empty"])

    shown = list(_shown(layout.num_sticks, sticks))
    drawn = {number: stick_at(layout, number) for number in shown if number is not None}
    texts = {number: _index_text(layout, stick) for number, stick in drawn.items()}
    number_width = max(5, *(len(str(number)) for number in drawn))
    address_width = max(7, *(len(f"{stick.address:#x}") for stick in drawn.values()))
    bar_width = _BARS[1]
    if width is not None:
        others = number_width + address_width + 6 + max(len(text) for text in texts.values())
        bar_width = min(max(width - others, _BARS[0]), _BARS[1])

    key = f"{marks.element} elements  {marks.padding} padding"
    title = f"{'stick':>{number_width}}  {'address':>{address_width}}  "
    if bar_width < len(key):
        lines += ["", key]
        key = ""
    else:
        lines.append("")
    lines.append(paint(title + f"{key:<{bar_width}}  host elements", "1"))
    for number in shown:
        if number is None:
            lines.append(f"{'...':>{number_width}}")
            continue
        stick = drawn[number]
        full = round(stick.filled / len(stick.lanes) * bar_width)
        full = max(full, 1) if stick.filled else 0
        hue = _PALETTE[_tile_of(layout, stick) % len(_PALETTE)]
        bar = paint(marks.element * full, f"38;5;{hue}")
        bar += paint(marks.padding * (bar_width - full), "2")
        address = f"{stick.address:#x}"
        lines.append(
            f"{number:>{number_width}}  {address:>{address_width}}  {bar}  {texts[number]}"
        )
    return "\n".join(lines)


def _address_text(layout: SpyreTensorLayout, at: Sequence[int]) -> str:
    if layout.host_size is None and len(at) != 1:
        raise ValueError(
            "the layout does not know its host tensor; give the host offset of the element"
        )
    where: int | Sequence[int] = at[0] if layout.host_size is None else at
    offset = layout.device_offset(where)
    bit = offset * layout.device_dtype.bits
    sub = f", bit {bit % 8}" if layout.device_dtype.bits < 8 else ""
    eps = layout.elems_per_stick()
    return (
        f"element {list(at)} lies at device coordinates {layout.device_coordinates(where)}: "
        f"byte {bit // 8:#x}{sub}, stick {offset // eps}, element {offset % eps} of it"
    )


def _tile_of(layout: SpyreTensorLayout, stick: Stick) -> int:
    """Number of the stick among those along its own host dimension: what its colour shows."""
    lane_stride = layout.stride_map[-1]
    rest = stick.number
    for size, stride in reversed(
        list(zip(layout.device_size[:-1], layout.stride_map[:-1], strict=True))
    ):
        rest, coordinate = divmod(rest, size)
        if lane_stride > 0 and stride == lane_stride * layout.elems_per_stick():
            return coordinate
    return 0


# ---- SVG -----------------------------------------------------------------------------------------

_COLORS = ("#4c8bf5", "#f2994a", "#5bb974", "#b46ac6", "#e8c33d", "#35b1c4", "#e4685d", "#8f9f3a")
_STYLE = (
    "text{font-family:Helvetica,Arial,sans-serif;font-size:12px;fill:#24292f}"
    ".title{font-size:15px;font-weight:600}.small{font-size:10.5px;fill:#57606a}"
    ".mono{font-family:Menlo,Consolas,monospace;font-size:10.5px}"
    ".cell{stroke:#fff;stroke-width:1}.edge{fill:none;stroke:#24292f;stroke-width:1.2}"
)
_HATCH = (
    '<pattern id="padding" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#f3f4f6"/>'
    '<rect width="2" height="6" fill="#c9ced6"/></pattern>'
)


# Estimated width of a character of each style of text.
_CHARACTER = {"": 6.7, "title": 8.6, "small": 5.9, "mono": 6.5}


class _Canvas:
    """The elements of a drawing, and how far right they reach."""

    def __init__(self) -> None:
        self.elements: list[str] = []
        self.right = 0.0

    def text(self, x: float, y: float, text: str, style: str = "") -> None:
        attribute = f' class="{style}"' if style else ""
        self.elements.append(f'<text x="{x:.1f}" y="{y:.1f}"{attribute}>{_escape(text)}</text>')
        self.right = max(self.right, x + len(text) * _CHARACTER[style])

    def bar(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.elements.append(f'<rect {box} fill="{fill}" class="cell"/>')

    def filled(
        self, x: float, y: float, width: float, height: float, share: float, color: str
    ) -> None:
        """Draw a bar of which a share holds elements and the rest is padding."""
        part = max(width * share, 2) if share else 0
        if part:
            self.bar(x, y, part, height, color)
        if part < width:
            self.bar(x + part, y, width - part, height, "url(#padding)")

    def outline(self, x: float, y: float, width: float, height: float) -> None:
        box = f'x="{x}" y="{y}" width="{width}" height="{height}"'
        self.elements.append(f'<rect {box} class="edge"/>')
        self.right = max(self.right, x + width)


def to_svg(layout: SpyreTensorLayout, *, sticks: int = 20) -> str:
    """Draw a layout as SVG: the host tensor cut into sticks, and device memory beside it.

    Args:
        layout: The layout.
        sticks: How many sticks of device memory to draw at most.
    """
    canvas = _Canvas()
    top = 24
    heading = f"{layout.device_size} {layout.device_dtype.name}"
    if layout.host_size is not None:
        heading = f"{layout.host_size} {layout.host_dtype} in sticks of {layout.device_dtype.name}"
    canvas.text(20, top, heading, "title")
    for key, value in _summary(layout):
        top += 19
        canvas.text(20, top, f"{key}: {value}")
    top += 26

    left_height = _host_panel(layout, canvas, 20, top)
    beside = max(400, round(30 + _CHARACTER["title"] * len(_host_title(layout))))
    right_height = _device_panel(layout, canvas, beside, top, sticks)
    height = top + max(left_height, right_height)
    canvas.bar(20, height + 8, 14, 12, "url(#padding)")
    canvas.text(40, height + 18, "padding: unspecified contents", "small")
    height += 34
    width = max(880, round(canvas.right) + 20)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img"><title>{_escape(repr(layout))}</title>'
        f"<style>{_STYLE}</style><defs>{_HATCH}</defs>"
        f'<rect width="{width}" height="{height}" fill="#fff"/>{"".join(canvas.elements)}</svg>\n'
    )


class _Plane(NamedTuple):
    """The plane of the host tensor that the sticks lie in.

    Attributes:
        across: The dimension drawn across: that of the sticks, or the last one.
        down: The dimension drawn down, if there is one.
        columns: Size of the first.
        rows: Size of the second.
        planes: How many of them the tensor has.
        tile: Elements of a tile: a stick's, or one where each stick holds one.
    """

    across: int
    down: int | None
    columns: int
    rows: int
    planes: int
    tile: int

    def label(self, number: int) -> str:
        """Name the columns of a tile."""
        start = number * self.tile
        end = min(self.columns, start + self.tile)
        return str(start) if end == start + 1 else f"{start}:{end}"


def _host_title(layout: SpyreTensorLayout) -> str:
    return "host tensor unknown" if layout.host_size is None else f"host tensor {layout.host_size}"


def _plane_of(layout: SpyreTensorLayout, size: list[int]) -> _Plane:
    lane = _host_dimension(layout, len(layout.device_size) - 1)
    across = lane[0] if lane else len(size) - 1
    others = [dim for dim in range(len(size)) if dim != across]
    down = others.pop() if others else None
    return _Plane(
        across,
        down,
        columns=size[across],
        rows=size[down] if down is not None else 1,
        planes=prod(size[dim] for dim in others),
        tile=layout.elems_per_stick() if lane else 1,
    )


def _host_panel(layout: SpyreTensorLayout, canvas: _Canvas, x: int, y: int) -> int:
    """Draw the plane of the host tensor that the sticks lie in; returns the height taken."""
    size = layout.host_size
    canvas.text(x, y, _host_title(layout), "title")
    if not size or layout.num_sticks == 0:
        return 20
    plane = _plane_of(layout, size)
    note = f"dimension {plane.across} across"
    note += f", {plane.down} down" if plane.down is not None else ""
    note += f"; one of {plane.planes} planes" if plane.planes > 1 else ""
    canvas.text(x, y + 17, note, "small")

    width, height, top = 330, max(40, min(220, plane.rows * 14)), y + 30
    tiles = -(-plane.columns // plane.tile)
    label_width = len(plane.label(tiles - 1)) * _CHARACTER["small"] + 8
    shown = list(_shown(tiles, max(3, min(10, int(width // label_width) - 1))))
    cell = width / len(shown)
    for place, number in enumerate(shown):
        left = x + place * cell
        if number is None:
            canvas.text(left + cell / 2 - 4, top + height / 2 + 4, "⋯")
            continue
        share = min(1.0, (plane.columns - number * plane.tile) / plane.tile)
        color = _COLORS[number % len(_COLORS)] if plane.tile > 1 else _COLORS[0]
        canvas.filled(left, top, cell, height, share, color)
        canvas.text(left + 3, top + height + 13, plane.label(number), "small")
    canvas.outline(x, top, width, height)
    rows = f"{plane.rows} row{'s' * (plane.rows != 1)}"
    canvas.text(x, top + height + 32, f"{rows} of {plane.columns} elements", "small")
    return height + 72


def _device_panel(layout: SpyreTensorLayout, canvas: _Canvas, x: int, y: int, sticks: int) -> int:
    """Draw device memory as a column of sticks; returns the height taken."""
    canvas.text(x, y, f"device memory {layout.device_size}", "title")
    if layout.num_sticks == 0:
        canvas.text(x, y + 20, "no sticks: the tensor is empty", "small")
        return 30
    canvas.text(x, y + 17, "one stick of 128 bytes a row, in order of addresses", "small")
    top = y + 30
    width = 256
    left = x + 70
    for number in _shown(layout.num_sticks, sticks):
        if number is None:
            canvas.text(left + width / 2, top + 11, "⋮")
        else:
            stick = stick_at(layout, number)
            color = _COLORS[_tile_of(layout, stick) % len(_COLORS)]
            canvas.text(x, top + 11, f"{stick.address:#07x}", "mono")
            canvas.filled(left, top, width, 14, stick.filled / len(stick.lanes), color)
            canvas.outline(left, top, width, 14)
            canvas.text(left + width + 10, top + 11, _index_text(layout, stick), "mono")
        top += 18
    return top - y + 6


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
