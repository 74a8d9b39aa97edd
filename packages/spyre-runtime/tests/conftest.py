# SPDX-License-Identifier: Apache-2.0
"""Makes the device known, and helpers that several test files use."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import spyre_runtime
import torch

# pytest's import mode "importlib" leaves the test folder off the path; tensor_cases.py is in it.
sys.path.insert(0, str(Path(__file__).parent))

spyre_runtime.register()

PREAMBLE = "import torch, spyre_runtime\nspyre_runtime.register()\n"


@pytest.fixture
def run_python(tmp_path) -> Callable[..., str]:
    """Return a function that runs code in a process of its own and returns what it prints."""

    def run(code: str, *, exit_code: int | None = 0, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PREAMBLE + textwrap.dedent(code)],
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        text = done.stdout + done.stderr
        if exit_code is not None:
            assert done.returncode == exit_code, f"exit code {done.returncode}\n{text}"
        return text

    return run


@pytest.fixture
def quiet_fallback() -> Iterator[None]:
    """Hide the warnings of the CPU fallback where a test takes it on purpose."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*has no kernel on device spyre.*")
        yield


@pytest.fixture(autouse=True)
def _same_default_device() -> Iterator[None]:
    yield
    torch.spyre.synchronize()
    assert torch.spyre.current_device() == 0
    assert torch.spyre.current_stream().id == 0
