# SPDX-License-Identifier: Apache-2.0
"""Looks whether the siblings' native libraries are whole, before the dynamic loader maps them.

The loader trusts a library's own table of segments. Where the file ends before a segment does, as
after a download or a copy that was cut short, touching the rest ends the process with SIGBUS.
"""

from __future__ import annotations

import os
import struct
from importlib.util import find_spec
from pathlib import Path

# Distribution -> the package whose folder holds its libraries.
NATIVE = {"spyre-layout": "spyre_layout", "spyre-runtime": "spyre_runtime"}

_HEADER_BYTES = 64
_ELF_64_LITTLE = b"\x7fELF\x02\x01"
_LOADED = 1  # the type of a segment that is mapped


def problem() -> str | None:
    """Return one sentence on the libraries that are cut short, or None. Nothing is imported."""
    cut = {name: paths for name, package in NATIVE.items() if (paths := _cut_short(package))}
    if not cut:
        return None
    files = ", ".join(str(path) for paths in cut.values() for path in paths)
    return (
        f"torch-spyre cannot load libraries that end before their contents do: {files}; "
        f"install them again with: pip install --force-reinstall --no-deps {' '.join(cut)}"
    )


def _cut_short(package: str) -> list[Path]:
    spec = find_spec(package)  # finds a top-level package without importing it
    folders = spec.submodule_search_locations if spec is not None else None
    libraries = [path for folder in folders or () for path in sorted(Path(folder).glob("*.so"))]
    return [path for path in libraries if path.is_file() and not is_whole(path)]


def is_whole(path: Path) -> bool:
    """Return whether all segments of a library lie inside its file.

    What is no library of a 64-bit little-endian machine is left to the loader, which says so.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        header = file.read(_HEADER_BYTES)
        if not header.startswith(_ELF_64_LITTLE):
            return True
        if len(header) < _HEADER_BYTES:
            return False
        (table,) = struct.unpack_from("<Q", header, 32)
        entry_bytes, entries = struct.unpack_from("<HH", header, 54)
        file.seek(min(table, size))
        segments = file.read(entry_bytes * entries)
    if len(segments) < entry_bytes * entries or entry_bytes < struct.calcsize("<IIQQQQ"):
        return False
    for at in range(0, len(segments), entry_bytes):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", segments, at)
        if kind == _LOADED and offset + length > size:
            return False
    return True
