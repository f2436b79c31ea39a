"""Sums over a task's instances, from which its summary is made: sums of parts of the instances add.

So instances need not be in memory at the same time, and those of several hosts or windows of a recording give the same
summary as all of them together. Sums of squares about means are joined by Chan's rule (T. F. Chan, G. H. Golub, R. J.
LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.names import shown

from .intervals import narrowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from tprof.trace import TaskEntry
    from tprof.trace.estimate import WattsError

    Floats = NDArray[np.float64]

FIGURES = ("duration_s", "cpu_s", "energy_j", "dynamic_j")
"""Figures of instances of which sums are taken in every profile, with own_s and half_j."""
OPTIONAL = ("native_cpu_s", "native_j", "spin_j", "gpu_j")
"""Figures of instances that only some profiles have."""
_SQUARES = (("energy_j", "energy_j", "energy_m2"), ("resolved_duration_s", "resolved_duration_s", "duration_m2"),
            ("energy_j", "resolved_duration_s", "both_m2"))  # fmt: skip


@dataclass(frozen=True)
class TaskSums:
    """Sums of some instances.

    Attributes
    ----------
    names : (k,) distinct names of tasks
    columns : each (k,) float64, by name. Of all instances: instances, duration_s, own_s. Of the resolved ones, whose
        energy is known: resolved, energy_j, dynamic_j, resolved_duration_s, resolved_own_s, half_squares (of half the
        width of the bounds that the sensor gives), sums of squares and products about their means (energy_m2,
        duration_m2, both_m2) and those of `OPTIONAL` that there are. Of those whose CPU time is known: cpu_s,
        cpu_own_s, cpu_native_s. over: instances over the task's budget
    rows : instances, those of unknown tasks too
    own_s, cpu_s : of these, the latter with that of native threads
    by_thread : CPU seconds by pid, tid and name of the thread, as far as they are known
    """

    names: tuple[str, ...]
    columns: dict[str, Floats]
    rows: int
    own_s: float
    cpu_s: float
    by_thread: pd.Series[float] | None = None

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        code: NDArray[np.int32],
        figures: Mapping[str, Floats],
        limit_j: Floats | None = None,
    ) -> TaskSums:
        """Sum instances.

        Parameters
        ----------
        names : (k,) distinct names of tasks
        code : (n,) index of each instance's task in these; -1: unknown
        figures : each (n,) float64, by name: those of `FIGURES`; own_s, seconds in which each ran on its thread,
            without nested tasks or suspension; half_j, half the width of the bounds that the sensor gives; and those of
            `OPTIONAL` that there are
        limit_j : (k,) budgets of the tasks, infinite without one
        """
        energy_j, duration_s, cpu_s, own_s = (figures[name] for name in ("energy_j", "duration_s", "cpu_s", "own_s"))
        native_s = np.nan_to_num(figures["native_cpu_s"]) if "native_cpu_s" in figures else None
        known, good, timed = _kept(code, len(names), energy_j, cpu_s)
        nothing = np.zeros(len(names))
        of_resolved = {
            "energy_j": energy_j,
            "dynamic_j": figures["dynamic_j"],
            "resolved_duration_s": duration_s,
            "resolved_own_s": own_s,
            "half_squares": figures["half_j"] ** 2,
            **{name: figures[name] for name in OPTIONAL if name in figures},
        }
        of_timed = {"cpu_s": cpu_s, "cpu_own_s": own_s} | ({} if native_s is None else {"cpu_native_s": native_s})
        sums = known.sums({"duration_s": duration_s, "own_s": own_s}) | good.sums(of_resolved) | timed.sums(of_timed)
        columns = {
            "instances": known.count,
            "resolved": good.count,
            "cpu_native_s": nothing,
            **sums,
            **good.about_means(energy_j, duration_s, sums["energy_j"], sums["resolved_duration_s"]),
            "over": nothing if limit_j is None else good.over(energy_j, limit_j),
        }
        total_s = float(np.nansum(cpu_s)) + (0.0 if native_s is None else float(native_s.sum()))
        return cls(names, columns, len(code), float(own_s.sum()), total_s)

    def plus(self, other: TaskSums) -> TaskSums:
        """Return the sums of both; they are of the same tasks and have the same columns."""
        joined = {name: added(values, other.columns[name]) for name, values in self.columns.items()}
        ours, theirs = self.columns, other.columns
        part = ours["resolved"] * theirs["resolved"] / np.maximum(joined["resolved"], 1.0)
        for first, second, name in _SQUARES:
            joined[name] = joined[name] + part * self._apart(other, first) * self._apart(other, second)
        return TaskSums(self.names, joined, self.rows + other.rows, self.own_s + other.own_s, self.cpu_s + other.cpu_s)

    def places_of(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Return where these sums have tasks of other names: their number for one that they do not have."""
        places = {name: place for place, name in enumerate(self.names)}
        return np.array([places.get(name, len(places)) for name in names], np.intp)

    def of_names(self, names: tuple[str, ...], columns: Iterable[str]) -> TaskSums:
        """Return the sums of these tasks, none of others, with NaN in columns that are not there; without threads."""
        at, absent = self.places_of(names), np.full(len(names), np.nan)
        none = dict.fromkeys(OPTIONAL, np.nan)
        found = {
            name: np.append(self.columns[name], none.get(name, 0.0))[at] if name in self.columns else absent
            for name in columns
        }
        return TaskSums(names, found, self.rows, self.own_s, self.cpu_s)

    def _apart(self, other: TaskSums, name: str) -> Floats:
        """Return how far the means of both are apart."""
        mean, theirs = (one.columns[name] / np.maximum(one.columns["resolved"], 1.0) for one in (self, other))
        return theirs - mean


