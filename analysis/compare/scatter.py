"""How far the means of tasks may be off by the scatter of their instances, which are added as they end.

Instances differ, and neighbours resemble each other since temperature and frequency drift. So the standard error of a
mean is the larger of that of independent instances and that of the means of ten batches of consecutive ones; B.
Schmeiser (Batch size effects in the analysis of simulation output, Operations Research 30, 1982) found 10 to 30 batches
to do, and the fewer there are, the slower a drift they show. How many instances a task has, and their means, are known
before, so each of them is added to its batch and forgotten: memory is O(tasks) beside the instances of a window. Hosts
of a job run at the same time, so a batch of a job is that of each of its hosts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.profile.instances import Instances, InstanceTable, Piece
    from tprof.analysis.profile.task_sums import TaskSums

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BATCHES = 10
LEAST_BATCHED = 2 * BATCHES


def batched_error(values: Floats) -> tuple[float, float]:
    """Return the variance of the mean of values in order, with its degrees of freedom; NaN for fewer than two."""
    if len(values) < 2:
        return math.nan, math.nan
    scatter = _Scatter(np.array([len(values)]), np.array([values.mean()]))
    scatter.add(np.zeros(len(values), np.int64), values)
    variance, df = scatter.errors()
    return float(variance[0]), float(df[0])


class _Scatter:
    """The values of one figure by task: their squares about the mean, and the sums of ten batches."""

    def __init__(self, counts: Integers, means: Floats) -> None:
        """Begin without values; `counts` (k,) are of all that will be added, `means` (k,) of these and other parts."""
        self._counts, self._means = counts, means
        self._in_batch = np.diff(np.arange(BATCHES + 1) * counts[:, None] // BATCHES, axis=1)
        self._seen = np.zeros(len(counts), np.int64)
        self._squares = np.zeros(len(counts))
        self._sums = np.zeros((len(counts), BATCHES))

    def add(self, code: Integers, values: Floats) -> None:
        """Add the values of tasks (n,), those of each task together and in their order."""
        first = np.searchsorted(code, np.arange(len(self._counts)))
        rank = np.arange(len(code)) - first[code] + self._seen[code]
        # The batch b begins at the value number b * count // BATCHES.
        batch = np.minimum((BATCHES * (rank + 1) - 1) // np.maximum(self._counts[code], 1), BATCHES - 1)
        off = values - self._means[code]
        self._seen += np.bincount(code, minlength=len(self._counts))
        self._squares += np.bincount(code, off**2, len(self._counts))
        self._sums += np.bincount(code * BATCHES + batch, off, self._sums.size).reshape(self._sums.shape)

    def join(self, other: _Scatter) -> None:
        """Add that of other values about the same means, each batch to that of the same number."""
        self._counts = self._counts + other._counts
        self._in_batch = self._in_batch + other._in_batch
        self._seen += other._seen
        self._squares += other._squares
        self._sums += other._sums

    def errors(self) -> tuple[Floats, Floats]:
        """Return the variance of each mean and its degrees of freedom; NaN for fewer than two values."""
        counts = self._counts.astype(float)
        with np.errstate(invalid="ignore", divide="ignore"):
            alone = np.where(counts > 1, self._squares / (counts - 1) / counts, np.nan)
            batched = (self._sums / self._in_batch).var(axis=1, ddof=1) / BATCHES
        is_batched = (self._counts >= LEAST_BATCHED) & (batched > alone)
        df = np.where(counts > 1, counts - 1, np.nan)
        return np.where(is_batched, batched, alone), np.where(is_batched, BATCHES - 1.0, df)


class _Values(NamedTuple):
    """Figures of instances, (n,) each: what compares them, and when they ended."""

    code: Integers
    instance: NDArray[np.uint64]
    end_s: Floats
    energy_j: Floats
    duration_s: Floats
    own_s: Floats

    @classmethod
    def of(cls, tasks: pd.DataFrame, own_s: Floats) -> _Values:
        code = tasks["task"].cat.codes.to_numpy().astype(np.int64)
        duration_s = tasks["duration_s"].to_numpy(float)
        end_s = tasks["start_s"].to_numpy(float) + duration_s
        energy_j = tasks["energy_j"].to_numpy(float)
        return cls(code, tasks["instance"].to_numpy(np.uint64), end_s, energy_j, duration_s, own_s)

    def where(self, rows: NDArray[Any]) -> _Values:
        return _Values(*(values[rows] for values in self))

    def then(self, other: _Values) -> _Values:
        return _Values(*(np.concatenate(both) for both in zip(self, other, strict=True)))


class Counts(NamedTuple):
    """What is known of each task's instances before they are added: (k,) each; `resolved` have energy."""

    instances: Floats
    duration_s: Floats
    own_s: Floats
    resolved: Floats
    energy_j: Floats
    resolved_own_s: Floats

    @classmethod
    def of(cls, sums: TaskSums) -> Counts:
        """Take them from sums over instances."""
        return cls(*(sums.columns[name] for name in cls._fields))

    def of_tasks(self, names: Sequence[str], wanted: pd.Index[Any]) -> Counts:
        """Return those of other tasks, none of those that are not among `names`."""
        at = pd.Index(np.array(names, object)).get_indexer(wanted)
        return Counts(*(np.where(at >= 0, np.append(one, 0.0)[at], 0.0) for one in self))

    @classmethod
    def of_table(cls, tasks: pd.DataFrame, own_s: Floats) -> Counts:
        """Add up instances; their categories of `task` are what is counted."""
        code, energy_j = tasks["task"].cat.codes.to_numpy().astype(np.int64), tasks["energy_j"].to_numpy(float)
        every, known = code >= 0, (code >= 0) & np.isfinite(energy_j)

        def total(rows: NDArray[np.bool_], values: Floats | None = None) -> Floats:
            weights = None if values is None else values[rows]
            return np.bincount(code[rows], weights, len(tasks["task"].cat.categories)).astype(float)

        duration_s = tasks["duration_s"].to_numpy(float)
        return cls(
            total(every), total(every, duration_s), total(every, own_s), total(known), total(known, energy_j),
            total(known, own_s),
        )  # fmt: skip


