"""Marks what Ray's workers execute in a program that `tprof run` records: they have its environment, and no set-up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .after_import import after_import

if TYPE_CHECKING:
    from types import ModuleType

PROGRAM = "default_worker.py"
MODULE = "ray._private.function_manager"


def mark_ray_worker() -> None:
    """Mark remote functions and methods of actors, if this process is a worker of Ray."""
    if any(Path(word).name == PROGRAM for word in sys.orig_argv):
        after_import(MODULE, _mark)


def _mark(module: ModuleType) -> None:
    from tprof.ray.marking import mark_in

    mark_in(module)
