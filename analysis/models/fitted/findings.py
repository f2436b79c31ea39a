"""What a fit found beside the tasks' powers: what their powers depend on, and what the readings cannot decide.

`Finding` is the form in which `profile.info["fitted"]["findings"]` holds each (as a dictionary of plain values).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.operating_points.scales import NORMAL_95

from .averaging import EITHER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .averaging import Average
    from .extensions import Column

Kind = Literal["drift", "length", "contention", "cores", "static", "lateness", "unexplained", "ratio"]
Floats = NDArray[np.float64]
CERTAIN = 0.95
"""Least posterior probability of an effect that is reported."""
LATE_GAIN = 20.0
MEMORY, MEMORY_LAGS = 4.5, (8, 20)
"""Standard deviations of the sum of so many correlations of residuals that are too many."""
OUTLIERS = 0.02
CLEAR = 3.0
IN_STEP, UNSURE = 0.2, 0.15
"""Most disorder of tasks that run in step, and least relative standard error of one that is then uncertain."""
MOST_NAMES = 6
MOST_PAIRS = 6


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes
    ----------
    kind :
        - ``drift``: powers change over the recording;
        - ``length``: a task's power depends on how long an instance is;
        - ``contention``: a task's power depends on what runs beside it;
        - ``cores``: cores draw differently;
        - ``static``: static power changes over the recording;
        - ``lateness``: the sensor shows its updates later than their windows say;
        - ``unexplained``: something ran that no column explains;
        - ``ratio``: tasks ran in a ratio so constant that the readings hardly separate them.
    tasks : names of the tasks whose figures it concerns.
    size, low, high : as a fraction, with its 95 % interval: of the tasks' power (`drift`: from begin to end; `length`:
        for an instance twice as long; `contention`: of the first task beside the second; `cores`: of the core that
        differs most; `ratio`: half the width of the widest interval), of static power (`static`), of the usual time
        between updates (`lateness`), of all quanta (`unexplained`). NaN where there is none.
    text : one sentence.
    """

    kind: Kind
    tasks: tuple[str, ...]
    size: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class Evidence:
    """What findings follow from.

    Attributes
    ----------
    names : of the tasks.
    ran : (tasks,) modelled time.
    power, error : (base,) of the base columns.
    found : with the effects of the further columns, which begin at `base`.
    about : what the further columns are.
    late_s, late_gain : lateness, and by how much it is better than none (-2 log likelihood).
    update_s : usual time between updates.
    together : groups of tasks that the readings do not separate.
    outliers : part of the rows that no power explains.
    static_change : (further columns,) by how much each with an effect of 1 changes static power, relative to it.
    busy_part : part of the recording from the first task to the last.
    disorder : (tasks,) as `disorder` returns it.
    """

    names: Sequence[str]
    ran: Floats
    power: Floats
    error: Floats
    found: Average
    about: Sequence[Column]
    base: int
    late_s: float
    late_gain: float
    update_s: float
    together: Sequence[tuple[int, ...]]
    outliers: float
    static_change: Floats
    busy_part: float
    disorder: Floats

    def combined(self, weights: Iterable[float]) -> tuple[float, float, float]:
        """Return the sum of the effects of the further columns with these weights, and the ends of its interval."""
        weight = np.array(list(weights))
        size = float(weight @ self.found.effect[self.base :])
        variance = float(weight @ self.found.covariance[self.base :, self.base :] @ weight)
        half = NORMAL_95 * max(variance, 0.0) ** 0.5
        return size, size - half, size + half

    @property
    def everything(self) -> tuple[str, ...]:
        """Names of all tasks that ran."""
        return tuple(dict.fromkeys(self.names[int(task)] for task in np.flatnonzero(self.ran > 0)))

    @property
    def share(self) -> Floats:
        """Part of each task in their joules."""
        joules = self.ran * np.maximum(self.power[: len(self.ran)], 0.0)
        return np.asarray(joules / max(float(joules.sum()), 1e-300))

    def affected(self, group: str) -> list[int]:
        """Return the tasks with a clear effect of a group, by falling energy."""
        clear = [
            column.task
            for number, column in enumerate(self.about)
            if column.group == group
            and column.task is not None
            and abs(self.found.effect[self.base + number])
            > NORMAL_95 * np.sqrt(self.found.covariance[self.base + number, self.base + number])
        ]
        return sorted(set(clear), key=lambda task: -float(self.share[task]))


