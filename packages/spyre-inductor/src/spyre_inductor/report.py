# SPDX-License-Identifier: Apache-2.0
"""`explain`: what became of a function when it was compiled for the device."""

from __future__ import annotations

import html
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from spyre_inductor import torch_compat
from spyre_inductor.codegen.text import ProgramText
from spyre_inductor.config import CompilerConfig, compiler_config
from spyre_inductor.estimate import CARD, Card, Cost, estimate, show_bytes, show_seconds
from spyre_inductor.ir.expr import print_expr
from spyre_inductor.ir.kernel import Kernel
from spyre_inductor.ir.program import Program
from spyre_inductor.report_log import Fallback, recording


@dataclass
class Report:
    """Programs, fallbacks and graph breaks of one compilation.

    Attributes:
        programs: IR after all passes, and printed form, of each program.
        fallbacks: operations left to eager execution, with reasons.
        graph_breaks: reasons for which dynamo ended a graph.
        graphs: graphs compiled.
        card: figures that times are estimated with.
    """

    config: CompilerConfig
    programs: list[tuple[Program, ProgramText]] = field(default_factory=list)
    fallbacks: list[Fallback] = field(default_factory=list)
    graph_breaks: list[str] = field(default_factory=list)
    graphs: int = 0
    card: Card = CARD

    @property
    def kernel_count(self) -> int:
        """Kernels in all programs."""
        return sum(len(program.kernels) for program, _ in self.programs)

    def text(self) -> str:
        """The whole report as plain text."""
        lines = self._summary()
        for program, text in self.programs:
            lines += [
                "",
                f"{program.name}: {len(program.kernels)} kernels, {len(text.args)} arguments",
            ]
            lines += [
                f"  {line}"
                for kernel in program.kernels
                for line in _describe(kernel, program, self.card)
            ]
            lines += [
                f"  buffer {name}: {buffer.kind}" + (f", {buffer.why}" if buffer.why else "")
                for name, buffer in program.buffers.items()
                if buffer.kind != "arg" and name in program.used()
            ]
            lines += ["", *("    " + line for line in text.text.rstrip().splitlines())]
        lines += [
            "",
            "estimates of a card assume:",
            *(f"  {line}" for line in self.card.assumptions()),
        ]
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """The report as one HTML page without outside references."""
        parts = ["<!doctype html><meta charset=utf-8><title>spyre compile report</title>"]
        parts.append(
            "<style>body{font:15px sans-serif;margin:2em}"
            "pre{background:#f4f4f4;padding:1em}</style>"
        )
        parts.append("<h1>Compiled for Spyre</h1><ul>")
        parts += [f"<li>{html.escape(line)}</li>" for line in self._summary() if line]
        parts.append("</ul>")
        for program, text in self.programs:
            parts.append(f"<h2>{html.escape(program.name)}</h2><ul>")
            parts += [
                f"<li>{html.escape(line.strip())}</li>"
                for kernel in program.kernels
                for line in _describe(kernel, program, self.card)
            ]
            parts.append(
                f"</ul><details><summary>program text</summary>"
                f"<pre>{html.escape(text.text)}</pre></details>"
            )
        parts.append("<h2>Estimates of a card assume</h2><ul>")
        parts += [f"<li>{html.escape(line)}</li>" for line in self.card.assumptions()]
        parts.append("</ul>")
        return "".join(parts)

    def __str__(self) -> str:
        return self.text()

    def costs(self) -> list[tuple[str, Cost | None]]:
        """Names of the stages and what each costs; None where sizes are not known."""
        return [
            (kernel.name, estimate(kernel, program))
            for program, _ in self.programs
            for kernel in program.kernels
        ]

    def _total(self) -> str:
        costs = [cost for _, cost in self.costs()]
        known = [cost for cost in costs if cost is not None]
        moved = sum(cost.read + cost.written for cost in known)
        line = (
            f"a run moves {show_bytes(moved)} of device memory and takes a card about "
            f"{show_seconds(sum(cost.seconds(self.card) for cost in known))}"
        )
        left = len(costs) - len(known)
        return line + (f", without {left} kernels of sizes not known yet" if left else "")

    def _summary(self) -> list[str]:
        config = self.config
        lines = [
            f"{self.graphs} graphs, {len(self.programs)} programs, {self.kernel_count} kernels",
            f"divided over {config.cores} cores; scratchpad planning "
            + (f"on, {config.lx_bytes} bytes a core" if config.lx_planning else "off"),
        ]
        lines.append(self._total())
        lines += [f"runs eagerly: {f.op}: {f.reason}" for f in self.fallbacks] or [
            "runs eagerly: nothing"
        ]
        lines += [f"graph break: {reason}" for reason in self.graph_breaks] or [
            "graph breaks: none"
        ]
        return lines


def _describe(kernel: Kernel, program: Program, card: Card) -> list[str]:
    loops = " x ".join(
        print_expr(loop.extent)
        + (" reduced" if loop.reduce else "")
        + (f" over {loop.parts} cores" if loop.parts else "")
        for loop in kernel.loops
    )
    ops = Counter(
        v.op for v in kernel.values() if v.op not in ("load", "const_f", "const_i", "iota")
    )
    listed = ", ".join(f"{op} x{count}" if count > 1 else op for op, count in ops.items())
    return [
        f"kernel {kernel.name}: {loops or 'one element'}",
        f"  does {listed or 'a copy'}",
        f"  from {', '.join(kernel.origins) or 'the graph'}",
        f"  {_describe_cost(estimate(kernel, program), card)}",
        *(f"  {note}" for note in kernel.notes),
    ]


def _describe_cost(cost: Cost | None, card: Card) -> str:
    if cost is None:
        return "moves what depends on sizes not known yet"
    text = f"reads {show_bytes(cost.read)}, writes {show_bytes(cost.written)}"
    if cost.lx:
        text += f", {show_bytes(cost.lx)} in scratchpads"
    text += f"; about {show_seconds(cost.seconds(card))} on a card, held up by its "
    text += cost.bound(card)
    if cost.scattered:
        names = ", ".join(dict.fromkeys(cost.scattered))
        text += f"; each element of {names} fetches a stick of its own"
    return text


def explain(fn: Any, *args: Any, **kwargs: Any) -> Report:
    """Compiles `fn` afresh, runs it once on these arguments, and reports.

    Args:
        fn: a function or module, as for torch.compile.
        *args: example arguments, on the device.
        **kwargs: the same by name.
    """
    torch._dynamo.reset()
    with recording() as log, torch_compat.fresh_caches():
        before = torch_compat.graph_breaks()
        torch.compile(fn, backend="spyre")(*args, **kwargs)
        breaks = torch_compat.graph_breaks() - before
    torch._dynamo.reset()
    return Report(
        compiler_config(),
        log.programs,
        log.fallbacks,
        [reason for reason, count in breaks.items() for _ in range(count)],
        log.graphs,
    )
