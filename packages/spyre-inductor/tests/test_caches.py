# SPDX-License-Identifier: Apache-2.0
"""Inductor's caches across processes, and compiling without a C++ compiler or a subprocess."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import conftest, torch
from torch._dynamo.utils import counters
from spyre_inductor import register
if len(sys.argv) > 1:
    register.package_versions = lambda: sys.argv[1]
def fn(x, w):
    return torch.softmax(x @ w, -1) * 2
x, w = torch.randn(4, 8).half(), torch.randn(8, 9).half()
out = torch.compile(fn, backend="spyre")(x.to("spyre"), w.to("spyre"))
torch.testing.assert_close(out.cpu().float(), fn(x.float(), w.float()), rtol=2e-2, atol=2e-2)
hits = counters["inductor"]["fxgraph_cache_hit"], counters["aot_autograd"]["autograd_cache_hit"]
print("hit", *hits)
"""


def run(cache: Path, *args: str, **environment: str) -> str:
    script = SCRIPT.format(tests=str(Path(__file__).parent))
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache), **environment}
    done = subprocess.run(
        [sys.executable, "-c", script, *args],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory):
    cache = tmp_path_factory.mktemp("inductor")
    assert run(cache) == "hit 0 0"
    return cache


def test_second_process_hits(warm_cache):
    line = run(warm_cache)
    assert line in ("hit 1 1", "hit 0 1")  # an AOTAutograd hit brings its graph along


def test_another_version_misses(warm_cache):
    assert run(warm_cache, "spyre-inductor 99.0") == "hit 0 0"


def test_other_settings_miss(warm_cache):
    assert run(warm_cache, SENCORES="3") == "hit 0 0"


def test_no_compiler_and_no_subprocess(tmp_path):
    guard = (
        "import subprocess\n"
        "def refuse(*a, **k): raise AssertionError(f'started {a}')\n"
        "subprocess.Popen.__init__ = refuse\n"
    )
    script = guard + SCRIPT.format(tests=str(Path(__file__).parent))
    env = {
        **os.environ,
        "PATH": "",
        "CXX": "/nonexistent",
        "CC": "/nonexistent",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
