# SPDX-License-Identifier: Apache-2.0
"""Inductor's scheduler hands over nodes here; programs and launch lines come out.

Nodes are only collected until something else must run (an eager kernel, another device, the end).
Then the collected run of nodes becomes one program: fusion is a pass over it, not Inductor's
business, so `can_fuse_*` say no.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor.scheduler import BaseScheduling, SchedulerNode
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet
from typing_extensions import override

from spyre_inductor import log, torch_compat
from spyre_inductor.codegen.text import ProgramText, print_program
from spyre_inductor.config import compiler_config
from spyre_inductor.errors import UnsupportedError
from spyre_inductor.ir.capture import capture
from spyre_inductor.ir.expr import as_expr
from spyre_inductor.ir.kernel import Builder, Kernel
from spyre_inductor.ir.program import Buffer, Program
from spyre_inductor.pipeline import run_passes
from spyre_inductor.report_log import note_program


class SpyreScheduling(BaseScheduling):
    """Collects scheduler nodes of one device and turns them into programs."""

    def __init__(self, scheduler: Any):
        super().__init__(scheduler)
        self._pending: list[SchedulerNode] = []
        self._config = compiler_config()
        log.setup()

    @override
    def get_backend_features(self, device: torch.device) -> OrderedSet[Any]:
        return OrderedSet()

    @override
    def group_fn(self, sizes: Sequence[Sequence[sympy.Expr]]) -> Any:
        return tuple(V.graph.sizevars.simplify(sympy_product(each)) for each in sizes)

    @override
    def can_fuse_vertical(self, node1: Any, node2: Any) -> bool:
        return False

    @override
    def can_fuse_horizontal(self, node1: Any, node2: Any) -> bool:
        return False

    @override
    def codegen_node(self, node: Any) -> None:
        self._pending.extend(node.get_nodes())

    @override
    def codegen_sync(self) -> None:
        V.graph.wrapper_code.writeline("torch.spyre.synchronize()")

    @override
    def ready_to_flush(self) -> bool:
        return False

    def flush(self) -> None:
        """Compiles the nodes collected so far into one program and emits its launch."""
        nodes, self._pending = self._pending, []
        if not nodes:
            return
        name = f"spyre_program_{V.graph.wrapper_code.next_kernel_suffix()}"
        program = Program(name, self._kernels(nodes))
        names = OrderedSet(node.get_name() for node in nodes)
        made = {buffer.get_name() for node in nodes for buffer in node.get_outputs()}
        for buffer in program.used():
            removable = buffer in made and self._is_removable(buffer, names)
            program.buffers[buffer] = self._buffer(buffer, removable)
        run_passes(program, self._config, torch_compat.memory_root)
        text = print_program(program)
        for buffer in made:
            if buffer in program.buffers and program.buffers[buffer].removable:
                V.graph.removed_buffers.add(buffer)
        for node in nodes:
            node.mark_run()
        if program.kernels:
            self._emit(program, text)
            note_program(program, text)

    def _kernels(self, nodes: list[SchedulerNode]) -> list[Kernel]:
        builder = Builder()
        kernels: list[Kernel] = []
        for node in nodes:
            try:
                kernel = capture(
                    node._body, builder, torch_compat.buffer_dtype, torch_compat.real_name
                )
            except UnsupportedError as error:
                torch_compat.note_unsupported(node.node, str(error))
                raise
            origins = tuple(sorted(origin.name for origin in node.node.get_origins()))
            kernel.name = node.get_name()
            kernel.origins = origins
            kernels.append(kernel)
        return kernels

    def _is_removable(self, name: str, node_names: OrderedSet[str]) -> bool:
        return torch_compat.memory_root(
            name
        ) == name and self.scheduler.can_buffer_be_removed_through_fusion(name, node_names)

    @staticmethod
    def _buffer(name: str, removable: bool) -> Buffer:
        size, stride = torch_compat.buffer_shape(name)
        dtype = torch_compat.buffer_dtype(name)
        return Buffer(
            name,
            dtype,
            [as_expr(s) for s in size],
            [as_expr(s) for s in stride],
            removable=removable,
        )

    @staticmethod
    def _emit(program: Program, text: ProgramText) -> None:
        wrapper = V.graph.wrapper_code
        wrapper.define_kernel(program.name, f"load_program('''\n{text.text}''')", gpu=False)
        device = V.graph.scheduler.current_device
        args: list[str] = []
        for name in text.args:
            where = torch_compat.buffer_device(name)
            if where is not None and where.type == "cpu":
                args.append(
                    f"on_device({name}, '{device.type}:{device.index or 0}', "
                    f"{program.buffers[name].dtype})"
                )
            else:
                args.append(name)
        for symbol in V.graph.sizevars.inv_precomputed_replacements:
            if str(symbol) in text.symbols:
                wrapper.ensure_size_computed(symbol)
        wrapper.writeline(
            f"{program.name}.launch([{', '.join(args)}], [{', '.join(text.symbols)}])"
        )
