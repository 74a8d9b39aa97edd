# SPDX-License-Identifier: Apache-2.0
"""Loads the extension module, which needs PyTorch's libraries in the process first."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_loaded: ModuleType | None = None


def native() -> ModuleType:
    """Return ``spyre_runtime._C``, loading it (and so registering its kernels) on first use.

    Raises:
        ImportError: It is missing, damaged, or built for another PyTorch.
    """
    global _loaded
    if _loaded is None:
        import torch  # brings the libraries that the module links against

        try:
            # By name: `from spyre_runtime import _C` would ask the package, which asks here.
            _loaded = import_module("spyre_runtime._C")
        except ImportError as error:
            raise ImportError(
                f"cannot load the native part of spyre-runtime beside PyTorch {torch.__version__}: "
                f"{error}; install it again with: "
                "pip install --force-reinstall --no-deps spyre-runtime"
            ) from error
    return _loaded