def findings(evidence: Evidence) -> tuple[Finding, ...]:
    """Return what is certain enough to be told."""
    chance = evidence.found.chance
    kinds = {"drift": _drift, "length": _length, "contention": _contention, "cores": _cores, "static": _static}
    found = [finding for family, of in kinds.items() if chance.get(family, 0.0) > CERTAIN for finding in of(evidence)]
    if not {"drift", "static"} & {finding.kind for finding in found} and chance.get(EITHER, 0.0) > CERTAIN:
        found += _drift_or_static(evidence)
    return (*found, *_lateness(evidence), *_unexplained(evidence), *_ratio(evidence), *_in_step(evidence))


def _drift(evidence: Evidence) -> Iterator[Finding]:
    tasks = evidence.affected("drift") or evidence.affected("wander")
    share = evidence.share
    part = evidence.busy_part
    size = evidence.combined(
        part * float(share[column.task]) if column.group == "drift" and column.task is not None else 0.0
        for column in evidence.about
    )
    names = tuple(evidence.names[task] for task in tasks) or evidence.everything
    course = f"by {_percent(size)} from begin to end on average" if size[1] * size[2] > 0 else "up and down"
    yield Finding("drift", names, *size, f"the power of {listed(names)} drifts over the recording, {course}")


def _length(evidence: Evidence) -> Iterator[Finding]:
    tasks = evidence.affected("length") or [int(np.argmax(evidence.share))]
    for task in tasks[:MOST_NAMES]:
        twice = float(np.log(2))
        size = evidence.combined(
            twice * (column.group == "length" and column.task == task) for column in evidence.about
        )
        name = evidence.names[task]
        more = _more(size[0])
        text = (
            f"the power of {name} depends on how long an instance is: one twice as long draws {_percent(size)} {more}"
        )
        yield Finding("length", (name,), *size, text)


def _contention(evidence: Evidence) -> Iterator[Finding]:
    share = evidence.share
    pairs = {
        (column.task, column.other)
        for column in evidence.about
        if column.group.startswith("victim") and column.task is not None
    }
    sized = []
    for victim, aggressor in pairs:
        size = evidence.combined(
            (column.group.startswith("victim") and (column.task, column.other) == (victim, aggressor))
            or (column.group.startswith("aggressor") and column.other == aggressor)
            for column in evidence.about
        )
        if size[1] * size[2] > 0:
            sized.append((abs(size[0]) * float(share[victim]), victim, aggressor, size))
    for _, victim, aggressor, size in sorted(sized, reverse=True)[:MOST_PAIRS]:
        one, other = evidence.names[victim], evidence.names[aggressor]
        beside = f"another {one}" if one == other else other
        text = (
            f"{one} draws {_percent(size)} {_more(size[0])} beside {beside}; that {one} is charged for it and not "
            f"{beside} is a convention, since the readings show only what both draw together"
        )
        yield Finding("contention", tuple(dict.fromkeys((one, other))), *size, text)
    crowd = evidence.combined(column.group.startswith("crowd") for column in evidence.about)
    if crowd[1] * crowd[2] > 0:
        text = f"all tasks draw {_percent(crowd)} {_more(crowd[0])} with each other instance that runs"
        yield Finding("contention", evidence.everything, *crowd, text)
    elif not sized:
        text = "the power of tasks depends on what runs beside them; the readings do not show of which and by how much"
        yield Finding("contention", evidence.everything, np.nan, np.nan, np.nan, text)


def _cores(evidence: Evidence) -> Iterator[Finding]:
    cores = sorted({column.other for column in evidence.about if column.group == "cores"})
    # Only differences between cores are known: if all draw more, so do the tasks.
    sizes = {
        core: evidence.combined(
            (column.other == core) - 1 / len(cores) if column.group == "cores" else 0.0 for column in evidence.about
        )
        for core in cores
    }
    core = max(sizes, key=lambda core: abs(sizes[core][0]))
    size = sizes[core]
    # Of many cores the one that differs most does so by two standard errors without any cause.
    if abs(size[0]) < CLEAR * (size[2] - size[0]) / NORMAL_95:
        return
    differs = f"the one that differs most {_percent(size)} {_more(size[0])} than the mean"
    text = f"cores draw differently for the same task: {differs}"
    yield Finding("cores", evidence.everything, *size, text)


def _static(evidence: Evidence) -> Iterator[Finding]:
    size = evidence.combined(evidence.static_change)
    rises = "rises" if size[0] > 0 else "falls"
    text = f"static power {rises} by {_percent(size)} over the recording"
    yield Finding("static", evidence.everything, *size, text)


def _drift_or_static(evidence: Evidence) -> Iterator[Finding]:
    text = "tasks' powers or static power drift over the recording; the readings do not show which of them"
    for kind in ("drift", "static"):
        yield Finding(kind, evidence.everything, np.nan, np.nan, np.nan, text)


