# SPDX-License-Identifier: Apache-2.0
"""Random numbers: seeds and states of the devices' default generators."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from spyre_runtime._native import native
from spyre_runtime._registration import DEVICE_NAME
from spyre_runtime.devices import DeviceLike, device_index

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


_LEAST_SEED = -(2**63)
_LARGEST_SEED = 2**64 - 1


def _generator(device: DeviceLike = None) -> torch.Generator:
    return native().default_generator(device_index(device))


def _as_seed(seed: int) -> int:
    """Return the number that ``seed`` converts to, as ``torch.manual_seed`` does."""
    try:
        value = int(seed)
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"expected an int as seed, found {seed!r}") from error
    if not _LEAST_SEED <= value <= _LARGEST_SEED:
        raise ValueError(
            f"seed {value} is out of range: choose one from {_LEAST_SEED} to {_LARGEST_SEED}"
        )
    return value


def manual_seed(seed: int) -> None:
    """Set the seed for generating random numbers on the current Spyre device.

    Args:
        seed: The desired seed.
    """
    _generator().manual_seed(_as_seed(seed))


def manual_seed_all(seed: int) -> None:
    """Set the seed for generating random numbers on all Spyre devices.

    Args:
        seed: The desired seed.
    """
    native().seed_default_generators(_as_seed(seed) % 2**64)


def seed() -> int:
    """Seed the current device's generator with a random number, and return it."""
    return _generator().seed()


def seed_all() -> int:
    """Seed the generators of all devices with one random number, and return it."""
    value = torch.seed()
    manual_seed_all(value)
    return value


def initial_seed() -> int:
    """Return the seed that the current device's generator was last given."""
    return _generator().initial_seed()


def get_rng_state(device: DeviceLike = None) -> torch.Tensor:
    """Return the state of a device's generator, as a byte tensor on the CPU.

    Args:
        device: Device to query. If None, uses the current device.
    """
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = None) -> None:
    """Set the state of a device's generator.

    Args:
        new_state: A state that :func:`get_rng_state` returned.
        device: Device to set. If None, uses the current device.
    """
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the states of the generators of all devices."""
    return [get_rng_state(index) for index in range(native().device_count())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Set the states of the generators of all devices, in order."""
    for index, state in enumerate(new_states):
        set_rng_state(state, torch.device(DEVICE_NAME, index))
