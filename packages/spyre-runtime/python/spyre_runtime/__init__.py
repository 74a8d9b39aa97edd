# SPDX-License-Identifier: Apache-2.0
"""The Spyre device for PyTorch: the runtime, its eager kernels, and the module ``torch.spyre``.

Importing this package imports neither torch nor native code, so that PyTorch's autoload may import
it while ``torch`` itself is half-way through. :func:`register` does the rest; the other names load
what they need on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spyre_runtime._registration import register

if TYPE_CHECKING:
    from spyre_runtime._C import Program, op_table, program_stats
    from spyre_runtime.layouts import (
        get_downcast_warning,
        get_spyre_tensor_layout,
        set_downcast_warning,
        set_spyre_tensor_layout,
    )
    from spyre_runtime.properties import SpyreDeviceProperties, get_device_properties

# Name -> the module that defines it.
_LAZY_NAMES = {
    "Program": "_C",
    "op_table": "_C",
    "program_stats": "_C",
    "__version__": "_C",
    "get_downcast_warning": "layouts",
    "set_downcast_warning": "layouts",
    "get_spyre_tensor_layout": "layouts",
    "set_spyre_tensor_layout": "layouts",
    "SpyreDeviceProperties": "properties",
    "get_device_properties": "properties",
}

__all__ = [
    "Program",
    "SpyreDeviceProperties",
    "get_device_properties",
    "get_downcast_warning",
    "get_spyre_tensor_layout",
    "op_table",
    "program_stats",
    "register",
    "set_downcast_warning",
    "set_spyre_tensor_layout",
]


def __getattr__(name: str) -> Any:
    if name == "_C":
        from spyre_runtime._native import native

        return native()
    module = _LAZY_NAMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if module == "_C":
        from spyre_runtime._native import native

        value = getattr(native(), name)
    else:
        value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_NAMES})
