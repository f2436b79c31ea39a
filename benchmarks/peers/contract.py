"""What a peer is: measurements of the work alone, written as the peer's users write it."""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from tprof.benchmarks.programs.cholesky import Tiles


class Peer(ABC):
    """A way to run functions on threads.

    Times are of the work: handing it over, running it and taking the results. Starting and ending threads, which a
    program does once, is left out for all alike.

    Attributes
    ----------
    name : what tables call it.
    package : what has to be installed; empty for the standard library.
    """

    name: ClassVar[str]
    package: ClassVar[str] = ""

    def is_installed(self) -> bool:
        """Return whether it can be used here."""
        return not self.package or importlib.util.find_spec(self.package) is not None

    def load(self) -> Any:
        """Import what has to be installed."""
        return importlib.import_module(self.package)

    @abstractmethod
    def run_cholesky(self, tiles: Tiles, workers: int) -> float:
        """Replace the matrix by its factor and return the seconds that took."""


class BatchPeer(Peer):
    """One that is also given independent tasks.

    Attributes
    ----------
    most_empty : the largest batch of empty tasks, so that none takes much longer than a second.
    """

    most_empty: ClassVar[int] = 1_000_000

    @abstractmethod
    def run_empty(self, count: int, workers: int) -> float:
        """Return the seconds that so many independent empty tasks take."""


class GraphPeer(BatchPeer):
    """One that finds out by itself, or from a graph, which task may run."""

    @abstractmethod
    def run_grid(self, side: int, workers: int) -> float:
        """Return the seconds that the empty tasks of `grid.steps(side)` take."""
