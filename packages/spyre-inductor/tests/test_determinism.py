# SPDX-License-Identifier: Apache-2.0
"""Results are the same bit for bit whatever the division and the scratchpad plan."""

from __future__ import annotations

import pytest
import torch
from spyre_inductor.report_log import recording
from test_models import Block


def run_block(monkeypatch, **environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    torch._dynamo.reset()
    torch.manual_seed(3)
    block = Block().eval().half().to("spyre")
    x = torch.randn(3, 17, 32).half().to("spyre")
    with (
        torch.no_grad(),
        recording() as log,
        torch._inductor.config.patch(force_disable_caches=True),
    ):
        return torch.compile(block, backend="spyre")(x).cpu(), log


@pytest.fixture(scope="module")
def undivided():
    """The result on one core without scratchpads."""
    torch.ones(1, device="spyre")  # the device opens with all its cores
    with pytest.MonkeyPatch.context() as patch:
        return run_block(patch, SENCORES="1", LX_PLANNING="0")[0]


@pytest.mark.parametrize("cores", ["1", "2", "3", "7", "16", "31", "32"])
@pytest.mark.parametrize("lx", ["none", "0.01", "1.0"])
def test_cores_and_lx_change_nothing(monkeypatch, undivided, cores, lx):
    planning = {} if lx == "none" else {"LX_PLANNING": "1", "DXP_LX_FRAC_AVAIL": lx}
    actual, log = run_block(monkeypatch, SENCORES=cores, **planning)
    assert torch.equal(undivided, actual)
    kinds = {b.kind for p, _ in log.programs for n, b in p.buffers.items() if n in p.used()}
    assert ("lx" in kinds) <= (lx != "none")
    divided = {loop.parts for p, _ in log.programs for k in p.kernels for loop in k.loops}
    assert max(divided, default=0) <= int(cores)


def test_lx_is_used_where_divisions_agree(monkeypatch):
    _, log = run_block(monkeypatch, SENCORES="4", LX_PLANNING="1", DXP_LX_FRAC_AVAIL="1.0")
    assert any(b.kind == "lx" for p, _ in log.programs for b in p.buffers.values())
