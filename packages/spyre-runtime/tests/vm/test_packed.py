# SPDX-License-Identifier: Apache-2.0
"""Operands of products that the device keeps packed are never older than their memory."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from programs import run, stage

ROWS, DEPTH, COLS = 96, 128, 80
DOT = "phase reduce\n%0 = load a0\n%1 = load a1\n%2 = dot %0 %1\nphase\nstore a2 %2"


def numbers(*size: int, seed: int = 0) -> torch.Tensor:
    """Small whole numbers, of which every product and sum is exact."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, size, generator=generator).half()


LEFT = numbers(ROWS, DEPTH, seed=1)


class Weight:
    """A weight on the device beside what it is to hold, multiplied often enough to be kept."""

    def __init__(self, seed: int = 2) -> None:
        self.host = numbers(COLS, DEPTH, seed=seed)
        self.device = self.host.to("spyre")
        self.left = LEFT.to("spyre")
        for _ in range(3):
            self.check()

    def product(self) -> torch.Tensor:
        return torch.nn.functional.linear(self.left, self.device)

    def check(self) -> None:
        got = self.product().cpu()
        assert torch.equal(got, torch.nn.functional.linear(LEFT.float(), self.host.float()).half())

    def change(self, function: Callable[[torch.Tensor], object]) -> None:
        """Changes both in place alike."""
        function(self.host)
        function(self.device)


CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "add": lambda w: w.add_(1),
    "mul": lambda w: w.mul_(-2),
    "fill": lambda w: w.fill_(3),
    "zero": lambda w: w.zero_(),
    "copy from the host": lambda w: w.copy_(numbers(COLS, DEPTH, seed=3)),
    "copy on the device": lambda w: w.copy_(numbers(COLS, DEPTH, seed=4).to(w.device)),
    "copy of another type": lambda w: w.copy_(numbers(COLS, DEPTH, seed=4).float().to(w.device)),
    "one element": lambda w: w[-1, -1].fill_(7),
    "one element from the host": lambda w: w[-1, -1].copy_(torch.tensor(7.0)),
    "rows": lambda w: w[5:9].neg_(),
    "a column": lambda w: w[:, 3].copy_(torch.full((COLS,), 2.0)),
    "the transpose": lambda w: w.t()[2].fill_(-1),
    "another view": lambda w: w.view(-1)[17:400].add_(1),
    "index_put": lambda w: w.index_put_(
        (torch.tensor([0, 7], device=w.device),), torch.tensor(5.0, device=w.device).half()
    ),
    "out": lambda w: torch.mul(w.clone(), 2, out=w),
    "set data": lambda w: w.data.sub_(1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_in_place_is_seen(name: str) -> None:
    weight = Weight()
    for _ in range(3):
        weight.change(CHANGES[name])
        weight.check()  # packed for itself
        weight.check()
        weight.check()  # kept again


def test_views_of_one_storage_are_kept_apart() -> None:
    host = numbers(3 * COLS, DEPTH, seed=5)
    device, left = host.to("spyre"), LEFT.to("spyre")
    for _ in range(3):
        for start in (0, 1, COLS, 2 * COLS):
            for step in (1, 2):
                part = slice(start, start + COLS // step * step, step)
                got = (left @ device[part].t()).cpu()
                assert torch.equal(got, (LEFT.float() @ host[part].float().t()).half())
    square, square_left = host[:DEPTH].clone(), numbers(ROWS, DEPTH, seed=6)
    on_device = square.to("spyre")
    for _ in range(3):
        for view in (lambda t: t, lambda t: t.t()):
            got = (square_left.to("spyre") @ view(on_device)).cpu()
            assert torch.equal(got, (square_left.float() @ view(square).float()).half())
    assert torch.equal(device.cpu(), host)


def test_memory_that_is_freed_and_taken_again() -> None:
    addresses = set()
    for seed in range(12):
        weight = Weight(seed)
        addresses.add(weight.device.data_ptr())
        del weight
        if seed % 3 == 2:
            torch.accelerator.empty_cache()
    assert len(addresses) < 12  # some address came again


@pytest.mark.parametrize("foreach", [False, True])
def test_an_optimizer_step_is_seen(foreach: bool) -> None:
    weight = Weight()
    parameter = torch.nn.Parameter(weight.device)
    optimizer = torch.optim.SGD([parameter], lr=1.0, foreach=foreach)
    for step in range(4):
        parameter.grad = torch.full_like(parameter, float(step - 2))
        optimizer.step()
        weight.host -= step - 2
        for _ in range(3):
            weight.check()


def test_writes_on_another_stream_are_seen() -> None:
    weight = Weight()
    other = torch.spyre.Stream()
    for step in range(6):
        other.wait_stream(torch.spyre.current_stream())
        with other:
            weight.device.add_(1 if step % 2 else -1)
            event = other.record_event()
        weight.host.add_(1 if step % 2 else -1)
        torch.spyre.current_stream().wait_event(event)
        results = [weight.product() for _ in range(3)]
        want = torch.nn.functional.linear(LEFT.float(), weight.host.float()).half()
        for result in results:
            assert torch.equal(result.cpu(), want)


def test_a_use_that_races_with_a_write_leaves_nothing_behind() -> None:
    # What the racing products give is anybody's guess; what comes after the last write is not.
    # Large enough that neither is done in place by who submits it.
    values = [numbers(512, 1024, seed=seed) for seed in range(3)]
    left, weight = numbers(256, 1024, seed=9), values[0].to("spyre")
    on_device = left.to("spyre")
    other = torch.spyre.Stream()
    for step in range(6):
        new = values[step % 3].to("spyre")
        torch.accelerator.synchronize()
        with other:
            for _ in range(3):
                weight.neg_()
            weight.copy_(new)
        for _ in range(4):
            torch.nn.functional.linear(on_device, weight)
        torch.accelerator.synchronize()
        want = torch.nn.functional.linear(left.float(), values[step % 3].float())
        for _ in range(2):
            got = torch.nn.functional.linear(on_device, weight).cpu()
            # Sums are exact; SEN169 keeps ten bits of them.
            torch.testing.assert_close(got.float(), want, rtol=2.0**-10, atol=0)


def test_threads_share_what_is_kept() -> None:
    weight = Weight()

    def work(number: int) -> None:
        own = Weight(number)
        with torch.spyre.Stream():
            for _ in range(20):
                weight.check()
                own.change(lambda w: w.neg_())
                own.check()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))


