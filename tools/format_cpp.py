# SPDX-License-Identifier: Apache-2.0
"""Runs clang-format over the tracked C and C++ sources; --check reports instead of writing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    """Format or check, and return clang-format's exit code."""
    listed = subprocess.run(
        ["git", "ls-files", "*.h", "*.cc", "*.c"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    files = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    mode = ["--dry-run", "--Werror"] if "--check" in arguments else ["-i"]
    if not files:
        return 0
    return subprocess.run(["clang-format", *mode, *files], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
