# SPDX-License-Identifier: Apache-2.0
"""Results do not depend on SENCORES, host threads or the stream."""

import os
import subprocess
import sys

import pytest
import torch

PROGRAM = """
import hashlib, os, sys
if len(sys.argv) > 1:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import torch
import torch.nn.functional as F
import spyre_runtime
spyre_runtime.register()
torch.manual_seed(5)
digest = hashlib.sha256()
def take(t):
    digest.update(t.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
for dtype in (torch.float16, torch.float32):
    x = torch.randn(37, 1030).to(dtype).to("spyre")
    w = torch.randn(1030, 130).to(dtype).to("spyre")
    g = torch.randn(1030).to(dtype).to("spyre")
    i = torch.randint(0, 37, (500,)).to("spyre")
    for t in (
        x + 1, F.gelu(x), x.sum(), x.sum(0), x.sum(1), x.mean(), x.var(1), x.prod(1), x.amax(0),
        F.softmax(x, 1), F.softmax(x, 0), F.log_softmax(x, 1), F.layer_norm(x, (1030,), g, g),
        x @ w, F.linear(x, w.t(), w[0]), (x.T[:, :5] @ x[:5]), x[i], x.index_select(0, i),
        x.index_add(0, i[:37], x), torch.cat([x, x.flip(1)], 1), x.T.contiguous(), x.norm(),
        x.argmax(),
        F.embedding(i, x), x.exp().log().tanh(), x.T.contiguous().sum(1), x[:, ::3].sum(),
    ):
        take(t)
print(digest.hexdigest())
"""


def run(*arguments: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.slow
def test_cores_and_threads() -> None:
    expected = run()
    assert run(SENCORES="1") == expected
    assert run(SENCORES="5") == expected
    assert run("one thread") == expected


def test_streams() -> None:
    x = torch.randn(65, 300).half().to("spyre")
    expected = (x.softmax(1) @ x.T).sum(0).cpu()
    stream = torch.spyre.Stream()
    torch.spyre.synchronize()
    with torch.spyre.stream(stream):
        actual = (x.softmax(1) @ x.T).sum(0)
    stream.synchronize()
    assert torch.equal(actual.cpu(), expected)
