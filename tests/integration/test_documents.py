# SPDX-License-Identifier: Apache-2.0
"""The Python blocks of the documentation run as they stand, one after the other on a page."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def pages():
    found = [ROOT / "README.md", ROOT / "packages" / "torch-spyre" / "README.md"]
    found += sorted((ROOT / "docs").rglob("*.md"))
    return [page for page in found if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_page_s_python_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__page__"}
    text = page.read_text()
    for match in BLOCK.finditer(text):
        lines = match[2].splitlines()
        indent = len(match[1])
        code = "\n".join(line[indent:] for line in lines)
        # The lines before keep the numbers of a traceback those of the page.
        padding = "\n" * (text[: match.start()].count("\n") + 1)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(padding + code, str(page), "exec"), namespace)
