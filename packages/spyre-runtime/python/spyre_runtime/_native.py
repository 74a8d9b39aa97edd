# SPDX-License-Identifier: Apache-2.0
"""Loads the extension module, which needs PyTorch's libraries in the process first."""

from __future__ import annotations

from types import ModuleType

_loaded: ModuleType | None = None


def native() -> ModuleType:
    """Return ``spyre_runtime._C``, loading it (and so registering its kernels) on first use."""
    global _loaded
    if _loaded is None:
        import torch  # noqa: F401 - brings the libraries that the module links against

        from spyre_runtime import _C

        _loaded = _C
    return _loaded
