"""What ran beside what: for pairs of tasks, the modelled time of one while an instance of the other ran.

A pair is a victim and an aggressor. In the saturating form its column is the integral of the victim's
rate while at least one instance of the aggressor runs beside it; in the counting form the rate counts as often as there
are such instances. The state of all threads changes only where a
segment begins, so the integrals are exact. They are computed a stretch of the recording at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .equations import NOTHING, Work, overlapping, segments_each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .equations import Rows

Floats = NDArray[np.float64]
FORMS = ("saturating", "counting")
CANDIDATES = 12
"""Most pairs that are tried."""
ALL_PAIRS = 5
"""With so many tasks all pairs are tried."""
LEAST_SHARE = 0.002
"""Part of all joules: tasks with less are no victims or aggressors."""
BATCH = 200


@dataclass(frozen=True)
class State:
    """What runs from each moment on until the next: (m,) moments.

    Attributes
    ----------
    t_ns : (m,)
    count : by task, (m,) how many instances run.
    rate : by task, (m,) their modelled energy per second.
    busy, power_w : (m,) of all tasks: how many run, and modelled energy per second times their powers.
    """

    t_ns: NDArray[np.int64]
    count: dict[int, Floats]
    rate: dict[int, Floats]
    busy: Floats
    power_w: Floats

    @classmethod
    def of(cls, work: Sequence[Work], tasks: Sequence[int], power: Floats) -> State:
        """Merge the threads; only the given tasks are followed one by one."""
        t_ns = np.concatenate([one.t_ns for one in work])
        order = np.argsort(t_ns, kind="stable")
        task, rate = (_changes(work, part) for part in (_task, _rate))
        count, rates = {}, {}
        for number in tasks:
            begun, ended = task[0] == number, task[1] == number
            count[number] = np.cumsum((begun.astype(np.int8) - ended)[order], dtype=np.int64).astype(float)
            change = np.where(begun, rate[0], 0.0) - np.where(ended, rate[1], 0.0)
            rates[number] = np.cumsum(change[order])
        busy = np.cumsum(((task[0] >= 0).astype(np.int8) - (task[1] >= 0))[order], dtype=np.int64).astype(float)
        change = rate[0] * power[task[0]] - rate[1] * power[task[1]]
        return cls(t_ns[order], count, rates, busy, np.cumsum(change[order]))

    def beside(self, victim: int, aggressor: int, form: str) -> Floats:
        """Return the column of a pair at each moment: (m,)."""
        others = self.count[aggressor] - (victim == aggressor)
        beside = others >= 1 if form == "saturating" else np.maximum(others, 0.0)
        return np.asarray(self.rate[victim] * beside)

    def up_to(self, values: Floats, points: Points) -> Floats:
        """Return the integral of values up to points."""
        total = np.concatenate(([0.0], np.cumsum(values[:-1] * self.length_s)))
        return np.asarray(total[points.at] + values[points.at] * points.since_s)

    @cached_property
    def length_s(self) -> Floats:
        """Seconds from each moment to the next: (m - 1,)."""
        return np.diff(self.t_ns) * 1e-9

    def place(self, points_ns: NDArray[np.int64]) -> Points:
        """Find points among the moments; those before the first and after the last are at them."""
        inside_ns = np.clip(points_ns, self.t_ns[0], self.t_ns[-1])
        at = np.searchsorted(self.t_ns, inside_ns, side="right") - 1
        return Points(at, np.asarray(inside_ns - self.t_ns[at], np.float64) * 1e-9)


@dataclass(frozen=True)
class Points:
    """Points in time: the last moment before each, and the seconds since."""

    at: NDArray[np.intp]
    since_s: Floats


def _task(one: Work) -> NDArray[np.int32]:
    return np.where(one.modelled > 0, one.task, -1).astype(np.int32)


def _rate(one: Work) -> Floats:
    length_s = np.diff(one.t_ns) * 1e-9
    return np.divide(one.modelled, length_s, out=np.zeros(len(length_s)), where=length_s > 0)


def _changes(work: Sequence[Work], of: Callable[[Work], NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what begins and what ends at each time of all threads, one after the other."""
    values = [of(one) for one in work]
    none = [-1 if value.dtype.kind == "i" else 0 for value in values]
    begins = [np.append(value, nothing) for value, nothing in zip(values, none, strict=True)]
    ends = [np.append(np.array([nothing], value.dtype), value) for value, nothing in zip(values, none, strict=True)]
    return np.concatenate(begins), np.concatenate(ends)


