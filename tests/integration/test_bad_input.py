# SPDX-License-Identifier: Apache-2.0
"""Bad input gets a Python exception; the process lives on and the device stays usable."""

import threading

import pytest
import torch

BAD = {
    "mixed devices": lambda: torch.ones(2, device="spyre") + torch.ones(2),
    "shapes that do not broadcast": lambda: (
        torch.ones(2, device="spyre") + torch.ones(3, device="spyre")
    ),
    "shapes that do not multiply": lambda: (
        torch.ones(2, 3, device="spyre") @ torch.ones(4, 5, device="spyre")
    ),
    "as_strided out of range": lambda: (
        torch.ones(4, device="spyre").as_strided((4,), (2,), 1).cpu()
    ),
    "negative size": lambda: torch.empty(-1, device="spyre"),
    "too much memory": lambda: torch.empty(1 << 45, dtype=torch.float16, device="spyre"),
    "size overflow": lambda: torch.empty(1 << 62, 1 << 62, device="spyre"),
    "view of wrong size": lambda: torch.ones(6, device="spyre").view(4, 2),
    "item of many": lambda: torch.ones(2, device="spyre").item(),
    "numpy of a device tensor": lambda: torch.ones(2, device="spyre").numpy(),
    "index out of range": lambda: torch.ones(3, device="spyre")[
        torch.tensor([5], device="spyre")
    ].cpu(),
    "embedding out of range": lambda: torch.nn.functional.embedding(
        torch.tensor([9], device="spyre"), torch.ones(3, 4, device="spyre")
    ).cpu(),
    "gather out of range": lambda: torch.gather(
        torch.ones(3, device="spyre"), 0, torch.tensor([-7], device="spyre")
    ).cpu(),
    "in-place on expanded": lambda: torch.ones(1, device="spyre").expand(4).add_(1),
    "float64": lambda: torch.ones(2, dtype=torch.float64, device="spyre"),
    "complex": lambda: torch.ones(2, device="spyre") * 1j,
    "sparse": lambda: torch.eye(3).to_sparse().to("spyre"),
    "set_ of another device": lambda: torch.ones(2, device="spyre").set_(torch.ones(2)),
    "generator of another device": lambda: torch.randn(
        2, generator=torch.Generator(), device="spyre"
    ),
    "softmax over a missing dimension": lambda: torch.softmax(torch.ones(2, device="spyre"), 3),
    "cat of nothing": lambda: torch.cat([]),
    "unknown layout": lambda: torch.empty(2, device="spyre", layout=torch.sparse_csr),
}


@pytest.mark.parametrize("name", BAD)
def test_it_raises_and_the_device_works_on(name):
    with pytest.raises((RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)) as e:
        BAD[name]()
        torch.spyre.synchronize()
    assert str(e.value).strip()
    assert torch.ones(4, device="spyre").sum().item() == 4


def test_tensors_outlive_the_interpreter_s_end(python):
    python(
        "import torch; keep = [torch.ones(1000, device='spyre') for _ in range(50)]; keep[0] + 1"
    )


def test_exit_during_work_is_clean(python):
    python("""
        import torch
        x = torch.randn(1500, 1500, device="spyre", dtype=torch.float16)
        for _ in range(5):
            x = x @ x
    """)


def test_an_interrupt_is_a_keyboard_interrupt(python):
    done = python(
        """
        import os, signal, threading, time, torch
        # Jobs in the background of a shell inherit that interrupts are ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        x = torch.ones(512, 512, device="spyre", dtype=torch.float16)
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            deadline = time.time() + 60
            while time.time() < deadline:
                (x + x).cpu()
        except KeyboardInterrupt:
            assert torch.ones(3, device="spyre").sum().item() == 3
            print("interrupted")
        """
    )
    assert "interrupted" in done.out


def test_a_fork_is_refused_clearly_or_works(python):
    done = python("""
        import os, torch
        torch.ones(1, device="spyre").cpu()
        child = os.fork()
        if child == 0:
            code = 3
            try:
                torch.ones(2, device="spyre").cpu()
                code = 0
            except RuntimeError as error:
                code = 0 if "fork" in str(error) else 4
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status))
        assert torch.ones(2, device="spyre").sum().item() == 2
    """)
    assert done.out.strip() == "0"


def test_many_threads_share_the_device():
    failures = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        try:
            for size in range(1, 40):
                x = torch.randn(size, 3 * size, generator=generator)
                y = (x.to("spyre") * 2).t().contiguous().sum(0).cpu()
                torch.testing.assert_close(y, (x * 2).t().sum(0), rtol=1e-4, atol=1e-4)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)
