# SPDX-License-Identifier: Apache-2.0
"""Tensors that are awkward on a device with sticks, of values that every dtype holds exactly."""

from __future__ import annotations

import torch

DTYPES = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.bool,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
)
FLOAT8_DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2fnuz)
REFUSED_DTYPES = (
    torch.float64,
    torch.complex32,
    torch.complex64,
    torch.complex128,
    torch.float8_e5m2,
    torch.uint16,
    torch.uint32,
)

SIZES = (
    (),
    (1,),
    (5,),
    (64,),
    (65,),
    (200,),
    (0,),
    (3, 0, 2),
    (1, 1),
    (4, 128),
    (3, 100),
    (7, 1),
    (1, 70),
    (2, 3, 65),
    (5, 4, 3, 2),
    (2, 1, 3, 1, 2, 1, 5),
    (2, 2, 2, 2, 2, 2, 2, 3),
)


def values(size: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Return a CPU tensor of small whole numbers, which every dtype of the device holds exactly."""
    generator = torch.Generator().manual_seed(seed)
    low = 0 if dtype in (torch.uint8, torch.bool) else -15
    whole = torch.randint(low, 16, size, generator=generator)
    return (whole > 7) if dtype is torch.bool else whole.to(dtype)


def equal(device: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether a device tensor has the dtype, size and exact values of a CPU tensor."""
    found = device.cpu()
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    if found.dtype in FLOAT8_DTYPES:
        return torch.equal(found.float(), expected.float())
    return torch.equal(found, expected)
