# SPDX-License-Identifier: Apache-2.0
"""Compares the installed sibling packages with the versions that this one was tested with."""

from __future__ import annotations

from importlib import metadata

from torch_spyre._version import __version__

# (distribution, first version that works, first version that may not); lowest in the stack first.
REQUIRED: tuple[tuple[str, str, str], ...] = (
    ("torch", "2.13", "2.14"),
    ("spyre-layout", "0.1", "0.2"),
    ("spyre-runtime", "0.1", "0.2"),
    ("spyre-inductor", "0.1", "0.2"),
)


def problem() -> str | None:
    """Return one sentence on all the siblings that are missing or do not fit, or None.

    Only distribution metadata is read; nothing is imported.
    """
    found = [(name, _installed(name), floor, ceiling) for name, floor, ceiling in REQUIRED]
    bad = [row for row in found if not _fits(*row[1:])]
    if not bad:
        return None
    details = ", ".join(
        f"{name} {version or 'is not installed'} (needs >={floor},<{ceiling})"
        for name, version, floor, ceiling in bad
    )
    wanted = " ".join(f'"{name}>={floor},<{ceiling}"' for name, _, floor, ceiling in bad)
    return (
        f"torch-spyre {__version__} cannot use the packages installed beside it: {details}; "
        f"install versions that fit with: pip install {wanted}"
    )


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _fits(version: str | None, floor: str, ceiling: str) -> bool:
    if version is None:
        return False
    release = _release(version)
    return _release(floor) <= release < _release(ceiling)


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: "2.13.0+cpu" and "2.13.0rc1" give (2, 13, 0)."""
    numbers: list[int] = []
    for part in version.split("+", maxsplit=1)[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if digits:
            numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
