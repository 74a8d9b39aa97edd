# SPDX-License-Identifier: Apache-2.0
"""Text of small device programs for tests, and a way to run them on tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from spyre_runtime import Program

NAMES = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.bool: "bool",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
}


def numbers(values: Sequence[int]) -> str:
    """A list in the text form."""
    return "[" + ", ".join(str(int(v)) for v in values) + "]"


def buffer(name: str, tensor: torch.Tensor) -> str:
    """Declares an argument that stands for `tensor`."""
    return (
        f"buffer {name} arg {NAMES[tensor.dtype]} "
        f"size {numbers(tensor.shape)} stride {numbers(tensor.stride())}"
    )


def stage(
    tensors: Sequence[torch.Tensor],
    loops: Sequence[int],
    accesses: Sequence[tuple[int, Sequence[int], int]],
    body: str,
    reduce: int = 0,
) -> str:
    """A program of one stage.

    Args:
        tensors: Arguments b0, b1, ...
        loops: Extents; the last `reduce` of them are reduce loops.
        accesses: (argument, strides, offset) of a0, a1, ...
        body: Phases and instructions.
        reduce: How many loops are reduce loops.
    """
    lines = ["spyre.program 1", 'name "test"']
    lines += [buffer(f"b{i}", t) for i, t in enumerate(tensors)]
    lines.append('stage "s"')
    for i, extent in enumerate(loops):
        lines.append(f"  loop {extent}" + (" reduce" if i >= len(loops) - reduce else ""))
    for i, (argument, strides, offset) in enumerate(accesses):
        lines.append(f"  access a{i} b{argument} stride {numbers(strides)} offset {offset}")
    lines += ["  " + line.strip() for line in body.strip().splitlines()]
    return "\n".join(lines) + "\n"


def run(text: str, tensors: Sequence[torch.Tensor], symbols: Sequence[int] = ()) -> None:
    """Runs a program on spyre tensors and waits for it."""
    Program(text).launch(list(tensors), list(symbols))
    torch.accelerator.synchronize()


def pointwise(op: str, inputs: Sequence[torch.Tensor], out: torch.Tensor) -> torch.Tensor:
    """out[i] = op(inputs[0][i], ...) on spyre tensors of one shape; returns `out` on the CPU."""
    tensors = [*inputs, out]
    accesses = [(i, t.stride(), 0) for i, t in enumerate(tensors)]
    loads = "\n".join(f"%{i} = load a{i}" for i in range(len(inputs)))
    args = " ".join(f"%{i}" for i in range(len(inputs)))
    body = f"phase\n{loads}\n%9 = {op} {args}\nstore a{len(inputs)} %9"
    run(stage(tensors, out.shape, accesses, body), tensors)
    return out.cpu()
