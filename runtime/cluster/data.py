"""The data of a cluster's tasks: each array is a chain of versions, each version the result of a task on some worker.

An array of the program is identified by the bytes it covers, as on threads. A task that writes it makes its next
version; a task that reads it takes the current one, so readers never delay later writers. The program's own array is
the first version, and receives the last one when the program waits.

Two arrays that share bytes must be the same view, because a version on one worker cannot be part of another version
elsewhere. All arrays of one shape and one set of strides, such as the tiles of a matrix, are compared with a new one in
one step of arithmetic on their addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tprof.runtime._scheduler import share_memory

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from .cluster_task import ClusterTask


@dataclass(eq=False)
class Outcome:
    """What a task left on a worker: the dask future, once the task was submitted."""

    task: ClusterTask
    remote: Any = None


class Version(NamedTuple):
    """A version of an array: the one at this place among the arrays that a task wrote."""

    outcome: Outcome
    place: int


@dataclass(eq=False)
class Datum:
    """An array of the program, or a handle (anything hashable), and the tasks that touch it.

    Attributes
    ----------
    name : the task and the parameter that it was first met in, for messages.
    array : the program's array; None for a handle.
    handle : the handle, if it is one.
    sent : the dask future of the program's own array, once a task needed it on a worker.
    versions : the current one last; before it those that take its place if its task fails. None means the program's
        own array.
    writer : the last task that writes it.
    readers : the tasks since then that read it.
    """

    name: str
    array: NDArray[Any] | None
    handle: Hashable = None
    sent: Any = None
    versions: list[Version] = field(default_factory=list)
    writer: ClusterTask | None = None
    readers: list[ClusterTask] = field(default_factory=list)

    def current(self) -> Version | None:
        """Return the current version, without those of failed tasks that the program knows of; None: its own array."""
        while self.versions and self.versions[-1].outcome.task.is_lost:
            self.versions.pop()
        return self.versions[-1] if self.versions else None

    def write(self, version: Version) -> None:
        """Make this the current version; those before the last one that exists are needed no more."""
        existing = [at for at, old in enumerate(self.versions) if old.outcome.task.state == "finished"]
        self.versions = [*self.versions[existing[-1] if existing else 0 :], version]

    def touching(self) -> list[ClusterTask]:
        """Return the tasks for which a program that waits for this datum has to wait."""
        return ([] if self.writer is None else [self.writer]) + self.readers


class Data:
    """The data that tasks touched since the program last waited for them."""

    def __init__(self) -> None:
        self._arrays: dict[_View, Datum] = {}
        self._layouts: dict[_Layout, _Arrays] = {}
        self._handles: dict[Hashable, Datum] = {}

    def __iter__(self) -> Iterator[Datum]:
        yield from self._arrays.values()
        yield from self._handles.values()

    def of(self, value: Any, name: str) -> Datum:
        """Return the datum of an array or a handle.

        Parameters
        ----------
        value
            A NumPy array, or anything hashable.
        name
            The task and the parameter, for messages.

        Raises
        ------
        TypeError
            If it is neither, or an array of objects.
        UsageError
            If it shares a part of its bytes with another datum.
        """
        if isinstance(value, np.ndarray):
            return self._of_array(value, name)
        try:
            return self._handles.setdefault(value, Datum(name, None, value))
        except (TypeError, ValueError):  # a memoryview that can be written raises ValueError
            raise TypeError(
                f"{name} is a {type(value).__name__}: what a task reads or writes on a cluster is a NumPy array, a "
                "list of arrays, or a hashable handle"
            ) from None

    def find(self, value: Any) -> Datum | None:
        """Return the datum of an array or a handle if a task touched it. Raises TypeError if it is neither."""
        return self._arrays.get(_View.of(value)) if isinstance(value, np.ndarray) else self._handles.get(value)

    def forget(self, datum: Datum) -> None:
        """Forget a datum: the program may change it now."""
        if datum.array is None:
            self._handles.pop(datum.handle, None)
            return
        view = _View.of(datum.array)
        if self._arrays.pop(view, None) is None:
            return
        self._layouts[view.layout].remove(view.low)

    def clear(self) -> None:
        """Forget all data."""
        self._arrays, self._layouts, self._handles = {}, {}, {}

    def _of_array(self, array: NDArray[Any], name: str) -> Datum:
        view = _View.of(array)
        found = self._arrays.get(view)
        if found is not None:
            return found
        if array.dtype.hasobject:
            raise TypeError(f"{name} is an array of Python objects: arrays on a cluster hold numbers or plain records")
        other = self._overlapping(view, array)
        if other is not None:
            raise UsageError(
                f"{name} shares a part of its bytes with {other.name}: use the same views in all tasks on a cluster (a "
                "tile is a datum; the whole array beside its tiles is not), or wait() before you use others"
            )
        datum = self._arrays[view] = Datum(name, array)
        self._layouts.setdefault(view.layout, _Arrays(view.layout)).add(view.low, datum)
        return datum

    def _overlapping(self, view: _View, array: NDArray[Any]) -> Datum | None:
        for layout, arrays in self._layouts.items():
            for other in arrays.meeting(view) if layout == view.layout else arrays.near(view):
                if share_memory(array, other.array):
                    return other
        return None


class _Layout(NamedTuple):
    """The form of a view: lengths and distances in bytes of its dimensions, the longest distance first."""

    dimensions: tuple[tuple[int, int], ...]
    item_bytes: int

    @property
    def extent(self) -> int:
        """Bytes from the first byte of a view to the end of its last one."""
        return self.item_bytes + sum((length - 1) * step for length, step in self.dimensions)

    def is_nested(self) -> bool:
        """Return whether each dimension steps over all of the next one, so that no two elements share bytes."""
        extent = self.item_bytes
        for length, step in reversed(self.dimensions):
            if step < extent:
                return False
            extent += (length - 1) * step
        return True


class _View(NamedTuple):
    """The bytes of an array, as its elements cover them."""

    low: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    layout: _Layout

    @classmethod
    def of(cls, array: NDArray[Any]) -> _View:
        backwards = sum(min(0, (length - 1) * step) for length, step in zip(array.shape, array.strides, strict=True))
        steps = [
            (length, abs(step)) for length, step in zip(array.shape, array.strides, strict=True) if length > 1 and step
        ]
        layout = _Layout(tuple(sorted(steps, key=lambda pair: -pair[1])), array.itemsize if array.size else 0)
        return cls(array.ctypes.data + backwards, array.shape, array.strides, array.dtype.str, layout)


class _Arrays:
    """The arrays of one layout, by their addresses."""

    def __init__(self, layout: _Layout) -> None:
        self._layout = layout
        self._nested = layout.is_nested()
        self._data: list[Datum] = []
        self._low = np.zeros(16, np.int64)
        self._holes: list[int] = []
        self._place: dict[int, int] = {}

    def add(self, low: int, datum: Datum) -> None:
        if self._holes:
            place = self._holes.pop()
            self._data[place] = datum
        else:
            place = len(self._data)
            self._data.append(datum)
        if place == len(self._low):
            self._low = np.concatenate([self._low, np.zeros_like(self._low)])
        self._low[place] = low
        self._place[low] = place

    def remove(self, low: int) -> None:
        place = self._place.pop(low)
        self._low[place] = 0  # no array is there
        self._holes.append(place)

    def near(self, view: _View) -> Iterator[Datum]:
        """Yield those between whose first and last bytes there are bytes of the view's range."""
        low = self._low[: len(self._data)]
        for place in np.flatnonzero((low < view.low + view.layout.extent) & (low + self._layout.extent > view.low)):
            yield self._data[place]

    def meeting(self, view: _View) -> Iterator[Datum]:
        """Yield those of the view's own layout that may share bytes with it."""
        if not self._nested:
            yield from self.near(view)
            return
        for place in np.flatnonzero(self._meet(self._low[: len(self._data)] - view.low, self._layout.dimensions)):
            yield self._data[place]

    def _meet(self, distance: NDArray[np.int64], dimensions: tuple[tuple[int, int], ...]) -> NDArray[np.bool_]:
        """Return at which distances two views of a nested layout share bytes.

        They do if the distance is a sum of steps, fewer in each dimension than its length, to within one item. The
        steps of inner dimensions are shorter than one of the outer, so its number is one of two.
        """
        if not dimensions:
            return np.abs(distance) < self._layout.item_bytes
        (length, step), inner = dimensions[0], dimensions[1:]
        steps = distance // step
        rest = distance - steps * step
        shares: NDArray[np.bool_] = (np.abs(steps) < length) & self._meet(rest, inner)
        return shares | (np.abs(steps + 1) < length) & self._meet(rest - step, inner)
