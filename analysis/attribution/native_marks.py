"""In which windows of a pool each task ran, and in which it began and ended to run.

There are far more windows and tasks than changes: only these are kept, a few for each window and task in which runs
begin or end, in files where there are many. So they take no more than the samples of the tasks. Matrices of all tasks
are made of some windows at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import AppendedColumns, release
from tprof.trace.long_sorts import sorted_arrays

if TYPE_CHECKING:
    from collections.abc import Iterator

Marks = NDArray[np.bool_]
Numbers = NDArray[np.int64]

AT_ONCE = 1 << 20
"""Tasks times windows that are in memory."""
_BEGUN, _RUNS, _STOPS, _ENDED = range(4)
"""What changes: a run begins, began before the first window, does not run any more, or ended just before or now."""
_KIND_BITS, _TASK_BITS = 2, 24
_WINDOW_AT = _KIND_BITS + _TASK_BITS


class Marked(NamedTuple):
    """Some windows that follow each other, and whether each task ran, began and ended to run there: (tasks, n) each."""

    at: slice
    seen: Marks
    begun: Marks
    ended: Marks


class TaskMarks:
    """Changes of what runs, by window."""

    def __init__(self, windows: int) -> None:
        """Begin without runs, in so many windows."""
        self._windows = windows
        self._numbers: dict[int, int] = {}
        self._changes = AppendedColumns(np.int64, np.int32)

    def add(self, task: Numbers, begin: Numbers, last: Numbers, end: Numbers) -> None:
        """Add runs, some of them more than once: their tasks, and in which windows they begin, last ran and end.

        Windows may be -1 before the first, and their number or more after the last.
        """
        number = self._numbered(task) << _KIND_BITS
        runs = (last >= 0) & (begin < self._windows)
        changes = (
            (_BEGUN, begin, runs & (begin >= 0)),
            (_RUNS, np.maximum(begin, 0), runs & (begin < 0)),
            (_STOPS, last + 1, runs & (last + 1 < self._windows)),
            (_ENDED, end, (end >= 0) & (end < self._windows)),
        )
        keys = np.concatenate(
            [at[which] << _WINDOW_AT | number[which] | kind for kind, at, which in changes], dtype=np.int64
        )
        self._changes.add(*np.unique(keys, return_counts=True))

    def _numbered(self, task: Numbers) -> Numbers:
        """Return tasks' numbers in the order in which they came."""
        distinct, place = np.unique(task, return_inverse=True)
        numbers = [self._numbers.setdefault(one, len(self._numbers)) for one in distinct.tolist()]
        return np.array(numbers, np.int64)[place]

    def finish(self) -> FoundMarks:
        """Return what is known; no more may be added."""
        tasks = np.array(list(self._numbers), np.int64)
        order = np.argsort(tasks)
        rank = np.empty(len(tasks), np.int64)
        rank[order] = np.arange(len(tasks))
        keys, counts = sorted_arrays(self._changes.finish())
        return FoundMarks(tasks[order], self._windows, rank, keys, counts)


class FoundMarks(NamedTuple):
    """In which windows tasks ran.

    Attributes
    ----------
    tasks : increasing
    windows : their number
    rank : of the tasks' numbers in `keys` those among `tasks`
    keys, counts : changes by window, task and kind, and how many of each
    """

    tasks: Numbers
    windows: int
    rank: Numbers
    keys: Numbers
    counts: NDArray[np.int32]

    def parts(self) -> Iterator[Marked]:
        """Yield all windows, in order."""
        width = max(AT_ONCE // max(len(self.tasks), 1), 1)
        running = np.zeros(len(self.tasks))
        for begin in range(0, self.windows, width):
            part = self._part(slice(begin, min(begin + width, self.windows)), running)
            yield part
            release(self.keys, self.counts)

    def _part(self, at: slice, running: NDArray[np.float64]) -> Marked:
        """Return some windows; `running` is the number of runs of each task before them, and becomes that after."""
        shape = len(self.tasks), at.stop - at.start
        changes = slice(*np.searchsorted(self.keys, (at.start << _WINDOW_AT, at.stop << _WINDOW_AT)).tolist())
        keys, kind = self.keys[changes], self.keys[changes] & (1 << _KIND_BITS) - 1
        task = self.rank[keys >> _KIND_BITS & (1 << _TASK_BITS) - 1]
        place = task * shape[1] + (keys >> _WINDOW_AT) - at.start
        weights = np.select([kind <= _RUNS, kind == _STOPS], [1, -1], 0) * self.counts[changes]
        # Whole numbers, so these sums are exact; without any NumPy returns integers.
        steps = np.bincount(place, weights=weights, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
        steps[:, 0] += running
        runs = np.cumsum(steps, axis=1, out=steps)
        running[:] = runs[:, -1]
        begun, ended = np.zeros((2, *shape), bool)
        begun.ravel()[place[kind == _BEGUN]] = True
        ended.ravel()[place[kind == _ENDED]] = True
        return Marked(at, runs > 0, begun, ended)
