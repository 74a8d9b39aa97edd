# SPDX-License-Identifier: Apache-2.0
"""Compiling across packages and processes: both backends, the cache, no compiler, no subprocess."""

import pytest
import torch

GRAPH = """
    import sys, torch
    from torch._dynamo.utils import counters
    def f(x, w):
        return torch.softmax(torch.nn.functional.gelu(x @ w), -1).sum(0)
    torch.manual_seed(0)
    x, w = torch.randn(32, 64).half().to("spyre"), torch.randn(64, 96).half().to("spyre")
    out = torch.compile(f, backend="spyre")(x, w)
    torch.testing.assert_close(out.cpu().float(), f(x.cpu().float(), w.cpu().float()),
                               rtol=0.03, atol=0.03)
    print(counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"])
"""


def test_a_second_process_hits_the_cache(python, tmp_path):
    first = python(GRAPH, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert first.out.split() == ["0", "1"]
    second = python(GRAPH, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert second.out.split() == ["1", "0"]


def test_programs_of_another_version_are_not_served(python, tmp_path):
    assert python(GRAPH, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)).out.split() == ["0", "1"]
    # The compiler's own sources are part of the key, so another version of it never hits; what the
    # installed metadata decides is the version of the device that the programs were made for.
    info = tmp_path / "first" / "spyre_runtime-0.1.99.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: spyre-runtime\nVersion: 0.1.99\n")
    done = python(GRAPH, TORCHINDUCTOR_CACHE_DIR=str(tmp_path), PYTHONPATH=str(tmp_path / "first"))
    assert done.out.split() == ["0", "1"]


def test_settings_that_change_programs_are_part_of_the_key(python, tmp_path):
    assert python(GRAPH, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)).out.split() == ["0", "1"]
    done = python(GRAPH, TORCHINDUCTOR_CACHE_DIR=str(tmp_path), LX_PLANNING="1", SENCORES="3")
    hits, misses = map(int, done.out.split())
    assert hits + misses == 1


def test_no_compiler_and_no_process_is_started(python, tmp_path):
    python(
        """
        import os, subprocess, sys
        sys.addaudithook(lambda name, args: started.append(args)
                         if name in ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec")
                         else None)
        started = []
        import torch
        from torch._inductor import config  # what torch itself asks of the system is not ours
        started.clear()
        f = torch.compile(lambda x: torch.softmax(x * 2 + 1, -1), backend="spyre")
        f(torch.randn(64, 64, device="spyre", dtype=torch.float16))
        torch.spyre.synchronize()
        assert not started, started
        """,
        CXX="/nonexistent/c++",
        CC="/nonexistent/cc",
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path),
    )


@pytest.mark.parametrize("backend", ["spyre", "inductor"])
def test_both_backends_give_the_same_bits(backend):
    def f(x, y):
        return torch.nn.functional.layer_norm(x @ y, (48,)).relu().mean(-1)

    torch.manual_seed(0)
    x, y = torch.randn(40, 64).half().to("spyre"), torch.randn(64, 48).half().to("spyre")
    expected = f(x.cpu().float(), y.cpu().float())
    actual = torch.compile(f, backend=backend, fullgraph=True)(x, y)
    torch.testing.assert_close(actual.cpu().float(), expected, rtol=0.02, atol=0.02)
    assert torch.equal(torch.compile(f, backend=backend)(x, y).cpu(), actual.cpu())


def test_the_backend_is_listed():
    assert "spyre" in torch._dynamo.list_backends()


def test_cpu_graphs_still_compile_beside_the_device():
    f = torch.compile(lambda x: torch.sin(x) + 1, backend="aot_eager")
    x = torch.randn(10)
    torch.testing.assert_close(f(x), torch.sin(x) + 1)


def test_the_spyre_backend_refuses_or_runs_cpu_tensors():
    f = torch.compile(lambda x: x * 3, backend="spyre")
    try:
        assert torch.equal(f(torch.ones(4)), torch.full((4,), 3.0))
    except Exception as error:
        assert "cpu" in str(error).lower()


def test_one_graph_serves_many_batch_sizes():
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("spyre")
    f = torch.compile(lambda x: torch.softmax(x, -1) * 2, backend=counter, dynamic=True)
    for rows in (3, 17, 64, 65, 200):
        x = torch.randn(rows, 70).half()
        torch.testing.assert_close(
            f(x.to("spyre")).cpu().float(), torch.softmax(x.float(), -1) * 2, rtol=0.01, atol=0.01
        )
    assert counter.frame_count == 1


def test_a_graph_break_is_survived():
    def f(x):
        y = x + 1
        if y.sum().item() > 0:
            y = y * 2
        return y - 1

    x = torch.ones(8, 8, device="spyre")
    assert torch.equal(torch.compile(f, backend="spyre")(x).cpu(), torch.full((8, 8), 3.0))


def test_export_and_load_work():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(32, 16)

        def forward(self, x):
            return torch.tanh(self.linear(x))

    block = Block().half().to("spyre")
    x = torch.randn(4, 32, dtype=torch.float16, device="spyre")
    program = torch.export.export(block, (x,))
    assert torch.equal(program.module()(x).cpu(), block(x).cpu())
