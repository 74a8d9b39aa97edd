# SPDX-License-Identifier: Apache-2.0
"""What happened during compilations, for `explain` and for tests. Nothing here changes results."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from spyre_inductor.codegen.text import ProgramText
from spyre_inductor.ir.program import Program


@dataclass
class Fallback:
    """An operation that runs eagerly, outside programs, and why."""

    op: str
    reason: str


@dataclass
class CompileLog:
    """Programs and fallbacks of the compilations inside a `recording()` block."""

    programs: list[tuple[Program, ProgramText]] = field(default_factory=list)
    fallbacks: list[Fallback] = field(default_factory=list)
    graphs: int = 0


_active = threading.local()


@contextmanager
def recording() -> Iterator[CompileLog]:
    """Collects what compilations of this thread do."""
    outer = getattr(_active, "log", None)
    _active.log = CompileLog()
    try:
        yield _active.log
    finally:
        _active.log = outer


def note_program(program: Program, text: ProgramText) -> None:
    """Called by code generation for each program."""
    log = getattr(_active, "log", None)
    if log is not None:
        log.programs.append((program, text))


def note_fallback(op: str, reason: str) -> None:
    """Called where an operation is left to eager execution."""
    log = getattr(_active, "log", None)
    if log is not None and Fallback(op, reason) not in log.fallbacks:
        log.fallbacks.append(Fallback(op, reason))


def note_graph() -> None:
    """Called for each graph that reaches the backend."""
    log = getattr(_active, "log", None)
    if log is not None:
        log.graphs += 1
