# SPDX-License-Identifier: Apache-2.0
"""The Spyre compiler: PyTorch Inductor graphs become device programs.

Importing this package loads neither dynamo nor Inductor; see `register`.
"""

from __future__ import annotations

from typing import Any

from spyre_inductor._version import __version__
from spyre_inductor.register import post_import_hooks, spyre_backend

__all__ = ["__version__", "explain", "post_import_hooks", "spyre_backend"]


def explain(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """Compiles `fn` for these arguments and reports what became of it; see `report.Report`."""
    from spyre_inductor.report import explain as run

    return run(fn, *args, **kwargs)
