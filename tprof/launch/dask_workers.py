"""Marks the tasks of dask's workers in a program that `tprof run` records, without touching the program's configuration.

A worker is one when its class makes it. So the module with the class is awaited: most programs never import it.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

MODULE = "distributed.worker"


class _Awaiting(importlib.abc.MetaPathFinder):
    """Finds nothing itself, and changes the class when its module has been imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the module's spec as the other finders find it, with a loader that goes on here."""
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            execute = spec.loader.exec_module

            def execute_and_mark(module: ModuleType) -> None:
                execute(module)
                _mark_new(module)

            spec.loader.exec_module = execute_and_mark  # type: ignore[method-assign]
        return spec


def mark_dask_workers() -> None:
    """Mark the tasks of each worker that this process makes from now on."""
    if MODULE in sys.modules:
        _mark_new(sys.modules[MODULE])
    else:
        sys.meta_path.insert(0, _Awaiting())


def _mark_new(module: Any) -> None:
    create = module.Worker.__init__

    @functools.wraps(create)
    def create_marked(worker: Any, *arguments: Any, **options: Any) -> None:
        create(worker, *arguments, **options)
        from tprof.dask.worker_hooks import mark_tasks

        mark_tasks(worker)

    module.Worker.__init__ = create_marked
