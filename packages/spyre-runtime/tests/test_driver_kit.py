# SPDX-License-Identifier: Apache-2.0
"""What a driver author gets: headers and a CMake package, by building the conformance suite.

The suite is built as a project of its own against the installed spyre-runtime and spyre-layout, as
a vendor would, and run on the software device.
"""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance"


def installed_folder(package: str, member: str) -> Path:
    """The folder of an installed package that has a file matching ``member``."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    folders = [Path(folder) for folder in spec.submodule_search_locations or []]
    found = [folder for folder in folders if any(folder.glob(member))]
    assert found, f"{package} has no {member} in {folders}"
    return found[0]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cmake = shutil.which("cmake")
    if cmake is None or shutil.which("c++") is None:
        pytest.skip("building a driver needs cmake and a C++ compiler")
    runtime = installed_folder("spyre_runtime", "cmake/SpyreRuntimeConfig.cmake")
    layout = installed_folder("spyre_layout", "lib*/cmake/SpyreLayout/SpyreLayoutConfig.cmake")
    folder = tmp_path_factory.mktemp("conformance")
    command = [
        *(cmake, "-S", str(CONFORMANCE), "-B", str(folder)),
        f"-DSpyreRuntime_DIR={runtime / 'cmake'}",
        f"-DCMAKE_PREFIX_PATH={layout}",
        "-DCMAKE_BUILD_TYPE=Release",
    ]
    if shutil.which("ninja"):
        command += ["-G", "Ninja"]
    subprocess.run(command, check=True)
    subprocess.run([cmake, "--build", str(folder), "--parallel", "2"], check=True)
    return folder


def run(program: Path, *arguments: str) -> str:
    # The programs have no Python and so no torch in the process: the driver finds it by this path.
    import torch

    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = str(Path(torch.__file__).parent / "lib")
    for name in ("SPYRE_DRIVER", "AIU_WORLD_SIZE", "SPYRE_DEVICES", "FLEX_DEVICE", "SENCORES"):
        environment.pop(name, None)
    done = subprocess.run(
        [str(program), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("name", ["loader_test", "allocator_test", "runtime_test", "stress_test"])
def test_of_the_runtime(build: Path, name: str) -> None:
    assert " 0 failed" in run(build / name)


def test_the_software_device_conforms(build: Path) -> None:
    driver = installed_folder("spyre_runtime", "libspyre_softdev.so") / "libspyre_softdev.so"
    assert " 0 failed" in run(build / "spyre_conformance", str(driver))


def test_the_suite_refuses_a_driver_of_another_abi(build: Path) -> None:
    done = subprocess.run(
        [str(build / "spyre_conformance"), str(build / "libnull_driver_other_abi.so")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "does not speak driver ABI major 1" in done.stderr
