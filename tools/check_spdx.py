# SPDX-License-Identifier: Apache-2.0
"""Checks that every tracked source file names its licence in its first lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".c", ".cc", ".cmake", ".cu", ".h", ".py", ".pyi", ".sh", ".toml", ".yml", ".yaml"}
NAMES = {"CMakeLists.txt", "run", ".clang-format", ".clang-tidy"}
LINE = "SPDX-License-Identifier: Apache-2.0"


def missing(root: Path) -> list[Path]:
    """Return the tracked source files without the line."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True
    )
    paths = [Path(name) for name in listed.stdout.split("\0") if name]
    return [path for path in paths if _is_source(path) and not _has_line(root / path)]


def _is_source(path: Path) -> bool:
    return path.suffix in SUFFIXES or path.name in NAMES


def _has_line(path: Path) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else LINE
    return not text or any(LINE in line for line in text.splitlines()[:5])


if __name__ == "__main__":
    bad = missing(ROOT)
    sys.exit("\n".join(f"{path}: the first lines lack '{LINE}'" for path in bad) or 0)
