# SPDX-License-Identifier: Apache-2.0
"""Stages worked through slice by slice give the bits that they give one after the other."""

from __future__ import annotations

import pytest
import torch
from programs import buffer, numbers, run

DOT = ["phase reduce", "%0 = load a0", "%1 = load a1", "%2 = dot %0 %1", "phase"]
SOFTMAX = [
    "phase reduce",
    "%0 = load a0",
    "%1 = reduce_max %0",
    "phase reduce",
    "%2 = load a0",
    "%3 = sub %2 %1",
    "%4 = exp %3",
    "%5 = reduce_sum %4",
    "phase",
    "%6 = reciprocal %5",
    "phase reduce",
    "%7 = load a0",
    "%8 = sub %7 %1",
    "%9 = exp %8",
    "%10 = mul %9 %6",
    "store a1 %10",
]


class Attention:
    """Scores, softmax and weighted sum, over any buffers."""

    def __init__(self, batch: int, heads: int, rows: int, width: int) -> None:
        self.batch, self.heads, self.rows, self.width = batch, heads, rows, width
        inner = heads * width
        self.lines = [rows * inner, width, inner]  # strides of batch, head and row: heads joined
        self.square = [heads * rows * rows, rows * rows, rows]

    def tensors(self) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        shape = (self.batch, self.rows, self.heads * self.width)
        made = {name: torch.randn(shape, generator=generator).half() for name in "qkv"}
        return {name: t.to("spyre") for name, t in made.items()}

    def stages(self) -> list[list[str]]:
        b, h, r, w = self.batch, self.heads, self.rows, self.width
        lines, square = self.lines, self.square
        return [
            self._stage(
                [b, h, r, r],
                [w],
                [
                    ("q", [*lines, 0, 1]),
                    ("k", [*lines[:2], 0, lines[2], 1]),
                    ("s", [*square, 1, 0]),
                ],
                [*DOT, "%3 = const_f 0.125", "%4 = mul %2 %3", "store a2 %4"],
            ),
            self._stage([b, h, r], [r], [("s", [*square, 1]), ("p", [*square, 1])], SOFTMAX),
            self._stage(
                [b, h, r, w],
                [r],
                [
                    ("p", [*square, 0, 1]),
                    ("v", [*lines[:2], 0, 1, lines[2]]),
                    ("o", [*lines, 1, 0]),
                ],
                [*DOT, "store a2 %2"],
            ),
        ]

    @staticmethod
    def _stage(
        loops: list[int], reduce: list[int], accesses: list[tuple[str, list[int]]], body: list[str]
    ) -> list[str]:
        lines = ['stage "s"', *(f"  loop {e}" for e in loops)]
        lines += [f"  loop {e} reduce" for e in reduce]
        lines += [
            f"  access a{i} {name} stride {numbers(strides)} offset 0"
            for i, (name, strides) in enumerate(accesses)
        ]
        return [*lines, *("  " + line for line in body)]

    def apart(self, tensors: dict[str, torch.Tensor], out: torch.Tensor) -> None:
        """Each stage as a program of its own."""
        size = (self.batch, self.heads, self.rows, self.rows)
        everything = {
            **tensors,
            "s": torch.empty(size, device="spyre"),
            "p": torch.empty(size, dtype=torch.float16, device="spyre"),
            "o": out,
        }
        for lines, names in zip(self.stages(), ("qks", "sp", "pvo"), strict=True):
            declared = [buffer(name, everything[name]) for name in names]
            run(self._text([*declared, *lines]), [everything[name] for name in names])

    def together(self, tensors: dict[str, torch.Tensor], out: torch.Tensor) -> None:
        """One program, what stages hand on in temporaries."""
        size = numbers((self.batch, self.heads, self.rows, self.rows))
        strides = numbers([*self.square, 1])
        declared = [buffer(name, tensor) for name, tensor in {**tensors, "o": out}.items()]
        declared.append(f"buffer s temp float32 size {size} stride {strides}")
        declared.append(f"buffer p temp float16 size {size} stride {strides}")
        lines = [line for stage in self.stages() for line in stage]
        run(self._text([*declared, *lines]), [*tensors.values(), out])

    @staticmethod
    def _text(lines: list[str]) -> str:
        return "\n".join(["spyre.program 1", 'name "test"', *lines]) + "\n"


# Large enough to be worked through in slices; rows in one tile and in several, heads that are and
# are not whole sticks, batches that do not divide evenly.
SHAPES = [(8, 12, 64, 32), (3, 5, 200, 64), (2, 3, 300, 20), (1, 7, 256, 64), (9, 1, 256, 64)]


@pytest.mark.parametrize("shape", SHAPES)
def test_slices_give_the_same_bits(shape: tuple[int, int, int, int]) -> None:
    work = Attention(*shape)
    tensors = work.tensors()
    want, got = torch.empty_like(tensors["q"]), torch.empty_like(tensors["q"])
    work.apart(tensors, want)
    work.together(tensors, got)
    assert torch.equal(got.cpu(), want.cpu())
    q, k, v = (
        t.cpu().float().view(shape[0], shape[2], shape[1], shape[3]).transpose(1, 2)
        for t in tensors.values()
    )
    exact = torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v
    exact = exact.transpose(1, 2).reshape(want.shape)
    torch.testing.assert_close(got.cpu().float(), exact, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", "qkv")
def test_a_result_over_an_operand(name: str) -> None:
    # A slice writes what later slices still read: such stages must run one after the other.
    work = Attention(8, 12, 64, 32)
    tensors = work.tensors()
    want = torch.empty_like(tensors["q"])
    work.apart(tensors, want)
    work.together(tensors, tensors[name])
    assert torch.equal(tensors[name].cpu(), want.cpu())


def test_a_result_over_a_part_of_an_operand() -> None:
    work = Attention(8, 12, 64, 32)
    tensors = work.tensors()
    want = torch.empty_like(tensors["q"])
    work.apart(tensors, want)
    memory = torch.zeros(9, 64, 384, dtype=torch.float16, device="spyre")
    memory[1:].copy_(tensors["q"])
    tensors["q"] = memory[1:]
    work.together(tensors, memory[:8])
    assert torch.equal(memory[:8].cpu(), want.cpu())