def added(first: Floats, second: Floats) -> Floats:
    """Return the sums of both; what one of them does not know is that of the other."""
    return np.where(np.isnan(first), second, np.where(np.isnan(second), first, first + second))


@dataclass(frozen=True)
class _Kept:
    """Some of the instances, by task: the code of all others is the number of tasks."""

    code: NDArray[np.int32]
    tasks: int

    @cached_property
    def count(self) -> Floats:
        return np.bincount(self.code, minlength=self.tasks + 1)[:-1].astype(float)

    def sums(self, figures: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return the sums of figures by task."""
        return {name: sum_by(self.code, values, self.tasks + 1)[:-1] for name, values in figures.items()}

    def about_means(self, energy_j: Floats, duration_s: Floats, sum_j: Floats, sum_s: Floats) -> dict[str, Floats]:
        """Return the sums of squares and products about the tasks' means; these are from the tasks' sums."""
        count = np.maximum(self.count, 1.0)
        both = (energy_j, sum_j), (duration_s, sum_s)
        off_j, off_s = (values - np.append(total / count, 0.0)[self.code] for values, total in both)
        return self.sums({"energy_m2": off_j**2, "duration_m2": off_s**2, "both_m2": off_j * off_s})

    def over(self, energy_j: Floats, limit_j: Floats) -> Floats:
        above = energy_j > np.append(limit_j, np.inf)[self.code]
        return np.bincount(self.code[above], minlength=self.tasks)[: self.tasks].astype(float)


def _kept(code: NDArray[np.int32], tasks: int, *figures: Floats) -> Iterator[_Kept]:
    """Yield the instances of known tasks, and of these those that have each of some figures."""
    whole = _Kept(np.where(code >= 0, code, np.int32(tasks)), tasks)
    yield whole
    for one in figures:
        is_there = np.isfinite(one)
        yield whole if is_there.all() else _Kept(np.where(is_there, whole.code, np.int32(tasks)), tasks)


def half_widths(tasks: pd.DataFrame, watts: WattsError) -> Floats:
    """Return half the width of each instance's bounds, the error of an estimate's watts left out."""
    low_j, high_j = tasks["energy_low_j"].to_numpy(float), tasks["energy_high_j"].to_numpy(float)
    if not watts.is_none:
        low_j, high_j = narrowed(low_j, high_j, tasks["static_j"].to_numpy(float), watts)
    return np.asarray((high_j - low_j) / 2)


def budgets(entries: Sequence[TaskEntry]) -> dict[str, float]:
    """Return the budgets of a trace's tasks in joules; those of the same name get the smallest of theirs."""
    found: dict[str, float] = {}
    for entry in entries:
        if entry.budget_j is not None:
            name = shown(entry.name)
            found[name] = min(entry.budget_j, found.get(name, np.inf))
    return found


def limits_j(names: Iterable[object], entries: Sequence[TaskEntry]) -> Floats | None:
    """Return the budget of each name, infinite without one; None if no task has any."""
    known = budgets(entries)
    return np.array([known.get(str(name), np.inf) for name in names]) if known else None
