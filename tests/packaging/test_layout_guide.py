# SPDX-License-Identifier: Apache-2.0
"""The guide of the layout library: its examples run, its pictures are what the package draws."""

import contextlib
import io
import re
from pathlib import Path

import pytest
from spyre_layout.cli import main

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "layout"


@pytest.mark.parametrize(
    "page",
    [
        GUIDE / "sticks_and_layouts.md",
        GUIDE / "python.md",
        ROOT / "packages/spyre-layout/README.md",
    ],
)
def test_examples_print_what_they_say(page):
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, page.name, "exec"), {})
    said = re.findall(r"^(?:print\(.*\)  )?# (.+)$", code, re.MULTILINE)
    lines = printed.getvalue().splitlines()
    assert len(lines) == len(said)
    for line, words in zip(lines, said, strict=True):
        assert words.split("  ")[0].strip() in line, (line, words)


@pytest.mark.parametrize(
    ("picture", "arguments"),
    [
        ("row_major", ["3", "5", "150"]),
        ("generic", ["3", "5", "150", "--dim-order=0,1,2"]),
        ("sparse", ["5", "4", "--dim-order=0,1,-1"]),
    ],
)
def test_pictures_are_current(picture, arguments, tmp_path):
    drawn = tmp_path / "drawn.svg"
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["show", *arguments, "--svg", str(drawn)]) == 0
    assert (GUIDE / f"{picture}.svg").read_text() == drawn.read_text()
