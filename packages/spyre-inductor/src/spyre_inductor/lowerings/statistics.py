# SPDX-License-Identifier: Apache-2.0
"""Means and norms where PyTorch's decompositions differ from what eager gives on the device."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.lowering import lowerings

from spyre_inductor import torch_compat
from spyre_inductor.lowerings.infinities import reduction

aten = torch.ops.aten


def _var_mean(x: Any, dim: Any = None, **kwargs: Any) -> Any:
    """The mean of nothing is nan; Inductor makes it zero."""
    if 0 not in x.get_size():
        return _of_numbers(x, dim, **kwargs)
    var, mean = lowerings[aten.var_mean.correction](x, dim, **kwargs)
    return var, lowerings[aten.mul.Tensor](mean, math.nan)


_of_numbers = reduction(aten.var_mean.correction)
STATISTICS = {aten.var_mean.correction: _var_mean}

_BATCH_NORMS = (
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit_no_training.default,
)


def correct_batch_norms() -> None:
    """None are saved without training, as in eager; the decompositions see to it for the CPU alone.

    What is saved is float32, as by eager's kernel of `native_batch_norm`.
    """
    from torch._inductor.decomposition import decompositions

    for target in _BATCH_NORMS:
        original = decompositions[target]
        if not getattr(original, "_spyre_wrapped", False):
            decompositions[target] = _with_statistics_as_eager(original, target)


def _with_statistics_as_eager(original: Callable[..., Any], target: Any) -> Callable[..., Any]:
    places = [argument.name for argument in target._schema.arguments]

    @functools.wraps(original)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        results = original(*args, **kwargs)
        given = {**dict(zip(places, args, strict=False)), **kwargs}
        x = given["input"]
        if x.device.type != torch_compat.DEVICE_TYPE:
            return results
        output, mean, rstd, *running = results
        if not given.get("training", "no_training" not in str(target)):
            mean, rstd = (x.new_zeros((0,), dtype=torch.float32) for _ in range(2))
        return output, mean, rstd, *running

    decomposition._spyre_wrapped = True  # type: ignore[attr-defined]
    return decomposition
