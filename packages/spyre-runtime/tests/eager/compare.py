# SPDX-License-Identifier: Apache-2.0
"""Moving tensors to the device with their strides, and comparing what comes back with the CPU.

float16 and bfloat16 live as SEN169 on the device (9 fraction bits, no infinities in arithmetic), so
their reference is the CPU's float32 result for the values that the device holds.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

HALF = (torch.float16, torch.bfloat16)
SEN169_STEP = 2.0**-9
"""Distance between neighbours in SEN169, relative to the value's binade."""
SEN169_INFINITY = 2.0**32
"""What arithmetic on the device sees of an infinity in half."""
LARGEST = {torch.float16: 65504.0, torch.bfloat16: SEN169_INFINITY * (2 - SEN169_STEP)}
"""The largest results: float16's own on the host, SEN169's for bfloat16."""


def to_device(tensor: torch.Tensor) -> torch.Tensor:
    """Copy to the device with size, strides, offset and storage size kept."""
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        return tensor.to("spyre")
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    flat = tensor.detach().as_strided((elements,), (1,), 0)
    view = flat.to("spyre").as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    return view.requires_grad_(tensor.requires_grad) if tensor.is_leaf else view


def tree_to_device(tree: Any) -> Any:
    """`to_device` for every tensor in nested arguments."""
    return tree_map(lambda x: to_device(x) if isinstance(x, torch.Tensor) else x, tree)


def as_held(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a half tensor that the device holds after a copy; strides and storage kept."""
    if tensor.dtype not in HALF:
        return tensor
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    flat = tensor.detach().as_strided((elements,), (1,), 0).to("spyre").cpu()
    return flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def as_reference(tree: Any) -> Any:
    """Arguments for the CPU's reference: half tensors as float32, dtype arguments likewise."""

    def convert(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.dtype in HALF:
            held = as_held(x)
            flat = held.as_strided((held.untyped_storage().nbytes() // 2,), (1,), 0).float()
            return flat.as_strided(x.size(), x.stride(), x.storage_offset())
        return torch.float32 if isinstance(x, torch.dtype) and x in HALF else x

    return tree_map(convert, tree)


def mismatch(
    actual: Any,
    expected: Any,
    *,
    rtol: float,
    atol: float,
    half: bool = False,
    strides: bool = True,
) -> str | None:
    """What differs between results on the device and on the CPU, or None.

    Args:
        actual: Tensors and numbers from the device, nested.
        expected: The same from the CPU; for half dtypes the float32 reference.
        rtol: Relative tolerance.
        atol: Absolute tolerance, relative to the largest finite expected magnitude.
        half: Whether actual half results are held against float32 expected ones.
        strides: Whether strides must agree too.
    """
    got, got_tree = tree_flatten(actual)
    want, want_tree = tree_flatten(expected)
    if len(got) != len(want):
        return f"{len(got)} results ({got_tree}), expected {len(want)} ({want_tree})"
    for number, (a, e) in enumerate(zip(got, want, strict=True)):
        found = _mismatch_of_one(a, e, rtol, atol, half, strides)
        if found:
            return f"result {number}: {found}"
    return None


def _mismatch_of_one(
    a: Any, e: Any, rtol: float, atol: float, half: bool, strides: bool
) -> str | None:
    if not isinstance(e, torch.Tensor):
        same = a == e or (a != a and e != e)
        if isinstance(e, float) and not same:
            same = abs(a - e) <= atol + rtol * abs(e)
        return None if same else f"got {a!r}, expected {e!r}"
    if not isinstance(a, torch.Tensor):
        return f"got a {type(a).__name__}, expected a tensor"
    if a.shape != e.shape:
        return f"shape {tuple(a.shape)}, expected {tuple(e.shape)}"
    if a.dtype != e.dtype and not (half and a.dtype in HALF and e.dtype == torch.float32):
        return f"dtype {a.dtype}, expected {e.dtype}"
    if strides and e.numel() > 1 and a.stride() != e.stride():
        return f"strides {a.stride()}, expected {e.stride()} of shape {tuple(e.shape)}"
    a, e = a.detach().cpu(), e.detach()
    if not a.is_floating_point():
        wrong = a != e
        if not wrong.any():
            return None
        at = wrong.nonzero()[0].tolist()
        got, wanted = a[tuple(at)], e[tuple(at)]
        return f"{int(wrong.sum())} of {e.numel()} differ; at {at} got {got}, expected {wanted}"
    return _mismatch_of_floats(a, e, rtol, atol)


def _mismatch_of_floats(a: torch.Tensor, e: torch.Tensor, rtol: float, atol: float) -> str | None:
    is_half = a.dtype in HALF
    limit = LARGEST.get(a.dtype, torch.finfo(torch.float32).max)
    a, e = a.double(), e.double()
    finite = e[e.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    good = (a - e).abs() <= atol * min(scale, limit) + rtol * e.abs()
    good |= (a == e) | (a.isnan() & e.isnan())
    if is_half:
        # The host's float16 has no finer numbers than these.
        good |= (a - e).abs() <= 2.0**-24
        # Where half's range ends, rounding decides what is infinite.
        edge = limit * (1 - 4 * rtol)
        good |= (e.abs() >= edge) & (a.abs() >= edge) & (a.sign() == e.sign())
    if good.all():
        return None
    at = (~good).nonzero()[0].tolist()
    return (
        f"{int((~good).sum())} of {e.numel()} differ; at {at} got {a[tuple(at)].item()!r}, "
        f"expected {e[tuple(at)].item()!r}"
    )
