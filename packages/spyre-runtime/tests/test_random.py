# SPDX-License-Identifier: Apache-2.0
"""Seeds and generator states."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

pytestmark = pytest.mark.usefixtures("quiet_fallback")


def draw():
    return torch.rand(100, device="spyre").cpu()


@pytest.mark.parametrize(
    "seed",
    [
        torch.manual_seed,
        lambda s: torch.spyre.manual_seed(s),
        lambda s: torch.spyre.manual_seed_all(s),
        lambda s: torch.accelerator.manual_seed(s),
        lambda s: torch.accelerator.manual_seed_all(s),
    ],
)
def test_a_seed_makes_numbers_come_again(seed):
    seed(42)
    first = draw()
    assert not torch.equal(draw(), first)
    seed(42)
    assert torch.equal(draw(), first)
    seed(43)
    assert not torch.equal(draw(), first)
    assert torch.spyre.initial_seed() == 43


def test_states():
    state = torch.spyre.get_rng_state()
    assert state.device.type == "cpu"
    assert state.dtype == torch.uint8
    first = draw()
    torch.spyre.set_rng_state(state)
    assert torch.equal(draw(), first)
    torch.spyre.set_rng_state(state, "spyre:0")
    assert torch.equal(draw(), first)
    torch.spyre.set_rng_state_all(torch.spyre.get_rng_state_all())
    assert torch.equal(torch.accelerator.get_rng_state(), torch.spyre.get_rng_state())
    with pytest.raises(Exception, match="(?i)state|size|type"):
        torch.spyre.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_fork_rng():
    torch.manual_seed(0)
    expected = draw()
    torch.manual_seed(0)
    with torch.random.fork_rng(device_type="spyre"):
        draw()
    assert torch.equal(draw(), expected)


def test_own_generators():
    generator = torch.Generator(device="spyre")
    assert generator.device == torch.device("spyre:0")
    generator.manual_seed(5)
    first = torch.randn(50, device="spyre", generator=generator).cpu()
    generator.manual_seed(5)
    assert torch.equal(torch.randn(50, device="spyre", generator=generator).cpu(), first)
    state = generator.get_state()
    second = torch.randn(50, device="spyre", generator=generator).cpu()
    other = torch.Generator(device="spyre")
    other.set_state(state)
    assert torch.equal(torch.randn(50, device="spyre", generator=other).cpu(), second)
    clone = generator.clone_state()
    assert clone.device == generator.device
    assert generator.initial_seed() == 5
    assert isinstance(generator.seed(), int)


def test_a_generator_of_the_cpu_is_refused():
    with pytest.raises((RuntimeError, ValueError), match="(?i)generator"):
        torch.randn(5, device="spyre", generator=torch.Generator())
    with pytest.raises((RuntimeError, ValueError, NotImplementedError), match="(?i)generator"):
        torch.randn(5, generator=torch.Generator(device="spyre"))


def test_random_operators():
    torch.manual_seed(0)
    x = torch.randint(0, 10, (1000,), device="spyre")
    assert x.min().item() == 0
    assert x.max().item() == 9
    assert sorted(torch.randperm(50, device="spyre").tolist()) == list(range(50))
    dropped = torch.nn.functional.dropout(torch.ones(10000, device="spyre"), 0.5)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.1)
    assert torch.bernoulli(torch.full((1000,), 0.5, device="spyre")).mean().item() == pytest.approx(
        0.5, abs=0.1
    )
    weights = torch.tensor([0.0, 1.0], device="spyre")
    assert torch.multinomial(weights, 3, replacement=True).tolist() == [1, 1, 1]
    normal = torch.empty(5000, device="spyre").normal_(2.0, 3.0)
    assert normal.mean().item() == pytest.approx(2.0, abs=0.3)


@pytest.mark.parametrize(("lower", "upper"), [(0, 1), (2, 3), (-1, 0), (-3, -2)])
def test_half_draws_stay_below_the_upper_bound(lower: int, upper: int) -> None:
    drawn = torch.empty(200000, dtype=torch.float16, device="spyre").uniform_(lower, upper).cpu()
    assert lower <= drawn.min().item()
    assert drawn.max().item() < upper or upper == 0  # the CPU's own draws reach -0
    strided = torch.empty(400, 300, dtype=torch.float16, device="spyre").t()[::2].uniform_(2, 3)
    assert strided.max().item() < 3


def test_generators_pickle_and_copy() -> None:
    own = torch.Generator("spyre").manual_seed(4)
    torch.rand(3, generator=own, device="spyre")
    others = [pickle.loads(pickle.dumps(own)), copy.deepcopy(own)]
    expected = torch.rand(5, generator=own, device="spyre").cpu()
    for other in others:
        assert other.initial_seed() == 4
        assert torch.equal(torch.rand(5, generator=other, device="spyre").cpu(), expected)
    with pytest.raises(ValueError, match="a spyre generator to 8: it has none"):
        own.set_offset(8)


@pytest.mark.parametrize("size", [0, 100])
def test_states_of_another_size_are_refused(size) -> None:
    with pytest.raises(ValueError, match=rf"has \d+ bytes, found {size}"):
        torch.spyre.set_rng_state(torch.zeros(size, dtype=torch.uint8))
