# SPDX-License-Identifier: Apache-2.0
"""Integer division: eager where a divisor may be zero, for PyTorch raises there.

A lane of a program cannot raise, and the quotient it would give instead is a wrong answer. Divisors
that are known not to be zero, nearly all that models have, stay in programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V

from spyre_inductor.lowerings.fallback import fall_back

aten = torch.ops.aten


def _division(target: Any) -> Callable[..., Any]:
    def lower(x: Any, y: Any, **kwargs: Any) -> Any:
        if not (_is_integer(x) and _is_integer(y)) or kwargs.get("rounding_mode", "") is None:
            return None
        if _is_nonzero(y):
            return None
        reason = "an integer division by zero raises, which a program cannot"
        return fall_back(target, reason, (x, y), kwargs)

    return lower


def _is_integer(x: Any) -> bool:
    if isinstance(x, ir.TensorBox):
        dtype = x.get_dtype()
        return not dtype.is_floating_point and not dtype.is_complex
    return not isinstance(x, float) and getattr(x, "is_integer", True) is not False


def _is_nonzero(divisor: Any) -> bool:
    """Whether a divisor is a constant, or a size, that is not zero."""
    if isinstance(divisor, int):
        return divisor != 0
    if not isinstance(divisor, ir.TensorBox):
        return bool(V.graph.sizevars.statically_known_gt(divisor, 0))
    node = V.graph.current_node.args[1] if V.graph.current_node is not None else None
    if not isinstance(node, torch.fx.Node) or node.target is not aten.full.default:
        return False
    return isinstance(node.args[1], int) and node.args[1] != 0


DIVISIONS = {
    target: _division(target)
    for target in (
        aten.div.Tensor_mode,
        aten.div.Scalar_mode,
        aten.remainder.Tensor,
        aten.remainder.Scalar,
        aten.remainder.Scalar_Tensor,
        aten.fmod.Tensor,
        aten.fmod.Scalar,
    )
}
