# SPDX-License-Identifier: Apache-2.0
"""Integers that callers give: checked before the compiled part sees them."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any


def integers(values: Iterable[Any], what: str) -> list[int]:
    """Return a list of ints; a TypeError names what was given instead."""
    try:
        result = [index(value) for value in values]
    except TypeError:
        raise TypeError(f"{what} is {values!r}; expected a sequence of integers") from None
    for value in result:
        _check_width(value, what)
    return result


def integer(value: Any, what: str) -> int:
    """Return an int; a TypeError or ValueError names what was given instead."""
    try:
        result = index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}; expected an integer") from None
    _check_width(result, what)
    return result


def _check_width(value: int, what: str) -> None:
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{what} holds {value}, which is more than a 64-bit integer counts")