def _lateness(evidence: Evidence) -> Iterator[Finding]:
    if evidence.late_s and evidence.late_gain > LATE_GAIN:
        size = evidence.late_s / evidence.update_s
        text = (
            f"the sensor shows its updates up to {evidence.late_s * 1e3:.2g} ms later than they happened; the fit "
            "allows for it, and powers of tasks shorter than that are less certain"
        )
        yield Finding("lateness", evidence.everything, size, np.nan, np.nan, text)


def _unexplained(evidence: Evidence) -> Iterator[Finding]:
    if memory(evidence.found.residual) > MEMORY or evidence.outliers > OUTLIERS:
        text = (
            "something drew power that neither tasks nor what is known of their powers explains (another program, or a "
            "load without samples): intervals may be too narrow"
        )
        yield Finding("unexplained", evidence.everything, evidence.outliers, np.nan, np.nan, text)


def memory(residual: Floats) -> float:
    """Return by how many standard deviations residuals go with their neighbours over some lags.

    Sums of correlations, all of one sign, show a load that lasts; a test of each (Ljung and Box, 1978) would also find
    that of regular updates with a regular poll, which biases nothing.
    """
    unit = residual - residual.mean()
    unit = unit / max(float(unit.std()), 1e-300)
    count = len(unit)
    with_lag = [
        float((unit[lag:] * unit[:-lag]).sum()) / count for lag in range(1, min(max(MEMORY_LAGS), count // 4) + 1)
    ]
    total = np.cumsum(with_lag)
    return max(
        (float(total[lags - 1] * np.sqrt(count / lags)) for lags in MEMORY_LAGS if lags <= len(total)), default=0.0
    )


def _ratio(evidence: Evidence) -> Iterator[Finding]:
    for group in evidence.together:
        names = tuple(evidence.names[task] for task in group)
        half = max(NORMAL_95 * evidence.error[task] / max(evidence.power[task], 1e-12) for task in group)
        text = f"{listed(names)} always ran together, in one ratio: the readings give their sum, not each of them"
        yield Finding("ratio", names, float(half), np.nan, np.nan, text)


def _in_step(evidence: Evidence) -> Iterator[Finding]:
    others = {task for group in evidence.together for task in group}
    tasks = [int(task) for task in np.flatnonzero(evidence.disorder < IN_STEP) if task not in others]
    error = evidence.error[tasks] / np.maximum(evidence.power[tasks], 1e-12)
    if len(tasks) > 1 and error.max() > UNSURE:
        half = NORMAL_95 * float(error.max())
        names = tuple(evidence.names[task] for task in tasks)
        unsure = [name for name, of in zip(names, error, strict=True) if of > UNSURE]
        given = f"give that of {listed(unsure)} within {100 * half:.2g} % only"
        text = (
            f"{listed(names)} ran in step, nearly in one ratio: the readings hardly tell their powers apart, and "
            f"{given if half < 1 else f'do not give that of {listed(unsure)}'}"
        )
        yield Finding("ratio", names, half, np.nan, np.nan, text)


def disorder(time: Floats, squares: Floats) -> Floats:
    """Return by how much each task's part in the rows varies, relative to instances in random order: (tasks,).

    Beside a total t, and with a part s of it on average, a task of instances of length x then varies around s t by the
    sum of (x - s x)^2 over its instances, and of (s y)^2 over those of the others. Tasks that alternate vary far less.

    Parameters
    ----------
    time : (n, tasks) modelled time in each row
    squares : (n, tasks) sums over instances of the square of their modelled time in the row
    """
    total = time.sum(axis=1)
    share = time.sum(axis=0) / max(float(total.sum()), 1e-300)
    varied = ((time - total[:, None] * share) ** 2).sum(axis=0)
    each = squares.sum(axis=0)
    at_random = (1 - 2 * share) * each + share**2 * each.sum()
    return np.asarray(np.divide(varied, at_random, out=np.ones(len(share)), where=at_random > 1e-9 * each))


def listed(names: Sequence[str]) -> str:
    """Return some names as words."""
    if len(names) > MOST_NAMES:
        return ", ".join(names[:MOST_NAMES]) + f" and {len(names) - MOST_NAMES} more"
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _percent(size: tuple[float, float, float]) -> str:
    ends = sorted(abs(end) for end in size[1:]) if size[1] * size[2] > 0 else (0.0, max(map(abs, size[1:])))
    return f"{100 * abs(size[0]):.2g} % ({100 * ends[0]:.2g} to {100 * ends[1]:.2g} %)"


def _more(size: float) -> str:
    return "more" if size > 0 else "less"
