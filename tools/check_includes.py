# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of the architecture that includes and imports can break.

Dependencies between packages point down only; the layout core and the runtime core know neither
torch nor Python; the software device is reached through the driver ABI; private parts of a sibling
are not imported.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "packages"

TORCH = r"(ATen|c10|torch|caffe2)/"
PYTHON = r"(pybind11/|Python\.h)"


@dataclass(frozen=True)
class Rule:
    """No file under ``folder`` (but those under ``but``) may include what matches ``pattern``."""

    folder: str
    pattern: str
    reason: str
    but: tuple[str, ...] = ()


RULES = (
    Rule("spyre-layout/include", f"{TORCH}|{PYTHON}", "layout headers are plain C++17"),
    Rule("spyre-layout/src", f"{TORCH}|{PYTHON}", "the layout core knows neither torch nor Python"),
    Rule("spyre-layout", TORCH, "layout knows no torch"),
    Rule("spyre-layout", r"spyre/(runtime|driver|program)/", "layout is the lowest package"),
    Rule("spyre-runtime/include", f"{TORCH}|{PYTHON}", "runtime headers are torch-free"),
    Rule("spyre-runtime/src/core", f"{TORCH}|{PYTHON}", "the runtime core is torch-free"),
    Rule("spyre-runtime/src/program", f"{TORCH}|{PYTHON}", "programs are torch-free"),
    Rule("spyre-runtime/src/core", r"softdev/", "the core reaches devices through driver.h only"),
    Rule("spyre-runtime/src/torch", r"softdev/", "the glue reaches devices through the core only"),
    Rule("spyre-runtime/src/softdev", PYTHON, "the software device knows no Python"),
    Rule(
        "spyre-runtime/src/softdev",
        r"spyre/runtime/runtime\.h|(^|/)core/",
        "a driver knows nothing above the driver ABI",
    ),
)

# Importing package -> the siblings it may not import.
FORBIDDEN_IMPORTS = {
    "spyre-layout": {"torch", "spyre_runtime", "spyre_inductor", "torch_spyre"},
    "spyre-runtime": {"spyre_inductor", "torch_spyre"},
    "spyre-inductor": {"torch_spyre"},
    "torch-spyre": set(),
}


def include_problems(packages: Path = PACKAGES) -> Iterator[str]:
    """Yield a line for each include that a rule forbids."""
    for rule in RULES:
        for path in sorted((packages / rule.folder).rglob("*")):
            relative = path.relative_to(packages).as_posix()
            if path.suffix not in {".h", ".cc", ".c"} or "/tests/" in relative:
                continue
            if relative.startswith(rule.but) or "_test." in path.name:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
                if match and re.search(rf"^({rule.pattern})|{rule.pattern}", match[1]):
                    yield f"{relative}:{number}: includes {match[1]}, but {rule.reason}"


def import_problems(packages: Path = PACKAGES) -> Iterator[str]:
    """Yield a line for each import of a package from above, or of a sibling's private module."""
    for package, forbidden in FORBIDDEN_IMPORTS.items():
        own = package.replace("-", "_")
        for path in sorted((packages / package).glob(f"*/{own}/**/*.py")):
            for number, name in _imports(path):
                where = f"{path.relative_to(packages).as_posix()}:{number}"
                top, *rest = name.split(".")
                if top in forbidden:
                    yield f"{where}: imports {name}; {package} may not know {top}"
                is_sibling = top.startswith("spyre_") and top != own
                if is_sibling and any(part.startswith("_") for part in rest):
                    yield f"{where}: imports {name}, a private name of a sibling"


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module


if __name__ == "__main__":
    sys.exit("\n".join([*include_problems(), *import_problems()]) or 0)
