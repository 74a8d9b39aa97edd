# SPDX-License-Identifier: Apache-2.0
"""The order of the passes over a program, each printable before and after."""

from __future__ import annotations

from collections.abc import Callable

from spyre_inductor import log
from spyre_inductor.config import CompilerConfig
from spyre_inductor.ir.program import Program
from spyre_inductor.passes.coalesce_loops import coalesce_loops
from spyre_inductor.passes.divide_work import divide_work
from spyre_inductor.passes.fuse import fuse
from spyre_inductor.passes.insert_restickify import insert_restickify
from spyre_inductor.passes.keep_infinities import keep_infinities
from spyre_inductor.passes.order_kernels import order_kernels
from spyre_inductor.passes.place_buffers import place_buffers
from spyre_inductor.passes.plan_lx import plan_lx
from spyre_inductor.passes.propagate_layouts import propagate_layouts
from spyre_inductor.passes.simplify import simplify


def run_passes(program: Program, config: CompilerConfig, root_of: Callable[[str], str]) -> None:
    """Runs every pass, in order, in place."""

    def fuse_kernels(p: Program) -> None:
        p.kernels = fuse(p.kernels, root_of)

    def coalesce(p: Program) -> None:
        p.kernels = [coalesce_loops(kernel) for kernel in p.kernels]

    def simplify_values(p: Program) -> None:
        p.kernels = [simplify(kernel) for kernel in p.kernels]

    passes: list[tuple[str, Callable[[Program], None]]] = [
        ("fuse", fuse_kernels),
        ("simplify", simplify_values),
        ("order_kernels", lambda p: order_kernels(p, root_of)),
        ("place_buffers", place_buffers),
        ("keep_infinities", keep_infinities),
        ("propagate_layouts", propagate_layouts),
        ("insert_restickify", insert_restickify),
        ("coalesce_loops", coalesce),
        ("divide_work", lambda p: divide_work(p, config.cores)),
    ]
    if config.lx_planning:
        passes.append(("plan_lx", lambda p: plan_lx(p, config.lx_bytes)))
    for name, run in passes:
        log.log_pass(name, "before", program.text)
        run(program)
        log.log_pass(name, "after", program.text)
