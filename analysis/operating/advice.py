"""The recommended operating point of each task and of the program, with its expected saving and uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import UsageError

from .candidates import Candidates, candidates
from .choice import DELAY_POWERS, INTERVAL, Wish, choose, expected_loss, weighed
from .conditions import conditions, none_allowed
from .draws import draw, draw_as_run
from .measured import PROGRAM, by_task, tasks_of
from .next_point import SURE, next_point
from .points import points
from .reason import FAR, reason, reason_as_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

    from .algorithm import Sized
    from .draws import Draws
    from .measured import Measured
    from .next_point import Next


@dataclass(frozen=True)
class Advice:
    """Advice for one task, or the program (task "").

    Attributes
    ----------
    measured : the measurements.
    wish : the goal and the conditions.
    candidates, draws : the candidates, and curves over them drawn from the posterior; None if only one operating point
        was run. If no law fits the points, only the measured points, within their noise.
    chosen : a candidate; None if none satisfies the conditions or only one point was run.
    base : the reference of savings: the candidate with the highest setting and the most workers that were run.
    loss : expected relative excess cost of the choice over the best point; NaN without a choice or a prediction.
    proposed : the point to measure next; None if the choice is certain, no point would help, or without a prediction.
    why : sentences.
    """

    measured: Measured
    wish: Wish
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
        values = time_s if of == "time" else energy_j * time_s ** DELAY_POWERS[of]
        saved = 1 - values[:, self.chosen] / values[:, self.base]
        low, high = np.percentile(saved, INTERVAL)
        return float(saved.mean()), float(low), float(high)

    def points(self) -> list[dict[str, Any]]:
        """Return every candidate with time, energy and power, as `points.points` does."""
        if self.candidates is None or self.draws is None:
            return []
        rows = points(self.wish, self.measured, self.candidates, self.draws)
        return [self.place(place) | row for place, row in enumerate(rows)]

    def conditions(self) -> list[dict[str, float | str]]:
        """Return the choice's figures for each condition, as `reason.conditions` does; none without a choice."""
        if self.chosen is None or self.draws is None:
            return []
        return conditions(self.wish, self.draws, self.chosen)

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
            "by": self.wish.by,
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


def doubt_text(advices: Sequence[Advice]) -> str | None:
    """Return a sentence on the error factor of joules estimated from assumed watts; None without such joules."""
    factor = max(advice.measured.watts_factor for advice in advices)
    if factor <= 1:
        return None
    capped = any(advice.wish.max_power_w is not None for advice in advices)
    return (
        f"The watts behind these energies were assumed: joules and watts may be off by a factor of {factor:.2g}, all "
        f"alike (95 %). Savings hardly depend on it{'; whether the cap on power is kept does' if capped else ''}."
    )


def advise(
    rows: pd.DataFrame,
    wish: Wish | None = None,
    *,
    settings: Sequence[float] = (),
    workers: Sequence[int] = (),
    tasks: Sequence[str] = (),
    algorithm: Sized | None = None,
    done: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[Advice]:
    """Advise on every task of a table, the program first.

    Parameters
    ----------
    rows
        As `read` returns them.
    wish
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
        The wish is invalid, a task is not in the table, or no task was run at two points.
    """
    wish = wish or Wish()
    _check(wish)
    names = tasks_of(rows)
    if algorithm is not None and not tasks:
        tasks = (PROGRAM,)
    for name in tasks:
        if name not in names:
            known = ", ".join(repr(one) for one in names)
            raise UsageError(f"the table has no task {name!r} with an energy; it has {known}")
    kept = by_task(rows[rows["task"].isin(tasks)] if tasks else rows)
    if all(len(one.time_s) < 2 for one in kept):
        raise UsageError(
            "no task was run at two operating points; measure at a second frequency, power limit or number of workers"
        )
    advices = []
    for one in kept:
        advices.append(of_task(one, wish, settings=settings, workers=workers, algorithm=algorithm))
        done(len(advices), len(kept))
    return advices


def of_task(
    measured: Measured,
    wish: Wish,
    *,
    settings: Sequence[float] = (),
    workers: Sequence[int] = (),
    algorithm: Sized | None = None,
) -> Advice:
    """Advise on one task; `settings`, `workers` and `algorithm` as in `advise`."""
    if len(measured.time_s) < 2:
        why = "Run at one operating point only; a second one is needed to compare."
        return Advice(measured, wish, None, None, None, 0, float("nan"), None, why)
    among = candidates(measured, settings, workers)
    if algorithm is not None:
        algorithm.check(measured, among)
    draws = draw(measured, among.setting, among.workers, algorithm=algorithm)
    if far := draws.missed > FAR:
        among = Candidates(measured.unit, measured.setting, measured.workers)
        draws = draw_as_run(measured, draws.missed)
    run = among.measured(measured)
    base = int(np.argmax(np.where(run, np.nan_to_num(among.setting) * 1e6 + among.workers, -1.0)))
    chosen = choose(wish, draws)
    if chosen is None:
        return Advice(measured, wish, among, draws, None, base, float("nan"), None, none_allowed(wish, among, draws))
    if far:
        why = reason_as_run(wish, among, draws, chosen, base)
        return Advice(measured, wish, among, draws, chosen, base, float("nan"), None, why)
    loss = expected_loss(weighed(wish, draws), chosen)
    proposed = next_point(wish, draws, chosen, measured=run)
    why = reason(wish, measured, among, draws, chosen, base)
    if algorithm is not None:
        why = f"By the counts of {algorithm.algorithm.name} of size {algorithm.size:g}. {why}"
    if proposed is None and loss >= SURE:
        why += " No further run would help noticeably."
    return Advice(measured, wish, among, draws, chosen, base, loss, proposed, why)


def _check(wish: Wish) -> None:
    if wish.by not in DELAY_POWERS:
        raise UsageError(f"--by must be {', '.join(DELAY_POWERS)}, got {wish.by!r}")
    if wish.max_slowdown is not None and wish.max_slowdown < 0:
        raise UsageError(f"--max-slowdown must be 0 % or more, got {wish.max_slowdown:.3g}")
    if wish.max_power_w is not None and wish.max_power_w <= 0:
        raise UsageError(f"--max-power must be above 0 W, got {wish.max_power_w:g}")
    if not 0 < wish.sure <= 1:
        raise UsageError(f"--sure must be above 0 % and at most 100 %, got {100 * wish.sure:g} %")
