# SPDX-License-Identifier: Apache-2.0
"""Checks that relative links in tracked Markdown files lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)


def broken_links(root: Path) -> Iterator[str]:
    """Yield a line for each link whose target is not there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.md"], cwd=root, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        page = root / name
        for target in LINK.findall(CODE.sub("", page.read_text()) if page.is_file() else ""):
            path = target.split("#")[0]
            if path and "://" not in target and not (page.parent / path).exists():
                yield f"{name}: links to {target}, which is not there"


if __name__ == "__main__":
    sys.exit("\n".join(broken_links(ROOT)) or 0)
