# SPDX-License-Identifier: Apache-2.0
"""Checks that versions and the ranges between sibling packages agree; checks a release tag.

Without arguments: every package's version lies in every range that a sibling states for it, and the
metapackage's import-time check has the ranges of its pyproject.toml. With a tag such as
spyre-runtime-v1.2.0: the tag's version is the package's and its changelog has a heading for it.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Package -> the file that holds its version, and a pattern whose first group is the version.
SOURCES = {
    "spyre-layout": (
        "packages/spyre-layout/include/spyre/layout/version.h",
        r'SPYRE_LAYOUT_VERSION "([^"]+)"',
    ),
    "spyre-runtime": (
        "packages/spyre-runtime/include/spyre/runtime/version.h",
        r'SPYRE_RUNTIME_VERSION "([^"]+)"',
    ),
    "spyre-inductor": (
        "packages/spyre-inductor/src/spyre_inductor/_version.py",
        r'__version__ = "([^"]+)"',
    ),
    "torch-spyre": (
        "packages/torch-spyre/src/torch_spyre/_version.py",
        r'__version__ = "([^"]+)"',
    ),
}
RANGE = re.compile(r"([a-z-]+)>=([\d.]+),<([\d.]+)")


def version_of(package: str) -> str:
    """Return a package's version from its source."""
    relative, pattern = SOURCES[package]
    match = re.search(pattern, (ROOT / relative).read_text())
    if match is None:
        raise ValueError(f"no version found in {relative}; expected text like {pattern}")
    return match[1]


def range_problems() -> list[str]:
    """Return a sentence for each range between siblings that does not fit."""
    problems = []
    versions = {package: version_of(package) for package in SOURCES}
    for package in SOURCES:
        for name, floor, ceiling in _ranges(package):
            version = versions.get(name)
            if version and not _numbers(floor) <= _numbers(version) < _numbers(ceiling):
                problems.append(f"{package} needs {name}>={floor},<{ceiling} but it is {version}")
    stated = {row for row in _ranges("torch-spyre") if row[0] in SOURCES}
    checked = {row for row in _import_time_ranges() if row[0] in SOURCES}
    if stated != checked:
        problems.append(
            f"torch-spyre's pyproject.toml states {sorted(stated)} but _siblings.py checks "
            f"{sorted(checked)}; make them the same"
        )
    return problems


def tag_problems(tag: str) -> list[str]:
    """Return what speaks against releasing under this tag."""
    match = re.fullmatch(r"([a-z-]+)-v(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)", tag)
    if match is None or match[1] not in SOURCES:
        return [f"tag {tag!r} is not PACKAGE-vVERSION with PACKAGE one of {', '.join(SOURCES)}"]
    package, version = match[1], match[2]
    problems = []
    if version_of(package) != version:
        problems.append(f"tag {tag} does not match {package}'s version {version_of(package)}")
    changelog = ROOT / "packages" / package / "CHANGELOG.md"
    if f"## {package} {version}" not in changelog.read_text():
        problems.append(f"{package}'s CHANGELOG.md has no heading for {version}")
    return problems


def _ranges(package: str) -> list[tuple[str, str, str]]:
    settings = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())
    wanted = [*settings["project"].get("dependencies", []), *settings["build-system"]["requires"]]
    matches = (RANGE.fullmatch(text.replace(" ", "")) for text in wanted)
    return [(match[1], match[2], match[3]) for match in matches if match]


def _import_time_ranges() -> list[tuple[str, str, str]]:
    source = (ROOT / "packages/torch-spyre/src/torch_spyre/_siblings.py").read_text()
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "REQUIRED":
            return list(ast.literal_eval(node.value))
    raise ValueError("_siblings.py has no table REQUIRED")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


if __name__ == "__main__":
    found = tag_problems(sys.argv[1]) if len(sys.argv) > 1 else range_problems()
    sys.exit("\n".join(found) or 0)
