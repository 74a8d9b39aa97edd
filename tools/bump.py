# SPDX-License-Identifier: Apache-2.0
"""Sets the version of one package, in the one place that holds it."""

from __future__ import annotations

import re
import sys

from check_versions import ROOT, SOURCES, version_of


def bump(package: str, version: str) -> str:
    """Write the version and return the former one."""
    if package not in SOURCES:
        raise ValueError(f"unknown package {package!r}; expected one of {', '.join(SOURCES)}")
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        raise ValueError(f"version {version!r} is not of the form 1.2.3 or 1.2.3rc1")
    former = version_of(package)
    relative, pattern = SOURCES[package]
    path = ROOT / relative
    text = path.read_text()
    match = re.search(pattern, text)
    assert match is not None  # version_of has found it
    path.write_text(text[: match.start(1)] + version + text[match.end(1) :])
    return former


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: bump.py PACKAGE VERSION, with PACKAGE one of {', '.join(SOURCES)}")
    try:
        print(f"{sys.argv[1]} {bump(*sys.argv[1:])} -> {sys.argv[2]}")
    except ValueError as error:
        sys.exit(str(error))
