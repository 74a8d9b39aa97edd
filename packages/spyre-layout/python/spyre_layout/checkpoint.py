# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: what a safetensors file takes on the device, and files of device-format tensors.

Needs the `safetensors` package: `pip install spyre-layout[safetensors]`.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from spyre_layout._arrays import ArrayLike, storage_dtype
from spyre_layout._safetensors import DTYPES, Blob, Stored, distinct, read_header, write
from spyre_layout.codec import encode_from
from spyre_layout.formats import DataFormats, DTypeLike, dtype_name
from spyre_layout.layout import SpyreTensorLayout
from spyre_layout.transfer import to_device

__all__ = ["DeviceTensor", "Entry", "Footprint", "footprint", "load_file", "pack_file", "save_file"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
# Dtypes that floating tensors can be cast to -> the format that has their bits.
_CASTS = {
    "float16": DataFormats.IEEE_FP16,
    "bfloat16": DataFormats.BFLOAT16,
    "float32": DataFormats.IEEE_FP32,
    "float8_e4m3fn": DataFormats.SEN143_FP8,
    "float8_e5m2fnuz": DataFormats.SEN152_FP8,
}
_KEY = "spyre_layout"
_VERSION = 1


# ---- footprints ----------------------------------------------------------------------------------


class Entry(NamedTuple):
    """One tensor of a checkpoint.

    Attributes:
        name: Its name.
        host_size: Its size.
        host_dtype: Its dtype in the file.
        host_nbytes: Its bytes in the file.
        layout: Its layout on the device; None if its dtype has no device format.
        problem: Why it has none, and what to do.
    """

    name: str
    host_size: list[int]
    host_dtype: str
    host_nbytes: int
    layout: SpyreTensorLayout | None
    problem: str | None = None


class Footprint(NamedTuple):
    """What a checkpoint takes on the device."""

    path: str
    entries: tuple[Entry, ...]

    @property
    def device_nbytes(self) -> int:
        """Bytes on the device, of all tensors that have a device format."""
        return sum(entry.layout.device_nbytes for entry in self.entries if entry.layout is not None)

    def by_format(self) -> dict[DataFormats, list[Entry]]:
        """Return the entries of each format, in the order of the formats."""
        groups: dict[DataFormats, list[Entry]] = {}
        for entry in self.entries:
            if entry.layout is not None:
                groups.setdefault(entry.layout.device_dtype, []).append(entry)
        return dict(sorted(groups.items()))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as `spyre-layout footprint --json` prints it."""
        return {
            "path": self.path,
            "tensors": [
                {
                    "name": entry.name,
                    "host_size": entry.host_size,
                    "host_dtype": entry.host_dtype,
                    "host_bytes": entry.host_nbytes,
                    **(_layout_data(entry.layout) if entry.layout else {"problem": entry.problem}),
                }
                for entry in self.entries
            ],
            "formats": {
                fmt.name: {
                    "tensors": len(entries),
                    "device_bytes": sum(e.layout.device_nbytes for e in entries if e.layout),
                }
                for fmt, entries in self.by_format().items()
            },
            "device_bytes": self.device_nbytes,
        }

    def text(self, width: int | None = None) -> str:
        """Return a table for a terminal.

        Args:
            width: Columns of the terminal: in a narrow one each name has a line of its own.
        """
        rows = []
        for entry in self.entries:
            layout = entry.layout
            rows.append(
                (
                    _printable(entry.name),
                    f"{entry.host_size} {entry.host_dtype}",
                    f"{layout.device_size} {layout.device_dtype.name}" if layout else "none",
                    f"{entry.host_nbytes:,}",
                    f"{layout.device_nbytes:,}" if layout else "-",
                    f"{layout.padding_ratio:.1%}" if layout else "-",
                )
            )
        titles = ("tensor", "host", "device", "host bytes", "device bytes", "padding")
        count = len(self.entries)
        title = f"{_printable(self.path)}: {count} tensor{'s' * (count != 1)}"
        table = _table(titles, rows)
        if width is not None and any(len(line) > width for line in table.splitlines()):
            rest = _table(titles[1:], [row[1:] for row in rows]).splitlines()
            names = [titles[0], *(row[0] for row in rows)]
            table = "\n".join(f"{name}\n  {line}" for name, line in zip(names, rest, strict=True))
        parts = [title, "", table, ""]

        totals = []
        for fmt, entries in self.by_format().items():
            totals.append(_total(fmt.name, entries))
        totals.append(_total("total", [entry for entry in self.entries if entry.layout]))
        parts.append(_table(("format", "tensors", "host bytes", "device bytes", "padding"), totals))
        problems = [
            f"{_printable(entry.name)}: {entry.problem}" for entry in self.entries if entry.problem
        ]
        if problems:
            parts += [
                "",
                f"without a device format, and not in the totals ({len(problems)}):",
                *problems,
            ]
        return "\n".join(parts)


def _printable(text: str) -> str:
    """Escape what a terminal would obey instead of showing it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _total(name: str, entries: list[Entry]) -> tuple[str, ...]:
    layouts = [entry.layout for entry in entries if entry.layout]
    device = sum(layout.device_nbytes for layout in layouts)
    numel = sum(layout.device_numel * layout.device_dtype.bits for layout in layouts)
    padding = sum(
        layout.device_numel * layout.device_dtype.bits * layout.padding_ratio for layout in layouts
    )
    host = sum(entry.host_nbytes for entry in entries)
    share = padding / numel if numel else 0.0
    return name, f"{len(entries):,}", f"{host:,}", f"{device:,}", f"{share:.1%}"


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[k]) for row in [titles, *rows]) for k in range(len(titles))]
    numeric = [
        k for k, title in enumerate(titles) if title in ("tensors", "padding") or "bytes" in title
    ]
    lines = []
    for row in [titles, *rows]:
        cells = [
            text.rjust(width) if k in numeric else text.ljust(width)
            for k, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def footprint(path: str | os.PathLike[str], *, dtype: DTypeLike | None = None) -> Footprint:
    """Tell what the tensors of a safetensors file take on the device, in their default layouts.

    Only the file's header is read. A file of device-format tensors (`save_file`) is told as it is.

    Args:
        path: The file.
        dtype: Count float16, bfloat16, float32 and float64 tensors as if cast to this dtype.
    """
    cast = None if dtype is None else dtype_name(dtype)
    if cast is not None and cast not in _CASTS:
        raise ValueError(
            f"cannot cast floating tensors to {cast}; expected one of {', '.join(_CASTS)}"
        )
    stored = read_header(path)
    layouts = _read_layouts(stored, path)
    entries = []
    for name, blob in sorted(stored.tensors.items()):
        if layouts is None:
            entries.append(_entry(name, blob, cast))
            continue
        layout = layouts[name]
        host = layout.host_size if layout.host_size is not None else layout.device_size
        label = layout.host_dtype or layout.device_dtype.name
        entries.append(Entry(name, host, label, blob.end - blob.start, layout))
    return Footprint(os.fspath(path), tuple(entries))


def _entry(name: str, blob: Blob, cast: str | None) -> Entry:
    nbytes = blob.end - blob.start
    own = DTYPES.get(blob.code)
    if own is None:
        problem = f"dtype {blob.code} is not known here; cast the tensor to float16"
        return Entry(name, blob.size, blob.code, nbytes, None, problem)
    wanted = cast if cast is not None and own in _FLOATS else own
    try:
        layout = SpyreTensorLayout(blob.size, wanted)
    except ValueError as error:
        return Entry(name, blob.size, own, nbytes, None, str(error))
    return Entry(name, blob.size, own, nbytes, layout)


# ---- files of device-format tensors --------------------------------------------------------------


class DeviceTensor(NamedTuple):
    """Device bytes and their layout."""

    layout: SpyreTensorLayout
    data: ArrayLike


def save_file(tensors: Mapping[str, DeviceTensor], path: str | os.PathLike[str]) -> None:
    """Write tensors in device format, with their layouts, to a safetensors file.

    The bytes are stored as flat uint8 tensors; the layouts, formats and what is known of the host
    tensors are in the file's metadata, under "spyre_layout".
    """
    layouts = {}
    flat = {}
    for name, (layout, data) in tensors.items():
        flat[name] = _flat_bytes(name, data)
        if flat[name].nbytes != layout.device_nbytes:
            raise ValueError(
                f"tensor {name!r} has {flat[name].nbytes} bytes, "
                f"but {layout!r} takes {layout.device_nbytes}"
            )
        layouts[name] = layout
    _save(layouts, flat.values(), path)


def _save(
    layouts: Mapping[str, SpyreTensorLayout],
    blobs: Iterable[ArrayLike],
    path: str | os.PathLike[str],
) -> None:
    if "__metadata__" in layouts:
        raise ValueError(
            "a tensor is called '__metadata__', which safetensors files keep for themselves; "
            "give it another name"
        )
    told = {name: _layout_data(layout) for name, layout in layouts.items()}
    metadata = {_KEY: json.dumps({"version": _VERSION, "tensors": told})}
    sizes = {name: layout.device_nbytes for name, layout in layouts.items()}
    write(path, sizes, blobs, metadata)


def _flat_bytes(name: str, data: ArrayLike) -> memoryview:
    """Return the bytes of an array; those of a CPU tensor that has no buffer by way of NumPy."""
    if hasattr(data, "__dlpack__") and not hasattr(data, "__array_interface__"):
        import numpy as np

        data = np.from_dlpack(data)
    view = memoryview(data)
    if not view.c_contiguous:
        raise ValueError(f"the data of tensor {name!r} is not contiguous; copy it first")
    # A view with a zero in its shape cannot be cast.
    return view.cast("B") if view.nbytes else memoryview(b"")


def load_file(path: str | os.PathLike[str]) -> dict[str, DeviceTensor]:
    """Read a file that `save_file` wrote.

    Raises:
        ValueError: The file has no layouts, or they do not fit its tensors.
    """
    stored = read_header(path)
    layouts = _read_layouts(stored, path)
    if layouts is None:
        raise ValueError(
            f"{os.fspath(path)!r} holds no device-format tensors; it has no {_KEY!r} metadata"
        )
    import numpy as np

    tensors = {}
    with Path(path).open("rb") as file:
        for name, blob in stored.tensors.items():
            data: Any = np.empty(blob.end - blob.start, np.uint8)
            file.seek(blob.start)
            if file.readinto(data) != data.nbytes:
                raise ValueError(f"{os.fspath(path)!r} ends in the middle of tensor {name!r}")
            tensors[name] = DeviceTensor(layouts[name], data)
    return tensors


def pack_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    dtype: DTypeLike | None = None,
) -> Footprint:
    """Convert a checkpoint of host tensors to one of device-format tensors.

    Each gets its default layout. One tensor at a time is in memory.

    Args:
        source: A safetensors file of host tensors.
        target: The file to write; it may be the source.
        dtype: Cast float16, bfloat16, float32 and float64 tensors to this dtype first.

    Raises:
        ValueError: A tensor's dtype has no device format, or the source is packed already.
    """
    stored = read_header(source)
    if _KEY in stored.metadata:
        raise ValueError(
            f"cannot pack {os.fspath(source)!r}: it holds device-format tensors already"
        )
    told = footprint(source, dtype=dtype)
    layouts = {}
    for entry in told.entries:
        if entry.layout is None:
            raise ValueError(f"cannot pack tensor {entry.name!r}: {entry.problem}")
        layouts[entry.name] = entry.layout
    with Path(source).open("rb") as file, closing(_map(file)) as memory:
        blobs = (
            _pack(memory[stored.tensors[entry.name].start : stored.tensors[entry.name].end], entry)
            for entry in told.entries
        )
        _save(layouts, blobs, target)
    return told


