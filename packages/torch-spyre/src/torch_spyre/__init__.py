# SPDX-License-Identifier: Apache-2.0
"""The IBM Spyre accelerator as a PyTorch device.

With this package installed, ``import torch`` alone makes ``device="spyre"`` and ``torch.spyre``
work. Importing ``torch_spyre`` does the same by hand, also under
``TORCH_DEVICE_BACKEND_AUTOLOAD=0``, and before or after torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from torch_spyre._registration import autoload as _autoload
from torch_spyre._version import __version__

__all__ = ["__version__"]

# Reached as attributes without an import of their own: `torch_spyre._C`, `torch_spyre.constants`.
_LAZY_MODULES = frozenset({"_C", "_inductor", "constants", "device"})


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_MODULES})


# Last, so that torch's own autoload, which may run inside this call, finds the module complete.
_autoload()
