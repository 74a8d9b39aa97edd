# SPDX-License-Identifier: Apache-2.0
"""Prints a program in the text form of docs/design/0001-device-programs.md."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spyre_inductor.codegen.phases import plan_phases
from spyre_inductor.errors import UnsupportedError
from spyre_inductor.ir.expr import print_expr, symbols_of
from spyre_inductor.ir.kernel import Access, Kernel, Value
from spyre_inductor.ir.program import ARG, Program
from spyre_inductor.ops.table import STORAGE_DTYPES


@dataclass(frozen=True)
class ProgramText:
    """A printed program and how to launch it.

    Attributes:
        args: buffers to pass, by Inductor's names, in order.
        symbols: size symbols whose values to pass, in order.
    """

    text: str
    args: tuple[str, ...]
    symbols: tuple[str, ...]


def print_program(program: Program) -> ProgramText:
    """Text of a program and the order of its arguments."""
    used = list(program.used())
    names = {name: f"b{number}" for number, name in enumerate(used)}
    stages: list[str] = []
    symbols: dict[str, None] = {}
    for name in used:
        buffer = program.buffers[name]
        for expr in (*buffer.size, *buffer.stride):
            symbols.update(dict.fromkeys(sorted(map(str, symbols_of(expr)))))
    for kernel in program.kernels:
        symbols.update(dict.fromkeys(sorted(_kernel_symbols(kernel))))
        stages += _print_stage(kernel, names)
    lines = ["spyre.program 1", f'name "{program.name}"']
    lines += [f"symbol {symbol}" for symbol in symbols]
    for name in used:
        buffer = program.buffers[name]
        if buffer.dtype not in STORAGE_DTYPES:
            raise UnsupportedError(
                f"buffer {name} has dtype {buffer.dtype}, which has no device format; "
                f"cast to one of {', '.join(STORAGE_DTYPES.values())}"
            )
        size, stride = (", ".join(map(print_expr, each)) for each in (buffer.size, buffer.stride))
        dtype = STORAGE_DTYPES[buffer.dtype]
        lines.append(f"buffer {names[name]} {buffer.kind} {dtype} size [{size}] stride [{stride}]")
    args = tuple(name for name in used if program.buffers[name].kind == ARG)
    return ProgramText("\n".join(lines + stages) + "\n", args, tuple(symbols))


def _kernel_symbols(kernel: Kernel) -> set[str]:
    exprs = [loop.extent for loop in kernel.loops]
    for access in kernel.accesses():
        exprs += [access.offset, *(stride for _, stride in access.strides)]
    for value in kernel.values():
        if value.op == "const_i":
            exprs.append(value.attr)
        elif value.op == "index_check":
            exprs.append(value.attr[0])
    return {str(symbol) for expr in exprs for symbol in symbols_of(expr)}


def _print_stage(kernel: Kernel, names: dict[str, str]) -> list[str]:
    places = {loop.id: n for n, loop in enumerate(kernel.loops)}
    lines = [f'stage "{kernel.name}"']
    lines += [
        f"  loop {print_expr(loop.extent)}"
        + (" reduce" if loop.reduce else "")
        + (f" parts {loop.parts}" if loop.parts else "")
        for loop in kernel.loops
    ]
    accesses: dict[Access, str] = {}
    body: list[str] = []
    registers: dict[int, str] = {}
    count = 0

    def access_name(access: Access) -> str:
        return accesses.setdefault(access, f"a{len(accesses)}")

    for phase in plan_phases(kernel):
        body.append("  phase reduce" if phase.reduce else "  phase")
        for value in phase.values:
            printed = _print_value(value, registers, access_name, places)
            if value.op == "dot" and value.args[0] is value.args[1]:
                # The device's dot takes two loads, of one place as well.
                again = _print_value(value.args[0], registers, access_name, places)
                body.append(f"    %{count} = {again}")
                printed = f"dot {registers[id(value.args[0])]} %{count}"
                count += 1
            registers[id(value)] = f"%{count}"
            body.append(f"    %{count} = {printed}")
            count += 1
        for store in phase.stores:
            index = f" [{registers[id(store.index)]}]" if store.index is not None else ""
            guard = f" if {registers[id(store.predicate)]}" if store.predicate is not None else ""
            verb = "store_add" if store.add else "store"
            body.append(
                f"    {verb} {access_name(store.access)}{index} {registers[id(store.value)]}{guard}"
            )
    for access, label in accesses.items():
        strides = dict(access.strides)
        listed = ", ".join(print_expr(strides.get(loop.id, 0)) for loop in kernel.loops)
        lines.append(
            f"  access {label} {names[access.buffer]} stride [{listed}] "
            f"offset {print_expr(access.offset)}"
        )
    return lines + body


def _print_value(value, registers, access_name, places) -> str:  # type: ignore[no-untyped-def]
    if value.op == "load":
        index, predicate = value.args
        text = f"load {access_name(value.attr)}"
        text += f" [{registers[id(index)]}]" if index is not None else ""
        return text + (f" if {registers[id(predicate)]}" if predicate is not None else "")
    if value.op == "const_f":
        return f"const_f {_print_float(value.attr)}"
    if value.op == "const_i":
        return f"const_i {print_expr(value.attr)}"
    if value.op == "iota":
        return f"iota {places[value.attr]}"
    if value.op == "index_check":
        index, predicate = value.args
        size, wrap = value.attr
        text = f"index_check {registers[id(index)]} {print_expr(size)}" + (" wrap" if wrap else "")
        return text + (f" if {registers[id(predicate)]}" if predicate is not None else "")
    return " ".join([value.op, *(_register(arg, registers) for arg in value.args)])


def _register(value: Value | None, registers: dict[int, str]) -> str:
    assert value is not None
    return registers[id(value)]


def _print_float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value.hex()