class Spread:
    """The standard errors of the means of tasks, by the instances of a run."""

    def __init__(self, names: pd.Index[Any], counts: Counts, job: Counts | None = None) -> None:
        """Begin without instances.

        Parameters
        ----------
        names : of the tasks
        counts : of what will be added
        job : of all parts, if this is one of a job's: the scatter is about their means
        """
        self._names = names
        instances, resolved = counts.instances.astype(np.int64), counts.resolved.astype(np.int64)
        whole = counts if job is None else job
        with np.errstate(invalid="ignore", divide="ignore"):
            self._power_w = np.where(whole.resolved_own_s > 0, whole.energy_j / whole.resolved_own_s, np.nan)
            self._own_s = whole.resolved_own_s / whole.resolved
            self._figures = {
                "energy": _Scatter(resolved, whole.energy_j / whole.resolved),
                "duration": _Scatter(instances, whole.duration_s / whole.instances),
                "own": _Scatter(instances, whole.own_s / whole.instances),
                "power": _Scatter(resolved, np.zeros(len(names))),
            }

    @classmethod
    def of(cls, tasks: pd.DataFrame, own_s: Floats, job: Counts | None = None) -> Spread:
        """Return that of a table of instances; `job` as above."""
        spread = cls(tasks["task"].cat.categories, Counts.of_table(tasks, own_s), job)
        spread.add(_Values.of(tasks, own_s))
        return spread

    def join(self, other: Spread) -> None:
        """Add that of another part of a job."""
        for name, figure in other._figures.items():
            self._figures[name].join(figure)

    def values(self, piece: Piece) -> _Values:
        """Return the figures of instances by these tasks."""
        tasks = piece.tasks
        if not tasks["task"].cat.categories.equals(self._names):
            tasks = tasks.assign(task=tasks["task"].cat.set_categories(self._names))
        return _Values.of(tasks, piece.own_s)

    def add(self, values: _Values) -> None:
        """Add instances, which end after those that were added before."""
        order = np.lexsort((values.instance, values.end_s, values.code))
        values = values.where(order[values.code[order] >= 0])
        self._figures["duration"].add(values.code, values.duration_s)
        self._figures["own"].add(values.code, values.own_s)
        known = values.where(np.isfinite(values.energy_j))
        self._figures["energy"].add(known.code, known.energy_j)
        self._figures["power"].add(known.code, known.energy_j - known.own_s * self._power_w[known.code])

    def errors(self, name: str) -> pd.DataFrame:
        """Return the variance of each task's mean and its degrees of freedom, of the instances with a value."""
        variance, df = self._figures[name].errors()
        if name == "power":
            known = np.isfinite(self._power_w)
            variance, df = np.where(known, variance / self._own_s**2, np.nan), np.where(known, df, np.nan)
        return pd.DataFrame({"variance": variance, "df": df}, index=pd.Index(self._names, name="task"))


class Ended:
    """Gives instances to a `Spread` in the order in which they end.

    Windows of a recording give them so, but for those without an end of their own: these come with the last window,
    though they ran last before. They are known from the first time that the joules were shared.
    """

    def __init__(self, instances: Instances | InstanceTable, spread: Spread) -> None:
        """Begin with none; `instances` will all be given."""
        self._left, self._rows = spread.values(instances.last), instances.sums.rows
        self._last_rows, self._spread = len(instances.last.tasks), spread

    def add(self, piece: Piece) -> None:
        """Add the instances of a window."""
        self._rows -= len(piece.tasks)
        if not self._rows and self._last_rows:
            self._spread.add(self._left)
            return
        found = self._spread.values(piece)
        earlier = self._left.end_s <= found.end_s.max(initial=-math.inf)
        self._spread.add(found.then(self._left.where(earlier)))
        self._left = self._left.where(~earlier)
