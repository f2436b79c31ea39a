"""``%load_ext tprof``: cells of IPython and Jupyter whose joules are shown below them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .cells import Cells

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

_loaded: dict[int, Cells] = {}


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add ``%%tprof`` and ``%tprof``; called by ``%load_ext tprof``."""
    from .cells import Cells  # noqa: PLC0415 - brings IPython

    if id(shell) not in _loaded:
        _loaded[id(shell)] = Cells(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take them out again; called by ``%unload_ext tprof``."""
    cells = _loaded.pop(id(shell), None)
    if cells is not None:
        cells.close()
