# SPDX-License-Identifier: Apache-2.0
"""Comparison of compiled device results with PyTorch's CPU."""

from __future__ import annotations

from typing import Any

import torch
from spyre_inductor.report_log import CompileLog, recording
from torch.utils import _pytree as pytree

DEVICE = "spyre"
HALF = (torch.float16, torch.bfloat16)


def to_device(tree: Any) -> Any:
    """Moves tensors, keeping strides and offsets: the storage goes over and is viewed again."""

    def move(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.device.type == DEVICE:
            return x
        base = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
        moved = base.to(DEVICE)
        view = moved.as_strided(x.size(), x.stride(), x.storage_offset())
        return view.detach().requires_grad_(x.requires_grad)

    return pytree.tree_map(move, tree)


def widen(tree: Any) -> Any:
    """Half tensors as float32, for a reference that rounds as little as the device does."""
    return pytree.tree_map(
        lambda x: x.float() if isinstance(x, torch.Tensor) and x.dtype in HALF else x, tree
    )


def check(
    fn: Any,
    *args: Any,
    tolerance: float | None = None,
    fallbacks: int = 0,
    wide: bool = True,
    **options: Any,
) -> CompileLog:
    """Compiles fn for the device and compares with the CPU.

    Args:
        tolerance: relative and absolute; by default of the widest rounding among the arguments.
        fallbacks: how many operations may run eagerly.
        wide: compute the reference in float32.
    """
    leaves = [x for x in pytree.tree_leaves(args) if isinstance(x, torch.Tensor)]
    if tolerance is None:
        tolerance = 8e-3 if any(x.dtype in HALF for x in leaves) else 1e-4
    reference_args = widen(args) if wide else args
    expected = fn(*pytree.tree_map(_clone, reference_args))
    options.setdefault("backend", "spyre")
    with recording() as log, torch._inductor.config.patch(force_disable_caches=True):
        actual = torch.compile(fn, **options)(*to_device(args))
    compare(actual, expected, tolerance)
    assert len(log.fallbacks) <= fallbacks, log.fallbacks
    return log


def _clone(x: Any) -> Any:
    return x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x


def compare(actual: Any, expected: Any, tolerance: float) -> None:
    """Asserts equal structure, shapes and values, floats within a tolerance."""
    a_leaves, b_leaves = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
    assert len(a_leaves) == len(b_leaves)
    for a, b in zip(a_leaves, b_leaves, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        assert a.shape == b.shape
        assert a.device.type == DEVICE
        got = a.detach().cpu()
        if b.dtype.is_floating_point:
            torch.testing.assert_close(
                got.float(), b.detach().float(), rtol=tolerance, atol=tolerance, equal_nan=True
            )
        else:
            assert torch.equal(got.to(b.dtype), b), (got, b)
