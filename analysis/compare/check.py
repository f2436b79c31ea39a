"""Whether runs take more than a baseline allows: a task is over its limit only if chance does not explain it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import UsageError

from .baseline import EVERY
from .circumstances import likeness
from .comparison import ONE_RUN
from .evidence import chance_beyond, difference, holm
from .figure_texts import LEVEL
from .one_model import NEW_BASELINE, models_of
from .sides import ends_of, estimates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from .run_figures import RunFigures

OVER, MAYBE, WITHIN, NEW, GONE, SMALL = "over", "maybe over", "within", "new", "gone", "small"
DEFAULT_LIMIT = 0.05
LEAST_SHARE = 0.01
_MACHINE = {
    "quality": "quality",
    "sensor": "sensor",
    "processor": "processor",
    "cpus": "number of CPUs",
    "watts": "watts",
}


@dataclass(frozen=True)
class Checked:
    """A task beside its baseline.

    Attributes
    ----------
    task : its name
    state : ``"over"`` (surely), ``"maybe over"`` (it may be noise), ``"within"``, ``"new"`` (not in the baseline),
        ``"gone"`` (only there), ``"small"`` (not judged, for its share)
    base, now : the figure of the baseline and of the runs; NaN if not known
    ratio, ratio_low, ratio_high : now over base with the 95 % interval; NaN where there is none
    limit : largest increase as a part: 0.05 is 5 %
    chance : to see such an increase if it were within the limit, corrected for the number of tasks
    base_at_most, now_at_most : upper end of a mean energy that is not resolved; else NaN
    """

    task: str
    state: str
    base: float
    now: float
    ratio: float
    ratio_low: float
    ratio_high: float
    limit: float
    chance: float
    base_at_most: float
    now_at_most: float


@dataclass(frozen=True)
class Check:
    """The result of a check.

    Attributes
    ----------
    figure : that was checked: energy_mean_j, energy_j or duration_mean_s
    quality : of the runs' joules
    model : the power model that shared them; "" if that is not known
    tasks : those over their limit first
    base_runs, runs : how many runs were compared
    warnings : sentences on what makes the result doubtful
    unread : sentences on joules that the runs' totals lack
    """

    figure: str
    quality: str
    model: str
    tasks: tuple[Checked, ...]
    base_runs: int
    runs: int
    warnings: tuple[str, ...]
    unread: tuple[str, ...]

    def over(self, *, strict: bool = False) -> list[Checked]:
        """Return the tasks over their limit; if `strict`, those too that may be so by noise."""
        return [one for one in self.tasks if one.state == OVER or (strict and one.state == MAYBE)]


def check(
    base: Sequence[RunFigures],
    runs: Sequence[RunFigures],
    limits: Mapping[str, float],
    *,
    figure: str = "energy_mean_j",
    least_share: float = LEAST_SHARE,
    any_machine: bool = False,
) -> Check:
    """Compare runs with those of a baseline.

    Parameters
    ----------
    base, runs : both sides
    limits : largest increase by pattern of tasks' names, the last that fits decides; `EVERY` is for all others
    figure : joules of an instance (``"energy_mean_j"``) or of all (``"energy_j"``), or seconds (``"duration_mean_s"``)
    least_share : tasks with a smaller part of the joules (of the seconds) are not judged unless a limit names them
    any_machine : compare runs although machine or sensor differ from the baseline's

    Raises
    ------
    UsageError
        If machine or sensor differ and that was not allowed, the power models differ, or one side has no joules to
        check.
    """
    measured = [[run.circumstances for run in side] for side in (base, runs)]
    if not any_machine:
        _check_machine(*measured)
    like = likeness(*measured)
    if figure != "duration_mean_s":
        _check_model(*measured)
    if not like.has_energy and figure != "duration_mean_s":
        raise UsageError("there are no joules on both sides to check: check times by --figure time")
    names = list(dict.fromkeys(name for run in (*runs, *base) for name in run.tasks))
    before, after = ([run.figures[figure] for run in side] for side in (base, runs))
    a, b, is_shared = estimates(before, after, names, common=not like.shares_error)
    limit = np.array([limit_of(name, limits) for name in names])
    found = difference(a, b, is_shared=is_shared)
    judged = _judged(names, runs, base, limits, figure=figure, least_share=least_share)
    chance = holm(np.where(judged, chance_beyond(a, b, 1 + limit, is_shared=is_shared), np.nan))
    figures = np.array([a.value, b.value, found.ratio, found.ratio_low, found.ratio_high, limit, chance]).T
    ends = np.array([ends_of(before, names), ends_of(after, names)]).T
    rows = [
        Checked(name, _state(*map(float, (*row[:2], *row[-2:])), is_judged=is_judged), *map(float, (*row, *at_most)))
        for name, row, is_judged, at_most in zip(names, figures, judged, ends, strict=True)
    ]
    warnings = [*like.warnings, *([ONE_RUN] if len(base) == len(runs) == 1 else [])]
    quality = str(runs[0].circumstances["quality"])
    model = " or ".join(models_of(measured[1]))
    return Check(
        figure, quality, model, tuple(sorted(rows, key=_order)), len(base), len(runs), tuple(warnings), like.unread
    )


def limit_of(task: str, limits: Mapping[str, float]) -> float:
    """Return the limit of a task: that of the last pattern that fits."""
    fitting = [limit for pattern, limit in limits.items() if pattern == task or fnmatchcase(task, pattern)]
    return fitting[-1] if fitting else DEFAULT_LIMIT


def _check_machine(base: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> None:
    for name, words in _MACHINE.items():
        sides = [{str(one.get(name, "")) for one in side} for side in (base, runs)]
        if sides[0] != sides[1]:
            shown = [" and ".join(sorted(side)) or "unknown" for side in sides]
            raise UsageError(
                f"the baseline is of another machine or way to measure ({words}: {shown[0]}, here {shown[1]}): make "
                "one here, or compare all the same by --any-machine"
            )


def _check_model(base: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> None:
    if len(models_of([*base, *runs])) > 1:
        before, now = (" and ".join(models_of(side)) for side in (base, runs))
        raise UsageError(
            f"no verdict: the joules of the baseline are shared by the power model {before} and those here by {now}, "
            f"and joules move between tasks by that alone: leave --model out, or {NEW_BASELINE}"
        )


def _judged(
    names: Sequence[str],
    runs: Sequence[RunFigures],
    base: Sequence[RunFigures],
    limits: Mapping[str, float],
    *,
    figure: str,
    least_share: float,
) -> list[bool]:
    """Return whether each task is judged: by its share on either side, or since a limit names it."""
    largest = np.zeros(len(names))
    for run in (*runs, *base):
        sums = _sums(run, figure).reindex(list(names)).fillna(0.0).to_numpy(float)
        if sums.sum() > 0:
            largest = np.maximum(largest, sums / sums.sum())
    named = [pattern for pattern in limits if pattern != EVERY]
    return [
        bool(share >= least_share) or any(fnmatchcase(name, pattern) or name == pattern for pattern in named)
        for name, share in zip(names, largest, strict=True)
    ]


def _sums(run: RunFigures, figure: str) -> pd.Series[float]:
    if figure == "duration_mean_s":
        seconds: pd.Series[float] = run.figures[figure]["value"] * run.where["instances"]
        return seconds
    joules: pd.Series[float] = run.figures["energy_j"]["value"]
    return joules


def _state(base: float, now: float, limit: float, chance: float, *, is_judged: bool) -> str:
    if math.isnan(base) or math.isnan(now):
        return NEW if math.isnan(base) else GONE
    if not is_judged:
        return SMALL
    if now <= (1 + limit) * base:
        return WITHIN
    return OVER if chance < LEVEL else MAYBE


def _order(one: Checked) -> tuple[int, float]:
    ranks = (OVER, MAYBE, NEW, WITHIN, GONE, SMALL)
    return ranks.index(one.state), -(one.ratio if math.isfinite(one.ratio) else 0.0)
