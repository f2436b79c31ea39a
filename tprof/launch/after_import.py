"""Calls a function once a library's module is imported, which most programs never do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def after_import(name: str, call: Callable[[ModuleType], object]) -> None:
    """Call the function with the module: now if it is imported, otherwise as soon as it has been executed."""
    if name in sys.modules:
        call(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Awaiting(name, call))


class _Awaiting:
    """Finds one module, once, as the other finders do, with a loader that goes on here."""

    def __init__(self, name: str, call: Callable[[ModuleType], object]) -> None:
        self._name, self._call = name, call

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the module's spec; None for any other module."""
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path))
        spec = next((spec for spec in found if spec is not None), None)
        loader: Any = None if spec is None else spec.loader
        if hasattr(loader, "exec_module"):
            execute = loader.exec_module

            def execute_and_call(module: ModuleType) -> None:
                execute(module)
                self._call(module)

            loader.exec_module = execute_and_call
        return spec
