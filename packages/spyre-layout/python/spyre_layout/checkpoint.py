# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: what a safetensors file takes on the device, and files of device-format tensors.

Needs the `safetensors` package: `pip install spyre-layout[safetensors]`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spyre_layout import _core
from spyre_layout._arrays import ArrayLike, storage_dtype
from spyre_layout.codec import encode_from
from spyre_layout.formats import DataFormats, DTypeLike, dtype_name
from spyre_layout.layout import SpyreTensorLayout
from spyre_layout.transfer import to_device

__all__ = ["DeviceTensor", "Entry", "Footprint", "footprint", "load_file", "pack_file", "save_file"]

_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "I32": "int32",
    "U32": "uint32",
    "I64": "int64",
    "U64": "uint64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "C64": "complex64",
}
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


def _safetensors() -> Any:
    try:
        import safetensors
    except ImportError as error:
        raise ImportError(
            "reading and writing checkpoints needs the safetensors package; "
            "run: pip install spyre-layout[safetensors]"
        ) from error
    return safetensors


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

    def text(self) -> str:
        """Return a table for a terminal."""
        rows = []
        for entry in self.entries:
            layout = entry.layout
            rows.append(
                (
                    entry.name,
                    f"{entry.host_size} {entry.host_dtype}",
                    f"{layout.device_size} {layout.device_dtype.name}" if layout else "none",
                    f"{entry.host_nbytes:,}",
                    f"{layout.device_nbytes:,}" if layout else "-",
                    f"{layout.padding_ratio:.1%}" if layout else "-",
                )
            )
        titles = ("tensor", "host", "device", "host bytes", "device bytes", "padding")
        parts = [f"{self.path}: {len(self.entries)} tensors", "", _table(titles, rows), ""]

        totals = []
        for fmt, entries in self.by_format().items():
            totals.append(_total(fmt.name, entries))
        totals.append(_total("total", [entry for entry in self.entries if entry.layout]))
        parts.append(_table(("format", "tensors", "host bytes", "device bytes", "padding"), totals))
        problems = [f"{entry.name}: {entry.problem}" for entry in self.entries if entry.problem]
        if problems:
            parts += [
                "",
                f"without a device format, and not in the totals ({len(problems)}):",
                *problems,
            ]
        return "\n".join(parts)


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
    entries = []
    with _open(path) as file:
        kept = _read_layouts(file.metadata(), path)
        for name in sorted(file.keys()):
            part = file.get_slice(name)
            size = [int(extent) for extent in part.get_shape()]
            code = part.get_dtype()
            if name in kept:
                layout = kept[name]
                host = layout.host_size if layout.host_size is not None else layout.device_size
                label = layout.host_dtype or layout.device_dtype.name
                entries.append(Entry(name, host, label, size[0], layout))
            else:
                entries.append(_entry(name, size, code, cast))
    return Footprint(os.fspath(path), tuple(entries))


def _entry(name: str, size: list[int], code: str, cast: str | None) -> Entry:
    own = _DTYPES.get(code)
    if own is None:
        return Entry(name, size, code, 0, None, f"dtype {code} is not known here; cast the tensor")
    numel = 1
    for extent in size:
        numel *= extent
    nbytes = numel * _core.itemsize(own)
    wanted = cast if cast is not None and own in _FLOATS else own
    try:
        layout = SpyreTensorLayout(size, wanted)
    except ValueError as error:
        return Entry(name, size, own, nbytes, None, str(error))
    return Entry(name, size, own, nbytes, layout)


def _open(path: str | os.PathLike[str]) -> Any:
    safetensors = _safetensors()
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r}")
    try:
        return safetensors.safe_open(os.fspath(path), framework="numpy")
    except safetensors.SafetensorError as error:
        raise ValueError(f"{os.fspath(path)!r} is not a safetensors file: {error}") from error


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
    _safetensors()  # a clear error where it is missing
    import numpy as np
    from safetensors.numpy import save_file as save_arrays

    blobs = {}
    layouts = {}
    for name, (layout, data) in tensors.items():
        flat = memoryview(data).cast("B")
        if len(flat) != layout.device_nbytes:
            raise ValueError(
                f"tensor {name!r} has {len(flat)} bytes, "
                f"but {layout!r} takes {layout.device_nbytes}"
            )
        blobs[name] = np.frombuffer(flat, dtype=np.uint8)
        layouts[name] = _layout_data(layout)
    metadata = {_KEY: json.dumps({"version": _VERSION, "tensors": layouts})}
    save_arrays(blobs, os.fspath(path), metadata)


def load_file(path: str | os.PathLike[str]) -> dict[str, DeviceTensor]:
    """Read a file that `save_file` wrote.

    Raises:
        ValueError: The file has no layouts, or they do not fit its tensors.
    """
    tensors = {}
    with _open(path) as file:
        layouts = _read_layouts(file.metadata(), path)
        if not layouts and list(file.keys()):
            raise ValueError(
                f"{os.fspath(path)!r} holds no device-format tensors; it has no {_KEY!r} metadata"
            )
        for name in file.keys():  # noqa: SIM118 - a safetensors file is no mapping
            if name not in layouts:
                raise ValueError(f"{os.fspath(path)!r} holds no layout for its tensor {name!r}")
            data = file.get_tensor(name)
            layout = layouts[name]
            if data.nbytes != layout.device_nbytes:
                raise ValueError(
                    f"tensor {name!r} of {os.fspath(path)!r} has {data.nbytes} bytes, "
                    f"but its layout {layout!r} takes {layout.device_nbytes}"
                )
            tensors[name] = DeviceTensor(layout, data)
    return tensors


def pack_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    dtype: DTypeLike | None = None,
) -> Footprint:
    """Convert a checkpoint of host tensors to one of device-format tensors.

    Each gets its default layout.

    Args:
        source: A safetensors file of host tensors.
        target: The file to write.
        dtype: Cast float16, bfloat16, float32 and float64 tensors to this dtype first.

    Raises:
        ValueError: A tensor's dtype has no device format.
    """
    safetensors = _safetensors()
    with _open(source):  # a clear error for what is no such file
        pass
    told = footprint(source, dtype=dtype)
    layouts = {entry.name: entry for entry in told.entries}
    tensors = {}
    for name, blob in safetensors.deserialize(Path(source).read_bytes()):
        entry = layouts[name]
        if entry.layout is None:
            raise ValueError(f"cannot pack tensor {name!r}: {entry.problem}")
        tensors[name] = DeviceTensor(entry.layout, _pack(blob["data"], entry))
    save_file(tensors, target)
    return told


def _pack(data: ArrayLike, entry: Entry) -> Any:
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
    metadata: Mapping[str, str] | None, path: str | os.PathLike[str]
) -> dict[str, SpyreTensorLayout]:
    text = (metadata or {}).get(_KEY)
    if text is None:
        return {}
    where = f"the {_KEY!r} metadata of {os.fspath(path)!r}"
    try:
        content = json.loads(text)
        version = content["version"]
        if version != _VERSION:
            raise ValueError(f"its version is {version!r}, this package reads {_VERSION}")
        layouts = {}
        for name, data in content["tensors"].items():
            layout = SpyreTensorLayout(
                data["device_size"], data["stride_map"], data["device_dtype"]
            )
            if "host_size" in data:
                layout = layout.with_host(
                    data["host_size"], data["host_strides"], data["host_dtype"]
                )
            layouts[name] = layout
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{where} is malformed: {error}") from error
    return layouts
