# SPDX-License-Identifier: Apache-2.0
"""What torch.compile does around graphs: dynamic shapes, breaks, devices, host-only graphs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from helpers import check, compare
from spyre_inductor.report_log import recording


def test_dynamic_batch_compiles_once_more_only():
    graphs = []

    def fn(x, w):
        return F.softmax(F.gelu(x @ w) + x[:, :1], -1)

    with recording() as log:
        compiled = torch.compile(fn, backend="spyre")
        w = torch.randn(20, 30)
        for n in (3, 5, 8, 13, 70):
            x = torch.randn(n, 20)
            compare(compiled(x.to("spyre"), w.to("spyre")), fn(x, w), 2e-2)
            graphs.append(len(log.programs))
    assert graphs[-1] == graphs[1] == 2 * graphs[0]


def test_dynamic_everything():
    def fn(x):
        b, s, w = x.shape
        y = x.view(b, s, 4, w // 4).transpose(1, 2)
        return (
            y.reshape(b, 4 * s, w // 4).sum(1),
            (x + s).mean(0),
            torch.cat([x, x * 2], 1),
            y.softmax(-1),
        )

    compiled = torch.compile(fn, backend="spyre", dynamic=True)
    for shape in ((2, 3, 8), (3, 5, 16), (4, 7, 64)):
        x = torch.randn(shape)
        compare(compiled(x.to("spyre")), fn(x), 1e-4)


def test_mark_dynamic_attention():
    def fn(q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    compiled = torch.compile(fn, backend="spyre")
    for length in (4, 9, 33):
        q, k, v = (torch.randn(2, 3, length, 16).half() for _ in range(3))
        args = [t.to("spyre") for t in (q, k, v)]
        for t in args:
            torch._dynamo.mark_dynamic(t, 2)
        compare(compiled(*args), fn(q.float(), k.float(), v.float()), 2e-2)


def test_graph_break_and_data_dependent_flow():
    def fn(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        torch._dynamo.graph_break()
        return y.relu() - x

    x = torch.randn(4, 5)
    compare(torch.compile(fn, backend="spyre")(x.to("spyre")), fn(x), 1e-5)


def test_item_and_unbacked():
    def fn(x):
        n = int(x.abs().sum()) % 3 + 1
        return x[:n] * 2

    x = torch.randn(6, 5)
    compare(torch.compile(fn, backend="spyre")(x.to("spyre")), fn(x), 1e-5)


def test_nonzero_runs_eagerly():
    x = torch.randn(6, 5)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(lambda x: x[x > 0] + 1, x, fallbacks=2)


def test_cond():
    def fn(x, flag):
        return torch.cond(flag, lambda x: x.sin() + 1, lambda x: x * 2, (x,))

    x = torch.randn(4, 5)
    compiled = torch.compile(fn, backend="spyre")
    for flag in (True, False):
        compare(
            compiled(x.to("spyre"), torch.tensor(flag).to("spyre")), fn(x, torch.tensor(flag)), 1e-5
        )


def test_default_backend():
    check(lambda x: torch.softmax(x * 2, -1), torch.randn(3, 70).half(), backend="inductor")


def test_other_modes():
    x = torch.randn(3, 70)
    for options in ({"mode": "reduce-overhead"}, {"options": {"max_autotune": True}}):
        check(lambda x: (x @ x.t()).relu(), x, tolerance=5e-2, **options)
    with pytest.raises(Exception, match="expected one of"):
        torch.compile(lambda x: x + 1, backend="spyre", options=None, mode="no-such-mode")(
            x.to("spyre")
        )


def test_mixed_devices_in_one_graph():
    def fn(x, y):
        return x * 2, (x.cpu() + 1).to(x.device) + y

    x, y = torch.randn(4, 5), torch.randn(4, 5)
    with torch._inductor.config.patch(force_disable_caches=True), recording() as log:
        compiled = torch.compile(lambda a, b: fn(a, b), backend="spyre")
        compare(compiled(x.to("spyre"), y.to("spyre")), fn(x, y), 1e-5)
    assert any("host work" in f.reason for f in log.fallbacks)  # and so no C++ is compiled


def test_leaving_as_float64():
    x = torch.randn(4, 5)
    out = torch.compile(lambda x: (x * 2).to("cpu", torch.float64), backend="spyre")(x.to("spyre"))
    assert out.dtype is torch.float64
    torch.testing.assert_close(out, (x * 2).double())


def test_float64_scalars_inside():
    check(lambda x: x * (torch.tensor(2.0, dtype=torch.float64) / 3), torch.randn(5))


def test_autocast():
    model = torch.nn.Linear(8, 8)
    ours = torch.nn.Linear(8, 8)
    ours.load_state_dict(model.state_dict())
    ours.to("spyre")
    x = torch.randn(4, 8)

    def run(m, x):
        with torch.autocast(x.device.type, dtype=torch.float16):
            return m(x)

    out = torch.compile(run, backend="spyre")(ours, x.to("spyre"))
    assert out.dtype is torch.float16
    compare(out.float(), model(x).detach(), 2e-2)


def test_host_only_graph_is_inductors_own(tmp_path):
    """A graph without the device must be compiled as if we were not there."""
    from torch._inductor import config

    seen = {}

    def spy(gm, inputs):
        from torch._inductor.compile_fx import compile_fx

        def inner(*args, **kwargs):
            seen["threshold"] = config.unroll_reductions_threshold
            return args[0]

        return compile_fx(gm, inputs, inner_compile=inner)

    torch.compile(lambda x: (x * 2).sum(), backend=spy)(torch.randn(3, 4))
    assert seen["threshold"] == 8


def test_second_device():
    """Allocations, programs and eager calls of a graph stay on the device of its tensors."""
    script = """
import sys
sys.path.insert(0, {tests!r})
import conftest, torch
def fn(x, w):
    return torch.softmax(x @ w, -1).cumsum(0) + torch.ones(3, device=x.device)
x, w = torch.randn(4, 5), torch.randn(5, 3)
out = torch.compile(fn, backend="spyre")(x.to("spyre:1"), w.to("spyre:1"))
assert out.device == torch.device("spyre:1"), out.device
torch.testing.assert_close(out.cpu(), fn(x, w), rtol=2e-2, atol=2e-2)
"""
    done = subprocess.run(
        [sys.executable, "-c", script.format(tests=str(Path(__file__).parent))],
        env={**os.environ, "FLEX_DEVICE": "MOCK", "AIU_WORLD_SIZE": "2"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "make",
    [
        lambda device: torch.tril_indices(3, 4, device=device),
        lambda device: torch.triu_indices(4, 3, offset=1, device=device),
        lambda device: torch.logspace(0, 1, 7, device=device),
        lambda device: torch.linspace(0, 1, 7, device=device),
    ],
)
def test_factories_that_compute_in_float64(make):
    """They are constants, so the host computes them."""
    check(lambda x: (x + 1, make(x.device) * 2, make(x.device)), torch.randn(3), fallbacks=40)
