# SPDX-License-Identifier: Apache-2.0
"""The container of checkpoints: reads the header of a safetensors file, and writes files of bytes.

What the tensors are on the device is the business of `spyre_layout.checkpoint`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spyre_layout._arrays import ArrayLike

# Codes of a file's header -> names of dtypes.
DTYPES = {
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
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "C64": "complex64",
}


class Blob(NamedTuple):
    """A tensor of a file: its dtype's code, its size, and where in the file it lies."""

    code: str
    size: list[int]
    start: int
    end: int


class Stored(NamedTuple):
    """What the header of a file tells."""

    metadata: dict[str, str]
    tensors: dict[str, Blob]


def read_header(path: str | os.PathLike[str]) -> Stored:
    """Return what a file's header tells, once the file is known to be whole.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not a safetensors file.
    """
    safetensors = _package()
    if not Path(path).is_file():
        found = "a directory" if Path(path).is_dir() else "nothing"
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r}: found {found}")
    try:
        with safetensors.safe_open(os.fspath(path), framework="numpy"):
            pass  # checks the file: shapes, dtypes and offsets agree and cover it
    except safetensors.SafetensorError as error:
        raise ValueError(f"{os.fspath(path)!r} is not a safetensors file: {error}") from error
    with Path(path).open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(length)
    try:
        content = json.loads(header, object_pairs_hook=distinct)
    except ValueError as error:
        raise ValueError(f"the header of {os.fspath(path)!r} is malformed: {error}") from error
    metadata = content.pop("__metadata__", None) or {}
    tensors = {}
    for name, told in content.items():
        start, end = told["data_offsets"]
        base = 8 + length
        tensors[name] = Blob(told["dtype"], told["shape"], base + start, base + end)
    return Stored(metadata, tensors)


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dictionary of the pairs of a JSON object, which may not name one thing twice."""
    content = dict(pairs)
    if len(content) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} stands there twice")
    return content


def write(
    path: str | os.PathLike[str],
    sizes: Mapping[str, int],
    blobs: Iterable[ArrayLike],
    metadata: Mapping[str, str],
) -> None:
    """Write a file of byte tensors, one at a time; the path never holds a part of it."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    start = 0
    for name, nbytes in sizes.items():
        header[name] = {"dtype": "U8", "shape": [nbytes], "data_offsets": [start, start + nbytes]}
        start += nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    target = Path(os.path.realpath(path))
    in_place = target.exists() and not target.is_file()  # a pipe, /dev/null
    written = target if in_place else target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with written.open("wb") as file:
            file.write(len(text).to_bytes(8, "little"))
            file.write(text)
            for blob in blobs:
                file.write(blob)
        if not in_place:
            written.replace(target)
    except BaseException:
        if not in_place:
            written.unlink(missing_ok=True)
        raise


def _package() -> Any:
    try:
        import safetensors
    except ImportError as error:
        raise ImportError(
            "reading and writing checkpoints needs the safetensors package; "
            "run: pip install spyre-layout[safetensors]"
        ) from error
    return safetensors
