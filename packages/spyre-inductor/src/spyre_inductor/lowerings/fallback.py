# SPDX-License-Identifier: Apache-2.0
"""The way out: an operation that stays outside programs and runs eagerly."""

from __future__ import annotations

from typing import Any

from torch._inductor.lowering import fallback_handler

from spyre_inductor.report_log import note_fallback


def fall_back(target: Any, reason: str, args: Any, kwargs: Any) -> Any:
    """The operation as an eager call, with the reason noted for reports."""
    note_fallback(str(target), reason)
    result = fallback_handler(target, add_to_fallback_set=False)(*args, **kwargs)
    if result is not None:
        return result
    # None would ask Inductor for its own lowering; what changes a list in place stands for it
    return list(args[0]) if args and isinstance(args[0], (list, tuple)) else ()