@dataclass(frozen=True)
class Contention:
    """Columns of pairs (victim, aggressor), and of how many instances run at all.

    Attributes
    ----------
    pairs : their tasks.
    columns : by form, (n, pairs) modelled time of the victim beside the aggressor.
    crowd : (n,) joules by the tasks' powers, times the number of other instances that run.
    """

    pairs: list[tuple[int, int]]
    columns: dict[str, Floats]
    crowd: Floats


def contention_columns(
    rows: Rows, work: Sequence[Work], pairs: list[tuple[int, int]], late_s: float, power: Floats
) -> Contention:
    """Return the columns as means over windows; `power` of the tasks and between them, (tasks + 1,)."""
    tasks = sorted({task for pair in pairs for task in pair})
    found: dict[str, list[Floats]] = {form: [np.zeros((0, len(pairs)))] for form in FORMS}
    crowd: list[Floats] = [np.zeros(0)]
    segments = segments_each(rows, work)
    for stretch in rows.stretches(int((2 * len(tasks) + 8) * (segments + 20))):
        points_ns = rows.points_ns(slice(stretch.start, stretch.stop + 1), late_s)
        parts = overlapping(work, int(points_ns.min()), int(points_ns.max()))
        state = State.of(parts or [NOTHING], tasks, np.append(power, 0.0))
        points = state.place(points_ns)
        for form in FORMS:
            at = [state.up_to(state.beside(*pair, form), points).mean(axis=1) for pair in pairs]
            found[form].append(np.diff(np.array(at).reshape(len(pairs), len(points_ns)), axis=1).T)
        beside = state.power_w * np.maximum(state.busy - 1, 0.0)
        crowd.append(np.diff(state.up_to(beside, points).mean(axis=1)))
    return Contention(pairs, {form: np.concatenate(parts) for form, parts in found.items()}, np.concatenate(crowd))


def likely_pairs(
    time: Floats, length_s: Floats, power: Floats, score: Callable[[Floats], Floats]
) -> list[tuple[int, int]]:
    """Return the pairs worth a column: all of few tasks, else those that the readings suggest.

    The overlap of tasks far shorter than a row is about the product of their times over its length. That column says
    nothing on who is the victim and costs O(rows); `score` returns how significant such columns are for the residual.

    Parameters
    ----------
    time : (n, tasks) modelled time
    length_s : (n,)
    power : (tasks,)
    score : of columns, (n, m): (m,) in standard deviations
    """
    energy = time.sum(axis=0) * power
    known = np.argsort(energy)[::-1]
    known = known[energy[known] > LEAST_SHARE * energy.sum()]
    if len(known) <= ALL_PAIRS:
        return [(int(a), int(b)) for a in known for b in known]
    first, second = np.triu_indices(len(known))
    found = []
    for begin in range(0, len(first), BATCH):
        one, other = known[first[begin : begin + BATCH]], known[second[begin : begin + BATCH]]
        found.append(np.abs(score(time[:, one] * time[:, other] / length_s[:, None])))
    order = np.argsort(np.concatenate(found))[::-1][: CANDIDATES // 2]
    pairs = [(int(known[first[i]]), int(known[second[i]])) for i in order]
    return list(dict.fromkeys(ordered for a, b in pairs for ordered in ((a, b), (b, a))))
