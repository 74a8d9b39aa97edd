# SPDX-License-Identifier: Apache-2.0
"""The repository's own checks find what they are for."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import bump
import check_includes
import check_links
import check_spdx
import check_versions
import sum_reports


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_repository_keeps_its_rules():
    assert [*check_includes.include_problems(), *check_includes.import_problems()] == []
    assert check_versions.range_problems() == []


@pytest.mark.parametrize("check", ["spdx", "includes", "links", "versions"])
def test_a_check_that_finds_nothing_succeeds(check):
    tool = Path(__file__).with_name(f"check_{check}.py")
    done = subprocess.run([sys.executable, str(tool)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("path", "line", "reason"),
    [
        ("spyre-layout/src/a.cc", "#include <ATen/ATen.h>", "neither torch nor Python"),
        ("spyre-layout/bindings/a.cc", '#include "torch/library.h"', "layout knows no torch"),
        ("spyre-runtime/src/core/a.cc", '#include "softdev/memory.h"', "driver.h only"),
        ("spyre-runtime/src/core/b.h", "#  include <pybind11/pybind11.h>", "torch-free"),
        ("spyre-runtime/include/spyre/a.h", "#include <Python.h>", "torch-free"),
        ("spyre-runtime/src/softdev/a.cc", '#include "spyre/runtime/runtime.h"', "driver ABI"),
    ],
)
def test_a_forbidden_include_is_reported_with_its_place(tmp_path, path, line, reason):
    write(tmp_path / path, f"// first\n{line}\n")
    found = list(check_includes.include_problems(tmp_path))
    assert any(text.startswith(f"{path}:2:") and reason in text for text in found)


def test_allowed_includes_pass(tmp_path):
    write(tmp_path / "spyre-runtime/src/torch/a.cc", "#include <ATen/ATen.h>\n")
    write(tmp_path / "spyre-runtime/src/core/a.cc", '#include "spyre/driver/driver.h"\n')
    assert list(check_includes.include_problems(tmp_path)) == []


def test_imports_from_above_and_private_names_are_reported(tmp_path):
    write(tmp_path / "spyre-runtime/python/spyre_runtime/a.py", "import spyre_inductor.config\n")
    write(tmp_path / "spyre-inductor/src/spyre_inductor/a.py", "from spyre_runtime._x import y\n")
    found = list(check_includes.import_problems(tmp_path))
    assert len(found) == 2
    assert "may not know spyre_inductor" in found[0]
    assert "private name" in found[1]


def test_a_file_without_licence_line_is_found(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    write(tmp_path / "good.py", "# SPDX-License-Identifier: Apache-2.0\n")
    write(tmp_path / "bad.py", "x = 1\n")
    write(tmp_path / "notes.md", "no line needed\n")
    subprocess.run(["git", "-C", str(tmp_path), "add", "."], check=True)
    assert [path.name for path in check_spdx.missing(tmp_path)] == ["bad.py"]


def test_a_link_to_nowhere_is_found(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    write(tmp_path / "a.md", "[here](b.md) [gone](c.md#part) `[code](d.md)` [web](https://e.org)")
    write(tmp_path / "b.md", "")
    subprocess.run(["git", "-C", str(tmp_path), "add", "."], check=True)
    assert list(check_links.broken_links(tmp_path)) == [
        "a.md: links to c.md#part, which is not there"
    ]


@pytest.mark.parametrize(
    "tag", ["v1.0.0", "spyre-runtime-1.0.0", "numpy-v1.0.0", "spyre-layout-v1"]
)
def test_a_malformed_tag_is_refused(tag):
    (problem,) = check_versions.tag_problems(tag)
    assert "is not PACKAGE-vVERSION" in problem


def test_a_tag_of_another_version_is_refused():
    problems = check_versions.tag_problems("torch-spyre-v99.0.0")
    assert any("does not match" in text for text in problems)
    assert any("CHANGELOG.md has no heading" in text for text in problems)


def test_bump_changes_the_version_and_nothing_else(tmp_path, monkeypatch):
    relative, _ = check_versions.SOURCES["torch-spyre"]
    write(tmp_path / relative, '# a comment\n__version__ = "0.1.0"\nother = "0.1.0"\n')
    monkeypatch.setattr(bump, "ROOT", tmp_path)
    monkeypatch.setattr(check_versions, "ROOT", tmp_path)
    assert bump.bump("torch-spyre", "0.2.0rc1") == "0.1.0"
    text = (tmp_path / relative).read_text()
    assert text == '# a comment\n__version__ = "0.2.0rc1"\nother = "0.1.0"\n'


@pytest.mark.parametrize(("package", "version"), [("numpy", "1.0.0"), ("torch-spyre", "1.0")])
def test_bump_refuses_nonsense(package, version):
    with pytest.raises(ValueError, match="unknown package|is not of the form"):
        bump.bump(package, version)


def test_reports_are_added_up(tmp_path):
    row = '<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'
    write(tmp_path / "a.xml", row.format(10, 1, 1, 2))
    write(tmp_path / "b.xml", row.format(5, 0, 0, 0))
    assert sum_reports.closing_lines(tmp_path).splitlines() == [
        "  a: 6 passed, 2 failed, 2 skipped",
        "  b: 5 passed, 0 failed, 0 skipped",
        "11 passed, 2 failed, 2 skipped",
    ]
