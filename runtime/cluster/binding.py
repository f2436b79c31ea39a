"""Binds a call of a task to data: which arguments come from other tasks, and what the call leaves for later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tprof.declarations import READS, WRITES
from tprof.errors import UsageError

from .cluster_task import ClusterTask
from .data import Datum, Outcome, Version
from .remote import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tprof.declarations import Access

    from .data import Data

Path = tuple[int | str, ...]
"""The place of a value in a call: number or name of the argument, and number of the item if that is a list."""


class Argument(NamedTuple):
    """An argument that the task declares, or an item of a list: its place, the parameter's name, value and mode."""

    path: Path
    name: str
    value: Any
    mode: int


def declared(access: Access, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Argument]:
    """Yield what a call's declaration covers; None stands for nothing.

    Parameters
    ----------
    access
        The packed declaration (`tprof.declarations.pack`).
    args, kwargs
        The arguments of the call. Defaults count too, at the place of a named argument.
    """
    modes, names, defaults, positional, rest_mode, _ = access
    for at, (name, mode, default) in enumerate(zip(names, modes, defaults, strict=True)):
        if not mode:
            continue
        if at < min(len(args), positional):
            yield from _items((at,), name, args[at], mode)
        elif name in kwargs or default is not ...:
            yield from _items((name,), name, kwargs.get(name, default), mode)
    if rest_mode:
        for at in range(positional, len(args)):
            yield from _items((at,), "args", args[at], rest_mode)


def _items(path: Path, name: str, value: Any, mode: int) -> Iterator[Argument]:
    if isinstance(value, list | tuple) and not _is_handle(value):
        for index, item in enumerate(value):
            yield from _items((*path, index), f"{name}[{index}]", item, mode)
    elif value is not None:
        yield Argument(path, name, value, mode)


def _is_handle(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


class Binding:
    """A call's data and results of other tasks.

    Attributes
    ----------
    sources : where each array and each result of another task comes from, for the worker.
    places : the index of the source for each place in the call.
    needs : the inputs of the call, in their order: versions, results, and data whose own array is current.
    after : tasks that must have ended before, without an array that shows it.
    """

    def __init__(self, task: ClusterTask, data: Data) -> None:
        """Begin with nothing."""
        self.sources: list[Source] = []
        self.places: dict[Path, int] = {}
        self.needs: list[Outcome | Datum] = []
        self.after: list[ClusterTask] = []
        self.outcome = Outcome(task)
        self._data = data
        self._modes: dict[Datum, int] = {}
        self._versions: list[tuple[Datum, Version]] = []

    def bind(self, access: Access, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Find what the call needs. Raises TypeError or UsageError for data that a cluster cannot have."""
        paths: dict[Datum, list[Path]] = {}
        for path, name, value, mode in declared(access, args, kwargs):
            if isinstance(value, ClusterTask):
                continue
            shown = f"{name} of {self.outcome.task.name}"
            datum = self._data.of(value, shown)
            if datum.array is not None and mode & WRITES:
                if not value.flags.writeable:
                    raise UsageError(f"{shown} is a read-only array, and the task writes it")
                datum.array = value  # a task that read the same bytes may have named a read-only view
            self._modes[datum] = self._modes.get(datum, 0) | mode
            paths.setdefault(datum, []).append(path)
        for datum, mode in self._modes.items():
            if datum.array is None:
                self._order(datum, mode)
            else:
                self.places.update(dict.fromkeys(paths[datum], self._add_array(datum, datum.array, mode)))
        arguments: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        for at, value in arguments:
            if isinstance(value, ClusterTask) and value.outcome is not None:
                self.places[at,] = len(self.sources)
                self.sources.append(Source(len(self.needs), None, takes_result=True))
                self.needs.append(value.outcome)

    def _order(self, datum: Datum, mode: int) -> None:
        self.after += datum.touching() if mode & WRITES else datum.touching()[: datum.writer is not None]

    def _add_array(self, datum: Datum, array: NDArray[Any], mode: int) -> int:
        is_written = bool(mode & WRITES)
        if mode & READS:
            version = datum.current()
            place = None if version is None else version.place
            self.sources.append(Source(len(self.needs), place, is_written=is_written))
            self.needs.append(datum if version is None else version.outcome)
        else:
            self.sources.append(Source(form=(array.shape, array.strides, array.dtype), is_written=True))
        if is_written:
            self._versions.append((datum, Version(self.outcome, len(self._versions))))
        return len(self.sources) - 1

    def complete(self) -> None:
        """Make the call the last one to touch its data."""
        for datum, mode in self._modes.items():
            if mode & WRITES:
                datum.writer, datum.readers = self.outcome.task, []
            else:
                datum.readers = [task for task in datum.readers if not task.done()] + [self.outcome.task]
        for datum, version in self._versions:
            datum.write(version)

    def predecessors(self) -> tuple[ClusterTask, ...]:
        """Return the tasks that must end before."""
        needed = (need.task for need in self.needs if isinstance(need, Outcome))
        return tuple(dict.fromkeys((*needed, *self.after)))
