# SPDX-License-Identifier: Apache-2.0
"""Order: kernels that hand something on stand beside those that take it.

Before: kernels in the order of the graph, where a kernel may stand between two others that it has
nothing to do with: the projection of attention's values, between its scores and its softmax.
After: such a kernel goes first, so that the device may work through the others together, piece by
piece, and what they hand on stays near its cores.
"""

from __future__ import annotations

from collections.abc import Callable

from spyre_inductor.ir.kernel import Kernel
from spyre_inductor.ir.program import Program


def order_kernels(program: Program, root_of: Callable[[str], str]) -> None:
    """Moves kernels up from between others, where nothing depends on the order."""
    kernels = program.kernels
    reads = {id(k): {root_of(b) for b in k.reads()} for k in kernels}
    writes = {id(k): {root_of(b) for b in k.writes()} for k in kernels}

    def feeds(a: Kernel, b: Kernel) -> bool:
        return bool(writes[id(a)] & reads[id(b)])

    def may_swap(a: Kernel, b: Kernel) -> bool:
        return not (
            feeds(a, b) or writes[id(b)] & (reads[id(a)] | writes[id(a)]) or a.checks or b.checks
        )

    for start in range(1, len(kernels) - 1):
        place = start
        while (
            place > 0
            and may_swap(kernels[place - 1], kernels[place])
            and feeds(kernels[place - 1], kernels[place + 1])
        ):
            kernels[place - 1 : place + 1] = kernels[place], kernels[place - 1]
            place -= 1
