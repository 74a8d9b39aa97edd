# SPDX-License-Identifier: Apache-2.0
"""The installed package: its files, what importing it loads, its examples, its CMake package."""

import ast
import doctest
import importlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import spyre_layout

MODULES = [
    "_arrays",
    "_numbers",
    "_safetensors",
    "checkpoint",
    "cli",
    "codec",
    "formats",
    "layout",
    "picture",
    "transfer",
    "view",
]

FILES = {
    "spyre_layout/__init__.py",
    *(f"spyre_layout/{name}.py" for name in MODULES),
    "spyre_layout/_core.pyi",
    "spyre_layout/py.typed",
    *(
        f"spyre_layout/include/spyre/layout/{name}.h"
        for name in ("codec", "formats", "layout", "transfer", "version", "view")
    ),
    "spyre_layout/lib/libspyre_layout.a",
    "spyre_layout/lib/cmake/SpyreLayout/SpyreLayoutConfig.cmake",
    "spyre_layout/lib/cmake/SpyreLayout/SpyreLayoutConfigVersion.cmake",
    "spyre_layout/lib/cmake/SpyreLayout/SpyreLayoutTargets.cmake",
    "spyre_layout/lib/cmake/SpyreLayout/SpyreLayoutTargets-release.cmake",
}


def test_the_wheel_holds_these_files_and_no_others():
    files = {str(path) for path in importlib.metadata.files("spyre-layout") or []}
    own = {
        path
        for path in files
        if ".dist-info/" not in path and "__pycache__" not in path and not path.startswith("..")
    }
    extension = {
        path for path in own if path.startswith("spyre_layout/_core.") and path.endswith(".so")
    }
    assert len(extension) == 1
    assert own - extension == FILES


def test_versions_agree():
    version = importlib.metadata.version("spyre-layout")
    assert spyre_layout.__version__ == version
    header = Path(spyre_layout.cmake_prefix(), "include/spyre/layout/version.h").read_text()
    major, minor, patch = version.split(".")
    assert f'SPYRE_LAYOUT_VERSION "{version}"' in header
    assert f"SPYRE_LAYOUT_VERSION_MAJOR {major}\n" in header
    assert f"SPYRE_LAYOUT_VERSION_MINOR {minor}\n" in header
    assert f"SPYRE_LAYOUT_VERSION_PATCH {patch}\n" in header


def test_importing_loads_little():
    script = (
        "import sys; before = set(sys.modules); import spyre_layout; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    loaded = set(done.stdout.split())
    assert "spyre_layout" in loaded
    assert not loaded & {
        "numpy",
        "torch",
        "safetensors",
        "argparse",
        "json",
        "inspect",
        "dataclasses",
    }


def test_the_cmake_package_is_announced():
    (entry,) = importlib.metadata.entry_points(group="cmake.root", name="SpyreLayout")
    assert entry.value == "spyre_layout"


@pytest.mark.parametrize("name", [name for name in MODULES if name != "cli"])
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(f"spyre_layout.{name}")
    assert doctest.testmod(module).failed == 0


def test_everything_public_is_documented():
    for name in spyre_layout.__all__:
        if name != "__version__":
            assert getattr(spyre_layout, name).__doc__, name


def members(body):
    """Names that a stub's module or class defines."""
    return {
        node.target.id if isinstance(node, ast.AnnAssign) else node.name
        for node in body
        if isinstance(node, (ast.AnnAssign, ast.FunctionDef, ast.ClassDef))
    }


def test_the_stub_names_what_the_extension_has():
    stub = Path(spyre_layout.__file__).with_name("_core.pyi")
    body = ast.parse(stub.read_text()).body
    extension = importlib.import_module("spyre_layout._core")
    assert members(body) == {name for name in dir(extension) if not name.startswith("_")}
    (layout,) = [node for node in body if isinstance(node, ast.ClassDef)]
    assert members(layout.body) == {name for name in dir(extension.Layout) if name[0] != "_"}


def run(*command, **options):
    done = subprocess.run(command, check=False, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(
    not shutil.which("cmake"), reason="the consumer project needs cmake; see `nox -s packaging`"
)
def test_a_cmake_project_builds_on_the_installed_wheel(tmp_path):
    """No Python takes part: the project is given a prefix and no more."""
    source = Path(__file__).parent / "consumer"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CMAKE_")}
    prefix = run(sys.executable, "-m", "spyre_layout.cli", "cmake").strip()
    run(
        *("cmake", "-S", str(source), "-B", str(tmp_path), f"-DSpyreLayout_ROOT={prefix}"),
        "-DCMAKE_BUILD_TYPE=Release",
        env=environment,
    )
    run("cmake", "--build", str(tmp_path), env=environment)
    output = run(str(tmp_path / "consumer"), env={})
    assert output.startswith(f"spyre-layout {spyre_layout.__version__}: SpyreTensorLayout(")
    assert output.endswith("0 of 30000 elements differ\n")
