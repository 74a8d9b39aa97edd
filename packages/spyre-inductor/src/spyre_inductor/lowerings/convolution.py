# SPDX-License-Identifier: Apache-2.0
"""Lowering of convolutions: sums of products over a window, read in place through strides.

A loop over the window's taps and channels is a reduction like that of a matrix product, so a bias
and what follows become its epilogue. Transposed convolutions are left to the eager kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.lowering import lowerings
from torch._inductor.virtualized import V, ops
from torch.utils._sympy.functions import FloorDiv

from spyre_inductor.lowerings.fallback import fall_back

aten = torch.ops.aten


def lower(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    transposed: bool,
    output_padding: Sequence[Any],
    groups: int,
) -> Any:
    """Returns the convolution as loops, or None where it is not one that the device has."""
    if transposed or x.get_dtype() != weight.get_dtype() or not x.get_dtype().is_floating_point:
        return None
    rank = len(weight.get_size()) - 2
    is_fixed = all(isinstance(n, (int, sympy.Integer)) for n in weight.get_size())
    if len(x.get_size()) != rank + 2 or not is_fixed:
        return None
    stride, padding, dilation = (
        [*values] * rank if len(values) == 1 else [*values]
        for values in (stride, padding, dilation)
    )
    batch, _, *positions = x.get_size()
    channels, inputs, *taps = (int(n) for n in weight.get_size())
    if 0 in (inputs, *taps):
        args = (x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        return fall_back(
            aten.convolution.default, "of an empty weight PyTorch makes a special case", args, {}
        )
    outputs = channels // groups
    size = [
        FloorDiv(p + 2 * pad - d * (t - 1) - 1, s) + 1
        for p, pad, d, t, s in zip(positions, padding, dilation, taps, stride, strict=True)
    ]
    known = V.graph.sizevars.statically_known_true
    if not all(known(n > 0) for n in (batch, *size)):
        return None
    if any(padding):
        around = [n for pad in reversed(padding) for n in (pad, pad)]
        x = lowerings[aten.constant_pad_nd.default](x, around, 0)
    # few products: lane by lane, where float32 need not be rounded for the matrix units
    is_lane_wise = inputs == outputs == 1
    if not is_lane_wise:
        x, weight = _in_memory(x), _in_memory(weight)
    with ir.ComputedBuffer.force_realize():
        load_x, load_weight = x.make_loader(), weight.make_loader()

    def inner(index: Sequence[Any], reduce: Sequence[Any]) -> Any:
        n, group, output, *place = index
        channel, *tap = reduce
        window = [p * s + t * d for p, s, t, d in zip(place, stride, tap, dilation, strict=True)]
        a = load_x([n, group * inputs + channel, *window])
        b = load_weight([group * outputs + output, channel, *tap])
        if is_lane_wise:
            return ops.mul(
                ops.to_dtype(a, torch.float32, src_dtype=dtype),
                ops.to_dtype(b, torch.float32, src_dtype=dtype),
            )
        return ops.dot(a, b)

    dtype = x.get_dtype()
    result = ir.Reduction.create(
        device=x.get_device(),
        dst_dtype=dtype,
        src_dtype=torch.float32 if is_lane_wise else dtype,
        inner_fn=inner,
        ranges=[batch, groups, outputs, *size],
        reduction_ranges=[inputs, *taps],
        reduction_type="sum" if is_lane_wise else "dot",
    )
    result.realize()
    result = lowerings[aten.reshape.default](result, [batch, channels, *size])
    if bias is None:
        return result
    bias = lowerings[aten.reshape.default](bias, [channels, *[1] * rank])
    return lowerings[aten.add.Tensor](result, bias)


def _in_memory(x: Any) -> Any:
    x.realize()
    return x


CONVOLUTIONS: dict[Any, Callable[..., Any]] = {aten.convolution.default: lower}
