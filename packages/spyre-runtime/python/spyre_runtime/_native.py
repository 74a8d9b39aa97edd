# SPDX-License-Identifier: Apache-2.0
"""Loads the extension module, which needs PyTorch's libraries in the process first."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_loaded: ModuleType | None = None


def native() -> ModuleType:
    """Return ``spyre_runtime._C``, loading it (and so registering its kernels) on first use."""
    global _loaded
    if _loaded is None:
        import torch  # noqa: F401 - brings the libraries that the module links against

        # By name: `from spyre_runtime import _C` would ask the package, which asks here.
        _loaded = import_module("spyre_runtime._C")
    return _loaded
