# SPDX-License-Identifier: Apache-2.0
"""Results are the same bits whatever SENCORES and the number of host threads."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import hashlib, spyre_runtime, torch
spyre_runtime.register()
torch.manual_seed(0)
digest = hashlib.sha256()
a, b = (torch.randn(*s).half().to("spyre") for s in ((300, 700), (700, 333)))
x = torch.randn(3, 70001).to("spyre")
gelu = torch.nn.functional.gelu(a)
wide = a * torch.exp2(torch.arange(700) % 24 - 12).half().to("spyre")
q = torch.randn(6, 12, 70, 32).half().to("spyre")
attention = torch.nn.functional.scaled_dot_product_attention(q, q, q)
products = a @ b, wide @ (b * 2**-9), attention
for result in (*products, a.sum(), a.sum(0), torch.softmax(a, -1), x.sum(-1), x.mean(), gelu):
    digest.update(result.cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())
print(digest.hexdigest())
"""


def digest(cores: int, cpus: set[int]) -> str:
    affinity = f"import os; os.sched_setaffinity(0, {cpus!r})\n"
    environment = {**os.environ, "SENCORES": str(cores)}
    done = subprocess.run(
        [sys.executable, "-c", affinity + SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_results_do_not_depend_on_cores_or_threads() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    runs = [(1, set(cpus)), (32, set(cpus)), (7, {cpus[0]})]
    assert len({digest(cores, chosen) for cores, chosen in runs}) == 1
