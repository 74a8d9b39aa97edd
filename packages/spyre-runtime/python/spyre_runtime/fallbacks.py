# SPDX-License-Identifier: Apache-2.0
"""Operators that ran on the CPU for want of a device kernel."""

from __future__ import annotations

from spyre_runtime._native import native

__all__ = ["fallbacks", "reset_fallbacks"]


def fallbacks() -> dict[str, int]:
    """Return how often each operator fell back to the CPU, since the start or the last reset."""
    return dict(native().fallback_counts())


def reset_fallbacks() -> None:
    """Forget the counts of :func:`fallbacks`."""
    native().reset_fallback_counts()
