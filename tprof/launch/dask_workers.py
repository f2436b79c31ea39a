"""Marks the tasks of dask's workers in a program that `tprof run` records; its configuration stays as it is.

A worker is one when its class makes it. So the module with the class is awaited: most programs never import it.
"""

from __future__ import annotations

import functools
from typing import Any

from .after_import import after_import

MODULE = "distributed.worker"


def mark_dask_workers() -> None:
    """Mark the tasks of each worker that this process makes from now on."""
    after_import(MODULE, _mark_new)


def _mark_new(module: Any) -> None:
    create = module.Worker.__init__

    @functools.wraps(create)
    def create_marked(worker: Any, *arguments: Any, **options: Any) -> None:
        create(worker, *arguments, **options)
        from tprof.dask.worker_hooks import mark_tasks

        mark_tasks(worker)

    module.Worker.__init__ = create_marked