def _map(file: BinaryIO) -> mmap.mmap:
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _pack(data: bytes, entry: Entry) -> Any:
    import numpy as np

    assert entry.layout is not None
    own, wanted = entry.host_dtype, entry.layout.host_dtype
    array = np.frombuffer(data, dtype=storage_dtype(own)).reshape(entry.host_size)
    if wanted != own:  # cast on the host first, so that the result is that of casting the model
        array = encode_from(array, _CASTS[str(wanted)], dtype=own)
    return to_device(array, entry.layout, dtype=wanted)


def _layout_data(layout: SpyreTensorLayout) -> dict[str, Any]:
    data: dict[str, Any] = {
        "device_size": layout.device_size,
        "stride_map": layout.stride_map,
        "device_dtype": layout.device_dtype.name,
        "device_bytes": layout.device_nbytes,
        "padding_ratio": layout.padding_ratio,
    }
    if layout.host_size is not None:
        data |= {
            "host_size": layout.host_size,
            "host_strides": layout.host_strides,
            "host_dtype": layout.host_dtype,
        }
    return data


def _read_layouts(
    stored: Stored, path: str | os.PathLike[str]
) -> dict[str, SpyreTensorLayout] | None:
    """Return the layout of each tensor of a device-format file; None for other files."""
    text = stored.metadata.get(_KEY)
    if text is None:
        return None
    where = f"the {_KEY!r} metadata of {os.fspath(path)!r}"
    try:
        content = json.loads(text, object_pairs_hook=distinct)
        version = content["version"]
        if version != _VERSION:
            raise ValueError(f"its version is {version!r}, this package reads {_VERSION}")
        layouts = {name: _layout_of(data) for name, data in content["tensors"].items()}
    except KeyError as error:
        raise ValueError(f"{where} is malformed: it has no {error}") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{where} is malformed: {error}") from error
    for name in sorted(stored.tensors.keys() ^ layouts.keys()):
        found = "a layout for" if name in layouts else "no layout for"
        there = "no such tensor" if name in layouts else "that tensor"
        raise ValueError(f"{where} has {found} {name!r}, but the file has {there}")
    for name, blob in stored.tensors.items():
        nbytes = blob.end - blob.start
        if nbytes != layouts[name].device_nbytes or blob.code != "U8":
            raise ValueError(
                f"tensor {name!r} of {os.fspath(path)!r} has {nbytes} bytes of {blob.code}, "
                f"but its layout {layouts[name]!r} takes {layouts[name].device_nbytes} of U8"
            )
    return layouts


def _layout_of(data: Mapping[str, Any]) -> SpyreTensorLayout:
    layout = SpyreTensorLayout(data["device_size"], data["stride_map"], data["device_dtype"])
    if "host_size" not in data:
        return layout
    return layout.with_host(data["host_size"], data["host_strides"], data["host_dtype"])
