# SPDX-License-Identifier: Apache-2.0
"""Registers Spyre with PyTorch: names now, the compiler when its modules are imported.

PyTorch calls :func:`autoload` at the end of ``import torch``, through the entry point group
``torch.backends``. It must be quick, may be called again, and must never raise, since an exception
here is one of ``import torch``. What goes wrong is kept and raised by the first use of the device.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from torch_spyre import _libraries, _siblings
from torch_spyre.constants import DEVICE_NAME

_is_registered = False
# What a broken sibling may raise while it is imported. Only an interrupt is the user's own.
_CAUGHT = (Exception, SystemExit)


def autoload() -> None:
    """Register the device; do nothing if that has been done."""
    global _is_registered
    # May run torch's autoload, and so this function, to the end: look at the flag only afterwards.
    import torch  # noqa: F401

    if _is_registered:
        return
    _is_registered = True
    try:
        message = _siblings.problem() or _libraries.problem()
        if message is not None:
            _register_broken(message, None)
            return
        _register()
    except _CAUGHT as error:
        _register_broken(f"torch-spyre could not register the device: {_described(error)}", error)


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _imported(package: str, name: str) -> Any:
    """Import a name of a sibling; what that raises says which one it was and what to do."""
    try:
        return getattr(import_module(package), name)
    except _CAUGHT as error:
        raise ImportError(
            f"importing {package} failed with {_described(error)}; install it again with: "
            f"pip install --force-reinstall --no-deps {package.replace('_', '-')}"
        ) from error


def _register() -> None:
    register = _imported("spyre_runtime", "register")

    # Inductor's compile workers need the device's name and nothing else of it.
    names_only = os.environ.get("IS_INDUCTOR_SPAWNED_SUBPROCESS") == "1"
    register(names_only=names_only)
    if names_only:
        return

    post_import_hooks = _imported("spyre_inductor", "post_import_hooks")
    from spyre_runtime.post_import import when_imported

    for module, hook in post_import_hooks().items():
        when_imported(module, _harmless(module, hook))


def _harmless(module: str, hook: Callable[[], None]) -> Callable[[], None]:
    """Return ``hook`` with its exceptions as warnings: who compiles for the CPU imports it too."""

    def run() -> None:
        try:
            hook()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the compiler
            warnings.warn(
                f"torch-spyre could not prepare {module}, so compiling for {DEVICE_NAME} will "
                f"fail: {type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )

    return run


def _register_broken(message: str, cause: BaseException | None) -> None:
    """Put a device module in place that says what is wrong instead of working."""
    import torch

    if torch._C._get_privateuse1_backend_name() == "privateuseone":
        torch.utils.rename_privateuse1_backend(DEVICE_NAME)
    module = _BrokenDevice(message, cause)
    # Registration may have failed halfway; torch refuses a second module under one name.
    sys.modules.pop(f"torch.{DEVICE_NAME}", None)
    if hasattr(torch, DEVICE_NAME):
        delattr(torch, DEVICE_NAME)
    torch._register_device_module(DEVICE_NAME, module)


class _BrokenDevice(ModuleType):
    """Stands for ``torch.spyre`` when it cannot work.

    PyTorch asks a device module harmless questions on behalf of CPU users (``torch.manual_seed``,
    ``torch.accelerator.is_available``): those are answered. All else raises, with the reason.
    """

    def __init__(self, message: str, cause: BaseException | None) -> None:
        super().__init__(f"torch.{DEVICE_NAME}", message)
        self._message = message
        self._cause = cause
        self._has_warned = False

    def is_available(self) -> bool:
        self._warn_once()
        return False

    def device_count(self) -> int:
        self._warn_once()
        return 0

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(self._message, RuntimeWarning, stacklevel=3)

    def is_initialized(self) -> bool:
        return False

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Called by ``torch.manual_seed``; there is no generator to seed."""

    def _lazy_init(self) -> NoReturn:
        """PyTorch calls this before it makes the first tensor on the device."""
        raise RuntimeError(self._message) from self._cause

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"torch.{DEVICE_NAME}.{name}: {self._message}") from self._cause
