# SPDX-License-Identifier: Apache-2.0
"""Times callables against each other, fairly: warmed up, in turns, best of many."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

REPEATS = 15
LEAST_SECONDS = 2e-3  # of one timed stretch; shorter work is looped


def best_seconds(
    works: Mapping[str, Callable[[], object]], repeats: int = REPEATS
) -> dict[str, float]:
    """Return the best time of each callable, in seconds a call.

    All take turns, so that what else the machine does falls on all alike. Each callable waits for
    its own work to end.
    """
    loops = {name: _warm_up(work) for name, work in works.items()}
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, work in works.items():
            best[name] = min(best[name], _seconds(work, loops[name]))
    return best


def _warm_up(work: Callable[[], object]) -> int:
    """Run until warm and return how many calls make a stretch worth timing."""
    work()
    work()
    loops = 1
    while (elapsed := _seconds(work, loops) * loops) < LEAST_SECONDS:
        loops = max(loops * 2, int(loops * LEAST_SECONDS / max(elapsed, 1e-7)))
    return loops


def _seconds(work: Callable[[], object], loops: int) -> float:
    start = time.perf_counter()
    for _ in range(loops):
        work()
    return (time.perf_counter() - start) / loops


def readable(seconds: float) -> str:
    """Return a time with a unit that keeps it short."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