def program(tensors: list[torch.Tensor], change_first: bool) -> str:
    """out = left @ weight, and weight = -weight before or after; by one program."""
    text = stage(
        tensors,
        [ROWS, COLS, DEPTH],
        [(0, [DEPTH, 0, 1], 0), (1, [0, DEPTH, 1], 0), (2, [COLS, 1, 0], 0)],
        DOT,
        reduce=1,
    )
    head, product = text.split('stage "s"\n')
    change = (
        f"  loop {COLS}\n  loop {DEPTH}\n"
        f"  access a0 b3 stride [{DEPTH}, 1] offset 0\n"
        f"  access a1 b3 stride [{DEPTH}, 1] offset 0\n"
        "  phase\n  %0 = load a0\n  %1 = neg %0\n  store a1 %1\n"
    )
    stages = [product, change]
    if change_first:
        stages.reverse()
    return head + "".join(f'stage "s{i}"\n{body}' for i, body in enumerate(stages))


@pytest.mark.parametrize("change_first", [False, True])
def test_a_program_that_writes_its_own_operand(change_first: bool) -> None:
    weight = Weight()
    out = torch.empty(ROWS, COLS, dtype=torch.float16, device="spyre")
    # The weight is given twice: as the operand, and as what the other stage changes.
    tensors = [weight.left, weight.device, out, weight.device]
    text = program(tensors, change_first)
    for _ in range(5):
        before = weight.host.clone()
        run(text, tensors)
        weight.host.neg_()
        used = weight.host if change_first else before
        want = torch.nn.functional.linear(LEFT.float(), used.float()).half()
        assert torch.equal(out.cpu(), want)
        weight.check()


def test_a_failed_program_counts_as_a_write() -> None:
    weight = Weight()
    index = torch.tensor([0, 1, COLS + 5]).to("spyre")
    for _ in range(2):
        weight.check()
        with pytest.raises((IndexError, RuntimeError)):
            weight.device.index_put_((index,), torch.tensor(5.0, dtype=torch.float16).to("spyre"))
            torch.accelerator.synchronize()
        weight.host.copy_(weight.device.cpu())
        weight.check()


def test_a_product_writes_the_operand_of_the_next() -> None:
    left, host = numbers(DEPTH, DEPTH, seed=7), numbers(DEPTH, DEPTH, seed=8)
    a, b = left.to("spyre"), host.to("spyre")
    c = torch.empty_like(a)
    for step in range(4):
        a.copy_(torch.roll(left, step, 0))
        for _ in range(3):
            torch.mm(a, b, out=c)
            got = torch.mm(a, c).cpu()
        first = torch.roll(left, step, 0).double() @ host.double()
        want = torch.roll(left, step, 0).double() @ first.half().double()
        torch.testing.assert_close(got.double(), want, rtol=2e-3, atol=1)


@pytest.mark.parametrize("rows", [9, 20, 200])
def test_results_do_not_depend_on_what_is_kept(rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(rows, 700, generator=generator).half().to("spyre")
    # Of several blocks along the depth, of different scale, with values that no half holds.
    weight = torch.randn(150, 700, generator=generator) * torch.logspace(-6, 3, 700)
    weight = weight.half().to("spyre")
    weight[40:70] = 0
    results = [(left @ weight.t()).cpu() for _ in range(4)]
    weight.copy_(weight.clone())
    results += [(left @ weight.t()).cpu() for _ in range(3)]
    for result in results:
        assert torch.equal(result, results[0])
