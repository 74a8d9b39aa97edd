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


@pytest.mark.parametrize("cores", ["1", "2", "7", "32"])
@pytest.mark.parametrize("planning", ["0", "1"])
def test_cores_and_lx_change_nothing(monkeypatch, cores, planning):
    expected, _ = run_block(monkeypatch, SENCORES="32", LX_PLANNING="0")
    actual, log = run_block(
        monkeypatch, SENCORES=cores, LX_PLANNING=planning, DXP_LX_FRAC_AVAIL="0.5"
    )
    assert torch.equal(expected, actual)
    kinds = {b.kind for p, _ in log.programs for n, b in p.buffers.items() if n in p.used()}
    assert ("lx" in kinds) <= (planning == "1")


def test_lx_is_used_where_divisions_agree(monkeypatch):
    _, log = run_block(monkeypatch, SENCORES="4", LX_PLANNING="1", DXP_LX_FRAC_AVAIL="1.0")
    assert any(b.kind == "lx" for p, _ in log.programs for b in p.buffers.values())
