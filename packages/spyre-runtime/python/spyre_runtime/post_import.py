# SPDX-License-Identifier: Apache-2.0
"""Runs a callback right after a module has been imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def when_imported(name: str, callback: Callable[[], None]) -> None:
    """Call ``callback`` once, as soon as the module ``name`` has been executed.

    If it has been already, the callback runs at once. An exception of the callback becomes one of
    the import statement.
    """
    module = sys.modules.get(name)
    if module is not None and not _is_initialising(module):
        callback()
        return
    sys.meta_path.insert(0, _Watcher(name, callback))


def _is_initialising(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


class _Watcher(MetaPathFinder):
    """Finds one module by way of the other finders, and lends it a loader that calls back."""

    def __init__(self, name: str, callback: Callable[[], None]) -> None:
        self._name = name
        self._callback = callback
        self._is_searching = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname != self._name or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = find_spec(fullname)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(spec.loader, self._module_ran)
        return spec

    def _module_ran(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._callback()


class _CallingLoader(Loader):
    """A loader that hands all to another one and calls back once the module has run."""

    def __init__(self, inner: Loader, module_ran: Callable[[], None]) -> None:
        self._inner = inner
        self._module_ran = module_ran

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module keeps its own loader, for inspect, pkgutil and importlib.resources.
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        self._module_ran()
