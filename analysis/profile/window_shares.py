"""What is kept of the instances that have ended: sums over them, or a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from tprof.analysis.names import places, shown

from .information import limits_of
from .stored_instances import Piece
from .tables import settled_joules, tasks_table
from .task_sums import TaskSums, limits_j

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tprof.analysis.attribution.accounts import Totals
    from tprof.analysis.attribution.instances import InstanceRows

    from tprof.trace import Thread, Trace

    from .recipe import Recipe


class Additive(Protocol):
    """What is kept of some instances, which the same of later ones can be added to."""

    def plus(self, later: Self) -> Self:
        """Return both."""


Part = TypeVar("Part", bound=Additive)
Part_co = TypeVar("Part_co", bound=Additive, covariant=True)


class Kept(Protocol[Part_co]):
    """What is kept of instances: sums, or a table."""

    columns: Collection[str] | None
    """Counters of which instances need counts, besides those of the model; None: all."""

    def __call__(self, rows: InstanceRows, totals: Totals, *, is_last: bool) -> Part_co:
        """Return what is kept of instances that ended with a window, all of whose arrays may be changed."""


class Sums(NamedTuple):
    """Sums over instances, and those of the last window, as far as it is among the windows."""

    total: TaskSums
    last: Piece | None

    def plus(self, later: Sums) -> Sums:
        """Return those of both, of which only one can have a last window."""
        return Sums(self.total.plus(later.total), later.last if self.last is None else self.last)


class Summed:
    """Sums over instances."""

    def __init__(self, trace: Trace, recipe: Recipe, threads: Sequence[Thread]) -> None:
        """Begin with what holds for all windows; `threads` are those with samples."""
        self.columns: Collection[str] | None = ()
        self._tables = Tables(trace, recipe, threads)
        names, places_of = places([shown(entry.name) for entry in trace.tasks])
        self._names, self._code = tuple(names), np.append(places_of, -1).astype(np.int32)
        self._limit_j = limits_j(names, trace.tasks)
        self._watts, self._most_w = limits_of(trace, recipe)
        self._threads = [(one.pid, one.tid, shown(one.name) or f"thread-{one.ordinal}") for one in threads]

    def __call__(self, rows: InstanceRows, totals: Totals, *, is_last: bool) -> Sums:
        """Return their sums."""
        last = self._tables(rows, totals.view(np.ones(len(rows), bool)), is_last=True) if is_last else None
        energy_j, half_j = settled_joules(rows, totals, self._watts, self._most_w)
        figures = {
            "duration_s": np.multiply(rows.end_ns - rows.start_ns, 1e-9),
            "cpu_s": rows.cpu_s,
            "own_s": rows.own_s,
            "energy_j": energy_j,
            "dynamic_j": totals.dynamic_j,
            "half_j": half_j,
        }
        if totals.native is not None:
            native = totals.native
            figures |= {"native_cpu_s": native.cpu_s, "native_j": native.joules, "spin_j": native.spin_j}
        if totals.gpu is not None:
            figures["gpu_j"] = totals.gpu.joules
        code = self._code.take(rows.task, mode="clip")
        return Sums(TaskSums.of(self._names, code, figures, self._by_thread(rows), self._limit_j), last)

    def _by_thread(self, rows: InstanceRows) -> dict[tuple[int, int, str], float]:
        sums_s: dict[tuple[int, int, str], float] = {}
        of_threads = np.bincount(rows.numbers, weights=np.nan_to_num(rows.cpu_s))
        for number in np.flatnonzero(np.bincount(rows.numbers)).tolist():
            key = self._threads[number]
            sums_s[key] = sums_s.get(key, 0.0) + float(of_threads[number])
        return sums_s


class Tables:
    """A table of instances, without what their samples do not say."""

    def __init__(self, trace: Trace, recipe: Recipe, threads: Sequence[Thread]) -> None:
        """Begin with what holds for all windows; the others are those of `Summed`."""
        self.columns: Collection[str] | None = None
        self._trace, self._threads = trace, threads
        self._watts, self._most_w = limits_of(trace, recipe)

    def __call__(self, rows: InstanceRows, totals: Totals, *, is_last: bool) -> Piece:  # noqa: ARG002
        """Return their table."""
        table, _ = tasks_table(self._trace, self._threads, rows.copied(), totals, self._watts, self._most_w)
        return Piece(table, rows.own_s)
