"""The recommended operating point of each task and of the program, with its expected saving and uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import UsageError

from .candidates import Candidates, candidates
from .choice import (
    INTERVAL,
    NEGLIGIBLE_LOSS,
    Objective,
    allowed,
    choose,
    expected_loss,
    front,
    next_point,
    weighed,
)
from .draws import draw, draw_as_run
from .goals import DELAY_POWERS, delay_product
from .learned import NOTHING, Learned
from .measured import by_task, tasks_of
from .reasons import FAR, conditions, none_allowed, reason, reason_as_run
from .scales import student
from .table import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

    from .algorithm import SizedAlgorithm
    from .choice import Floats, Next
    from .draws import Draws
    from .learned import Shown
    from .measured import Measured

UNITS = {"time": "s", "energy": "j", "power": "w"}


@dataclass(frozen=True)
class Advice:
    """Advice for one task, or the program (task "").

    Attributes
    ----------
    measured : the measurements.
    objective : the goal and the conditions.
    candidates, draws : the candidates, and curves over them drawn from the posterior; None if only one operating point
        was run. If no law fits the points, only the measured points, within their noise.
    chosen : a candidate; None if none satisfies the conditions or only one point was run.
    base : the reference of savings: the candidate with the highest setting and the most workers that were run.
    loss : expected relative excess cost of the choice over the best point; NaN without a choice or a prediction.
    proposed : the point to measure next; None if the choice is certain, no point would help, or without a prediction.
    why : sentences.
    """

    measured: Measured
    objective: Objective
    candidates: Candidates | None
    draws: Draws | None
    chosen: int | None
    base: int
    loss: float
    proposed: Next | None
    why: str

    def saving(self, of: str = "energy") -> tuple[float, float, float]:
        """Return the relative saving of the choice over the base, with its 95 % interval; NaN without a choice.

        Parameters
        ----------
        of
            "energy", "time" (negative: it takes longer), "edp" or "ed2p".
        """
        if self.chosen is None or self.draws is None:
            return float("nan"), float("nan"), float("nan")
        energy_j, time_s = self.draws.energy_j, self.draws.time_s
        values = time_s if of == "time" else delay_product(of, energy_j, time_s)
        saved = 1 - values[:, self.chosen] / values[:, self.base]
        low, high = np.percentile(saved, INTERVAL)
        return float(saved.mean()), float(low), float(high)

    def points(self) -> list[dict[str, Any]]:
        """Return every candidate with time, energy and power, as `_points` does."""
        if self.candidates is None or self.draws is None:
            return []
        rows = _points(self.objective, self.measured, self.candidates, self.draws)
        return [self.place(place) | row for place, row in enumerate(rows)]

    def conditions(self) -> list[dict[str, float | str]]:
        """Return the choice's figures for each condition, as `reasons.conditions` does; none without a choice."""
        if self.chosen is None or self.draws is None:
            return []
        return conditions(self.objective, self.draws, self.chosen)

    def place(self, place: int) -> dict[str, float | int | None]:
        """Return a candidate's setting (None if the table has none) and workers."""
        if self.candidates is None:
            return {"setting": None, "workers": None}
        setting = float(self.candidates.setting[place])
        return {"setting": None if np.isnan(setting) else setting, "workers": int(self.candidates.workers[place])}

    def as_plain(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        savings = {
            f"{of}_saving": dict(zip(("mean", "low", "high"), self.saving(of), strict=True))
            for of in ("energy", "time", "edp", "ed2p")
        }
        proposed = self.proposed
        return {
            "task": self.measured.task,
            "setting_unit": self.measured.unit,
            "quality": self.measured.quality,
            "watts_factor": self.measured.watts_factor,
            "by": self.objective.by,
            "chosen": None if self.chosen is None else self.place(self.chosen),
            "base": None if self.candidates is None else self.place(self.base),
            **savings,
            "conditions": self.conditions(),
            "expected_loss": self.loss,
            "next": None if proposed is None else self.place(proposed.place)
            | {"loss_after": proposed.loss_after, "again": proposed.again},
            "why": self.why,
            "measured": [
                {"setting": None if np.isnan(setting) else float(setting), "workers": int(workers),
                 "time_s": float(time_s), "energy_j": float(energy_j), "quality": self.measured.run(place).quality}
                for place, (setting, workers, time_s, energy_j) in enumerate(zip(
                    self.measured.setting, self.measured.workers, self.measured.time_s, self.measured.energy_j,
                    strict=True,
                ))
            ],
            "points": self.points(),
        }  # fmt: skip


def uncertainty_text(advices: Sequence[Advice]) -> str | None:
    """Return a sentence on the error factor of joules estimated from assumed watts; None without such joules."""
    factor = max(advice.measured.watts_factor for advice in advices)
    if factor <= 1:
        return None
    capped = any(advice.objective.max_power_w is not None for advice in advices)
    return (
        f"The watts behind these energies were assumed: joules and watts may be off by a factor of {factor:.2g}, all "
        f"alike (95 %). Savings hardly depend on it{'; whether the cap on power is kept does' if capped else ''}."
    )


def advise(
    rows: pd.DataFrame,
    objective: Objective | None = None,
    *,
    settings: Sequence[float] = (),
    workers: Sequence[int] = (),
    tasks: Sequence[str] = (),
    algorithm: SizedAlgorithm | None = None,
    done: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[Advice]:
    """Advise on every task of a table, the program first.

    Parameters
    ----------
    rows
        As `read` returns them.
    objective
        The goal and the conditions; None: least energy.
    settings, workers
        Candidates besides the measured points; empty: an even grid between them.
    tasks
        Only these; empty: all, or the program alone where an algorithm is named.
    algorithm
        The algorithm of the tasks, if its counts are known.
    done
        Called after each task with the numbers of finished and all tasks.

    Raises
    ------
    UsageError
        The objective is invalid, a task is not in the table, or no task was run at two points.
    """
    objective = objective or Objective()
    _check(objective)
    names = tasks_of(rows)
    if algorithm is not None and not tasks:
        tasks = (PROGRAM,)
    for name in tasks:
        if name not in names:
            known = ", ".join(repr(one) for one in names)
            raise UsageError(f"the table has no task {name!r} with an energy; it has {known}")
    every = by_task(rows)
    kept = [one for one in every if one.task in tasks] if tasks else every
    if all(len(one.time_s) < 2 for one in kept):
        raise UsageError(
            "no task was run at two operating points; measure at a second frequency, power limit or number of workers"
        )
    advices, learned = [], Learned(every)
    for one in kept:
        advice = of_task(one, objective, settings=settings, workers=workers, algorithm=algorithm, shown=learned.of(one))
        advices.append(advice)
        done(len(advices), len(kept))
    return advices


def of_task(
    measured: Measured,
    objective: Objective,
    *,
    settings: Sequence[float] = (),
    workers: Sequence[int] = (),
    algorithm: SizedAlgorithm | None = None,
    shown: Shown = NOTHING,
) -> Advice:
    """Advise on one task.

    Parameters
    ----------
    measured, objective
        The task, the goal and the conditions.
    settings, workers, algorithm
        As in `advise`.
    shown
        What other tasks of the table show.
    """
    if len(measured.time_s) < 2:
        why = "Run at one operating point only; a second one is needed to compare."
        return Advice(measured, objective, None, None, None, 0, float("nan"), None, why)
    among = candidates(measured, settings, workers)
    if algorithm is not None:
        algorithm.check(measured, among)
    draws = draw(measured, among.setting, among.workers, algorithm=algorithm, shown=shown)
    if far := draws.missed > FAR:
        among = Candidates(measured.unit, measured.setting, measured.workers)
        draws = draw_as_run(measured, draws.missed)
    run = among.measured(measured)
    base = int(np.argmax(np.where(run, np.nan_to_num(among.setting) * 1e6 + among.workers, -1.0)))
    chosen = choose(objective, draws)
    if chosen is None:
        why = none_allowed(objective, among, draws)
        return Advice(measured, objective, among, draws, None, base, float("nan"), None, why)
    if far:
        why = reason_as_run(objective, among, draws, chosen, base)
        return Advice(measured, objective, among, draws, chosen, base, float("nan"), None, why)
    loss = expected_loss(weighed(objective, draws), chosen)
    proposed = next_point(objective, draws, chosen, measured=run)
    why = reason(objective, measured, among, draws, chosen, base)
    if algorithm is not None:
        why = f"By the counts of {algorithm.algorithm.name} of size {algorithm.size:g}. {why}"
    if proposed is None and loss >= NEGLIGIBLE_LOSS:
        why += " No further run would help noticeably."
    return Advice(measured, objective, among, draws, chosen, base, loss, proposed, why)


def _check(objective: Objective) -> None:
    if objective.by not in DELAY_POWERS:
        raise UsageError(f"--by must be {', '.join(DELAY_POWERS)}, got {objective.by!r}")
    if objective.max_slowdown is not None and objective.max_slowdown < 0:
        raise UsageError(f"--max-slowdown must be 0 % or more, got {objective.max_slowdown:.3g}")
    if objective.max_power_w is not None and objective.max_power_w <= 0:
        raise UsageError(f"--max-power must be above 0 W, got {objective.max_power_w:g}")
    if not 0 < objective.certainty <= 1:
        raise UsageError(f"--sure must be above 0 % and at most 100 %, got {100 * objective.certainty:g} %")


def _points(objective: Objective, measured: Measured, candidates: Candidates, draws: Draws) -> list[dict[str, Any]]:
    """Return time, energy and mean power of each candidate with 95 % intervals, and its kind.

    A measured point has the means of its runs and the interval of their noise, other points those of the curves.
    """
    columns = {"time": draws.time_s, "energy": draws.energy_j, "power": draws.power_w}
    shown = {name: (values.mean(axis=0), *np.percentile(values, INTERVAL, axis=0)) for name, values in columns.items()}
    places = measured.places(candidates.setting, candidates.workers)
    noises = {
        "time": measured.time_noise * student(measured.time_freedom),
        "energy": measured.energy_noise * student(measured.energy_freedom),
        "power": measured.power_noise * student(min(measured.time_freedom, measured.energy_freedom)),
    }
    means = {"time": measured.time_s, "energy": measured.energy_j, "power": measured.power_w}
    for here, place in enumerate(places):
        if place is not None:
            for name, values in shown.items():
                for value, end in zip(values, _ends(means[name][place], noises[name][place]), strict=True):
                    value[here] = end
    may, kept = allowed(objective, draws), front(shown["time"][0], shown["energy"][0])
    return [
        _row(shown, here) | {"measured": place is not None, "front": bool(kept[here]), "allowed": bool(may[here])}
        for here, place in enumerate(places)
    ]


def _row(shown: dict[str, tuple[Floats, Floats, Floats]], here: int) -> dict[str, float]:
    row: dict[str, float] = {}
    for name, values in shown.items():
        heads = name, f"{name}_low", f"{name}_high"
        row |= {f"{head}_{UNITS[name]}": float(value[here]) for head, value in zip(heads, values, strict=True)}
    return row


def _ends(value: float, noise: float) -> tuple[float, float, float]:
    factor = float(np.exp(noise))
    return value, value / factor, value * factor
