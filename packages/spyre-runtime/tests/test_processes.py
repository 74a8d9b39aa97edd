# SPDX-License-Identifier: Apache-2.0
"""Processes: how they end with work queued, what a forked one may do, what is sent between them."""

import pytest

BUSY = """
    import atexit, os, sys, threading, time
    x = torch.ones(1000, 1000, device="spyre", dtype=torch.float16)
    def work(times):
        y = x
        for _ in range(times):
            y = y @ x
        return y
"""
# How the process ends after some seconds of work were queued -> its exit code.
ENDINGS = {
    "falling off the end": ("work(12)", 0),
    "sys.exit": ("work(12); sys.exit(5)", 5),
    "os._exit": ("work(12); os._exit(7)", 7),
    "an exception": ("work(12); raise ValueError('no')", 1),
    "a thread that still works": ("threading.Thread(target=work, args=(12,)).start()", 0),
    "atexit": ("atexit.register(work, 6)", 0),
    "inside a stream": ("with torch.spyre.Stream(): work(6); sys.exit(3)", 3),
    "a pending copy": (
        "to = torch.empty_like(x, device='cpu').pin_memory(); to.copy_(work(6), non_blocking=True)",
        0,
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_ends_cleanly_with_work_queued(run_python, ending):
    code, exit_code = ENDINGS[ending]
    run_python(BUSY + "    " + code, exit_code=exit_code)


def test_what_nobody_asked_for_is_told_at_exit(run_python):
    out = run_python("""
        index = torch.tensor([7], device="spyre")
        lost = torch.ones(3, device="spyre")[index]
    """)
    assert "RuntimeWarning: work that was still queued on spyre:0 at exit failed: " in out
    assert "out of range" in out


def test_all_uses_in_a_fork_give_one_reason(run_python):
    out = run_python("""
        import os
        torch.ones(1, device="spyre").cpu()
        stream, event = torch.spyre.Stream(), torch.spyre.Event()
        child = os.fork()
        if child == 0:
            messages = set()
            for use in (
                lambda: torch.ones(1, device="spyre"),
                torch.spyre.Stream,
                torch.spyre.synchronize,
                torch.spyre.init,
                torch.spyre._lazy_init,
                torch.spyre.mem_get_info,
                stream.synchronize,
                event.record,
                torch.accelerator.synchronize,
            ):
                try:
                    use()
                    messages.add("nothing was raised")
                except RuntimeError as error:
                    messages.add(str(error))
            print(messages, flush=True)
            assert torch.spyre.memory_allocated() == 0 and torch.ones(2).sum() == 2
            torch.manual_seed(3)
            os._exit(0 if len(messages) == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
    """)
    assert "cannot use spyre in process" in out
    assert "'spawn' or 'forkserver'" in out


def test_tensors_arrive_in_another_process_as_copies(run_python, tmp_path):
    (tmp_path / "child.py").write_text(
        "import torch, spyre_runtime\n"
        "spyre_runtime.register()\n"
        "def double(inbox, outbox):\n"
        "    for _ in range(2):\n"
        "        x = inbox.get()\n"
        "        outbox.put((type(x).__name__, x.detach() * 2, x.requires_grad))\n"
    )
    out = run_python("""
        import sys
        sys.path.insert(0, ".")
        import child
        import torch.multiprocessing as mp
        if __name__ == "__main__":
            context = mp.get_context("spawn")
            inbox, outbox = context.Queue(), context.Queue()
            process = context.Process(target=child.double, args=(inbox, outbox))
            process.start()
            x = torch.arange(6.0).reshape(2, 3).to("spyre")
            for sent in (x.t(), torch.nn.Parameter(x)):
                inbox.put(sent)
                kind, got, requires_grad = outbox.get(timeout=100)
                assert kind == type(sent).__name__ and requires_grad == sent.requires_grad
                assert got.device == x.device and torch.equal(got.cpu(), sent.detach().cpu() * 2)
            process.join()
            print("arrived")
    """)
    assert "arrived" in out


def test_loader_workers_that_touch_no_device_work_after_it_was_opened(run_python):
    out = run_python("""
        from torch.utils.data import DataLoader, TensorDataset
        keep = torch.ones(3, device="spyre"), torch.spyre.Stream(), torch.spyre.Event()
        keep[0].sum().item()
        loader = DataLoader(
            TensorDataset(torch.arange(100.0)), batch_size=10, num_workers=2, pin_memory=True
        )
        print(sum(batch[0].to("spyre", non_blocking=True).sum().item() for batch in loader))
    """)
    assert "4950.0" in out
