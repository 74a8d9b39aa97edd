# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: processes of their own, and a device to come back to."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@dataclass
class Done:
    """A process that ended."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Done]:
    """Return a function that runs code in a new Python and returns how it ended.

    ``check=True`` (the default) fails the test on any exit code but 0.
    """
    folder = tmp_path_factory.mktemp("process")

    def run(code: str, *options: str, check: bool = True, **environment: str) -> Done:
        done = subprocess.run(
            [sys.executable, *options, "-c", textwrap.dedent(code)],
            env={**os.environ, **environment},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        result = Done(done.returncode, done.stdout, done.stderr)
        assert not check or result.code == 0, str(result)
        return result

    return run


@pytest.fixture(autouse=True)
def clean_state() -> Iterator[None]:
    """Leave the device as it was found: default stream, device 0, no compiled graphs."""
    yield
    torch.spyre.synchronize()
    assert torch.spyre.current_stream().id == 0
    torch._dynamo.reset()
