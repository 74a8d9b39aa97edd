# SPDX-License-Identifier: Apache-2.0
"""Brings two kernels to one iteration space, splitting and renaming loops.

`pair_kernels(a, b)` finds a one-to-one correspondence between loops of `b` and loops of `a` such
that `b` reads what `a` stores at the iteration that stores it. Loops are matched first through
those accesses (equal strides mean the same loop), the rest in order. Where extents differ but one
divides the other, the longer loop is split.
"""

from __future__ import annotations

from spyre_inductor.ir.expr import Expr, exact_quotient, is_equal
from spyre_inductor.ir.kernel import Access, Kernel, Loop


class NoPairingError(Exception):
    """The kernels have no common iteration space; says why."""


class Pairing:
    """Kernels `a` and `b`, split as far as needed, and loops of `b` that are loops of `a`."""

    def __init__(self, a: Kernel, b: Kernel):
        self.a = a
        self.b = b
        self.to_a: dict[int, int] = {}  # loop id of b -> loop id of a

    def pair_accesses(self, stored: Access, loaded: Access) -> None:
        """Pairs the loops that `stored` (of a) and `loaded` (of b) run over."""
        for _ in range(32):
            left = self._unpaired(stored, self.a, set(self.to_a.values()))
            right = self._unpaired(loaded, self.b, set(self.to_a))
            if not left and not right:
                return
            if not left or not right:
                raise NoPairingError(f"{stored.buffer} is not read the way it is written")
            (a_loop, a_stride), (b_loop, b_stride) = left[0], right[0]
            if not is_equal(a_stride, b_stride):
                raise NoPairingError(f"{stored.buffer} is read with other strides than written")
            stored, loaded = self._match(a_loop, b_loop, stored, loaded)
        raise NoPairingError("too many loops")

    def pair_rest(self, a_loops: list[Loop], b_loops: list[Loop]) -> None:
        """Pairs what is left of two lists of loops, innermost first."""
        for _ in range(32):
            used_a, used_b = set(self.to_a.values()), set(self.to_a)
            left = [l for l in a_loops if l.id not in used_a and l.extent != 1]
            right = [l for l in b_loops if l.id not in used_b and l.extent != 1]
            if not left and not right:
                return
            if not left or not right:
                raise NoPairingError("the iteration spaces have different sizes")
            before_a, before_b = self.a.loops, self.b.loops
            self._match(left[-1], right[-1], None, None)
            a_loops = _refresh(a_loops, before_a, self.a.loops)
            b_loops = _refresh(b_loops, before_b, self.b.loops)
        raise NoPairingError("too many loops")

    def _unpaired(self, access: Access, kernel: Kernel, used: set[int]) -> list[tuple[Loop, Expr]]:
        loops = {loop.id: loop for loop in kernel.loops}
        terms = [
            (loops[loop], stride)
            for loop, stride in access.strides
            if loop not in used and loops[loop].extent != 1
        ]
        if any(not isinstance(stride, int) for _, stride in terms):
            places = {loop.id: n for n, loop in enumerate(kernel.loops)}
            return sorted(terms, key=lambda term: _symbolic_rank(term[1], places[term[0].id]))
        return sorted(terms, key=lambda term: term[1])

    def _match(
        self, a_loop: Loop, b_loop: Loop, stored: Access | None, loaded: Access | None
    ) -> tuple[Access, Access]:
        """Pairs two loops, or splits the longer one so that its inner part can be paired next."""
        if is_equal(a_loop.extent, b_loop.extent):
            self.to_a[b_loop.id] = a_loop.id
        elif (outer := exact_quotient(b_loop.extent, a_loop.extent)) is not None:
            self.b, o, i = self.b.split(b_loop, a_loop.extent, outer)
            if loaded is not None:
                loaded = loaded.substitute({b_loop.id: [(o.id, a_loop.extent), (i.id, 1)]})
        elif (outer := exact_quotient(a_loop.extent, b_loop.extent)) is not None:
            self.a, o, i = self.a.split(a_loop, b_loop.extent, outer)
            if stored is not None:
                stored = stored.substitute({a_loop.id: [(o.id, b_loop.extent), (i.id, 1)]})
        else:
            raise NoPairingError(
                f"loops of {a_loop.extent} and {b_loop.extent} do not divide each other"
            )
        return stored, loaded  # type: ignore[return-value]


def _symbolic_rank(stride: Expr, place: int) -> tuple[int, int, int]:
    """Sorts numbers before symbolic strides, and inner loops before outer ones among those."""
    return (0, stride, -place) if isinstance(stride, int) else (1, 0, -place)


def _refresh(wanted: list[Loop], before: list[Loop], after: list[Loop]) -> list[Loop]:
    """`wanted`, with a loop that was split replaced by its parts."""
    if before == after:
        return wanted
    old = {loop.id for loop in before}
    fresh = [loop for loop in after if loop.id not in old]
    alive = {loop.id for loop in after}
    result: list[Loop] = []
    for loop in wanted:
        result.extend([loop] if loop.id in alive else fresh)
    return result
