# SPDX-License-Identifier: Apache-2.0
"""Helpers that run Python in a process of its own, since autoload happens once in each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

RunPython = Callable[..., str]


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Return a function that runs code and returns its output; a failure shows all of it."""

    def run(code: str, *options: str, before: Path | None = None, **environment: str) -> str:
        settings = {**os.environ, **environment}
        if before is not None:
            settings["PYTHONPATH"] = str(before)
        done = subprocess.run(
            [sys.executable, *options, "-c", textwrap.dedent(code)],
            env=settings,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    return run


@pytest.fixture
def fake_distribution(tmp_path: Path) -> Callable[[str, str], Path]:
    """Return a function that makes a folder which holds a distribution's metadata."""

    def make(name: str, version: str) -> Path:
        folder = tmp_path / "first"
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        return folder

    return make


@pytest.fixture
def copied_package(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies an installed package to a folder and returns the copy."""

    def make(name: str) -> Path:
        spec = find_spec(name)
        assert spec is not None
        target = tmp_path / "first" / name
        # An editable install has its Python files and its libraries in two places.
        for folder in spec.submodule_search_locations or ():
            ignored = shutil.ignore_patterns("include", "cmake", "lib", "__pycache__")
            shutil.copytree(folder, target, dirs_exist_ok=True, ignore=ignored)
        return target

    return make
