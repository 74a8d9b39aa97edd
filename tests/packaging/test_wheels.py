# SPDX-License-Identifier: Apache-2.0
"""The wheels in dist/ hold what they should and nothing else; so do the source distributions."""

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"

# Package -> (folder of its Python, patterns of what the build adds to the wheel; all must hit).
PACKAGES = {
    "spyre-layout": (
        "python/spyre_layout",
        (
            "spyre_layout/_core.*.so",
            "spyre_layout/include/spyre/layout/*.h",
            "spyre_layout/lib*/libspyre_layout.a",
            "spyre_layout/lib*/cmake/SpyreLayout/*.cmake",
        ),
    ),
    "spyre-runtime": (
        "python/spyre_runtime",
        (
            "spyre_runtime/_C.*so",
            "spyre_runtime/libspyre_runtime.so",
            "spyre_runtime/libspyre_softdev.so",
            "spyre_runtime/include/spyre/driver/driver.h",
            "spyre_runtime/include/spyre/*/*.h",
            "spyre_runtime/cmake/*.cmake",
        ),
    ),
    "spyre-inductor": ("src/spyre_inductor", ()),
    "torch-spyre": ("src/torch_spyre", ()),
}


def wheel(package):
    (path,) = DIST.glob(f"{package.replace('-', '_')}-*.whl")
    return path


def contents(package):
    with zipfile.ZipFile(wheel(package)) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def metadata(package):
    with zipfile.ZipFile(wheel(package)) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def sources(package):
    folder = ROOT / "packages" / package / PACKAGES[package][0]
    kept = {".py", ".pyi", ".typed"}
    return {
        f"{folder.name}/{path.relative_to(folder).as_posix()}"
        for path in folder.rglob("*")
        if path.suffix in kept or path.name == "py.typed"
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_holds_its_sources_its_build_and_nothing_else(package):
    held = {name for name in contents(package) if ".dist-info/" not in name}
    expected = sources(package)
    assert expected <= held, sorted(expected - held)
    built = held - expected
    patterns = PACKAGES[package][1]
    stray = {name for name in built if not any(fnmatch(name, pattern) for pattern in patterns)}
    assert not stray, sorted(stray)
    for pattern in patterns:
        assert any(fnmatch(name, pattern) for name in built), f"nothing matches {pattern}"


@pytest.mark.parametrize("package", PACKAGES)
def test_types_and_licence_travel_along(package):
    held = contents(package)
    assert any(name.endswith("/py.typed") for name in held)
    assert any(re.search(r"\.dist-info/licenses/.*LICENSE", name) for name in held)
    assert metadata(package)["License-Expression"] == "Apache-2.0"
    assert metadata(package)["Requires-Python"] == ">=3.11"
    assert metadata(package).get_payload().strip(), "the description is empty"


@pytest.mark.parametrize("package", ["spyre-inductor", "torch-spyre"])
def test_pure_packages_make_wheels_for_any_python(package):
    assert wheel(package).name.endswith("-py3-none-any.whl")


def test_requirements_point_down_only():
    order = list(PACKAGES)
    for place, package in enumerate(order):
        names = {
            re.split(r"[ <>=!;\[]", text)[0]
            for text in metadata(package).get_all("Requires-Dist") or []
            if "extra ==" not in text
        }
        assert not names & set(order[place:]), package
    layout = metadata("spyre-layout").get_all("Requires-Dist") or []
    assert not any(text.startswith("torch") for text in layout)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_source_distribution_is_complete(package, tmp_path):
    subprocess.run(
        [
            *(sys.executable, "-m", "build", "--sdist", "--no-isolation"),
            *("--skip-dependency-check", "-o", str(tmp_path), str(ROOT / "packages" / package)),
        ],
        check=True,
        capture_output=True,
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as held:
        names = {name.split("/", 1)[1] for name in held.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names
    folder = ROOT / "packages" / package
    needed = {
        path.relative_to(folder).as_posix()
        for part in ("include", "src", "bindings", "python", "cmake")
        for path in (folder / part).rglob("*")
        if path.suffix in {".h", ".cc", ".py", ".pyi", ".cmake", ".in", ".txt"}
    }
    assert needed <= names, sorted(needed - names)
    assert not [name for name in names if "__pycache__" in name or name.startswith("build/")]
