"""How good advice is where the truth is known.

Few points of a response are shown to `tprof advise`, and the others show how good its choice is; tables of noisy,
repeated runs of tasks with known laws show whether its intervals and conditions hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tprof.analysis.operating_points.advice import Advice, advise
from tprof.analysis.operating_points.choice import Objective, choose, expected_loss, next_point, weighed
from tprof.analysis.operating_points.draws import draw
from tprof.analysis.operating_points.goals import delay_product
from tprof.analysis.operating_points.laws import PRIOR, Prior
from tprof.analysis.operating_points.learned import NOTHING, Learned
from tprof.analysis.operating_points.measured import RUN_NOISE, Measured
from tprof.analysis.operating_points.scales import Scale
from tprof.analysis.operating_points.table import check

from .known_responses import HIGH_HZ, LOW_HZ, Floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.published.public_measurements import Response


MISFITS = (0.05, 0.08, 0.1, 0.13, 0.16, 0.2)
"""Of a power limit, parts of the logarithms by which times and powers change."""
UNCHANGED = tuple((low, low + 0.1, low + 0.2) for low in (0.05, 0.10, 0.15, 0.20, 0.25))
"""Parts of the highest power limit."""
WANTED_COVERAGE = 0.95
EXACT_NOISE = Scale(0.005)
FREQUENCIES_HZ = np.array([LOW_HZ, 2.2e9, 2.8e9, HIGH_HZ])
MOST_W = 50.0


@dataclass(frozen=True)
class Try:
    """What came of advice on one response.

    Attributes
    ----------
    name : of the response.
    loss : by what part the chosen point costs more than the best.
    off : how many points the choice lies from the best.
    expected : the loss that was expected.
    error, time_error : relative, signed, of energies and times at the points that were not shown: (hidden,).
    covered : whether 95 % intervals of the energy contain them: (hidden,).
    proposed : the point that it asks for, None where it is sure.
    """

    name: str
    loss: float
    off: int
    expected: float
    error: Floats
    time_error: Floats
    covered: Floats
    proposed: int | None


def attempt(
    response: Response,
    shown: Sequence[int],
    *,
    unit: str = "Hz",
    by: str = "energy",
    noise: Scale = RUN_NOISE,
    prior: Prior = PRIOR,
    others: Learned | None = None,
) -> Try:
    """Show the points `shown` of a response, and all of some others, and see what is advised."""
    places, objective = sorted(shown), Objective(by)
    task = measured(response, places, unit, noise)
    seen_of_others = NOTHING if others is None else others.of(task)
    draws = draw(task, response.setting, response.workers, prior, shown=seen_of_others)
    chosen = choose(objective, draws)
    if chosen is None:
        raise AssertionError("an objective without conditions leaves every point")
    seen = np.isin(np.arange(len(response.time_s)), places)
    # A response is known once: running a point again would show the same.
    proposed = next_point(objective, draws, chosen, measured=seen, repeat=False)
    cost = delay_product(by, response.energy_j, response.time_s)
    low, high = np.percentile(draws.energy_j, (2.5, 97.5), axis=0)
    return Try(
        name=response.name,
        loss=float(cost[chosen] / cost.min() - 1),
        off=abs(chosen - int(np.argmin(cost))),
        expected=expected_loss(weighed(objective, draws), chosen),
        error=(draws.energy_j.mean(axis=0) / response.energy_j - 1)[~seen],
        time_error=(draws.time_s.mean(axis=0) / response.time_s - 1)[~seen],
        covered=((response.energy_j >= low) & (response.energy_j <= high))[~seen].astype(float),
        proposed=None if proposed is None else proposed.place,
    )


def among_others(tasks: Sequence[Response], *, most: int) -> list[Try]:
    """Try each task from its two ends, with up to `most` others of its processor, of other kernels, known whole.

    Names are those of `public_measurements.frequencies`.
    """
    random, found = np.random.default_rng(0), []
    known = {one.name: measured(one, range(len(one.time_s)), "Hz", RUN_NOISE) for one in tasks}
    for one in tasks:
        processor, kernel = one.name.split(": ")[:2]
        names = [
            other.name
            for other in tasks
            if other.name.startswith(f"{processor}: ") and other.name.split(": ")[1] != kernel
        ]
        some: list[str] = random.choice(names, min(most, len(names)), replace=False).tolist() if names else []
        found.append(attempt(one, ends(one), others=Learned(tuple(known[name] for name in some))))
    return found


def ends(response: Response) -> tuple[int, int]:
    """Return the lowest and the highest point."""
    return 0, len(response.time_s) - 1


def until_sure(
    response: Response,
    most: int,
    *,
    unit: str = "Hz",
    by: str = "energy",
    noise: Scale = RUN_NOISE,
    prior: Prior = PRIOR,
) -> Try:
    """Start from the two ends and measure what is asked for, `most` times at most."""
    shown = list(ends(response))
    found = attempt(response, shown, unit=unit, by=by, noise=noise, prior=prior)
    while found.proposed is not None and len(shown) < most + 2:
        shown.append(found.proposed)
        found = attempt(response, shown, unit=unit, by=by, noise=noise, prior=prior)
    return found


def without_own_kind(jobs: Sequence[Response], *, unit: str, most: int = 0) -> list[Try]:
    """Try each job with a prior chosen from jobs of other kinds only, a cross-validation of the prior.

    A kind is what stands before the colon of a name. From the two ends of all jobs of other kinds, first the part of
    power that the clock does not change is chosen, by the least squares of predicted energies; then the misfit, the
    least with which intervals hold `WANTED_COVERAGE` of them. `most`: how often what is asked for is measured.
    """
    found = []
    for kind in dict.fromkeys(map(_kind, jobs)):
        prior = _suiting([one for one in jobs if _kind(one) != kind], unit)
        found += [until_sure(one, most, unit=unit, prior=prior) for one in jobs if _kind(one) == kind]
    return found


def _suiting(jobs: Sequence[Response], unit: str) -> Prior:
    def squares(prior: Prior) -> float:
        return float(np.mean([(_from_ends(one, unit, prior).error ** 2).mean() for one in jobs]))

    def covered(prior: Prior) -> float:
        return float(np.mean([_from_ends(one, unit, prior).covered.mean() for one in jobs]))

    best = min((replace(PRIOR, unchanged=some) for some in UNCHANGED), key=squares)
    widths = [replace(best, limit_misfit=(misfit, misfit)) for misfit in MISFITS]
    return next((prior for prior in widths if covered(prior) >= WANTED_COVERAGE), widths[-1])


def _kind(one: Response) -> str:
    return one.name.partition(":")[0]


def plain_energies(response: Response) -> Floats:
    """Return the energies by time ``a + b/setting`` and power ``c + d setting`` through both ends."""
    x = response.setting
    time_s = np.interp(1 / x, 1 / x[[-1, 0]], response.time_s[[-1, 0]])
    power_w = np.interp(x, x[[0, -1]], (response.energy_j / response.time_s)[[0, -1]])
    return np.asarray(time_s * power_w)


def plain_fit(response: Response) -> float:
    """Return the loss of the point that the plain fit through both ends chooses."""
    return float(response.energy_j[int(np.argmin(plain_energies(response)))] / response.energy_j.min() - 1)


def always(response: Response, place: int) -> float:
    """Return the loss of a fixed choice."""
    return float(response.energy_j[place] / response.energy_j.min() - 1)


def _from_ends(response: Response, unit: str, prior: Prior) -> Try:
    return attempt(response, ends(response), unit=unit, prior=prior)


def measured(response: Response, places: Sequence[int], unit: str, noise: Scale) -> Measured:
    """Return some points of a response as measured, each run once with this noise."""
    shown = list(places)
    return Measured(
        task=response.name,
        unit="" if np.isnan(response.setting).all() else unit,
        setting=response.setting[shown],
        workers=response.workers[shown],
        time_s=response.time_s[shown],
        energy_j=response.energy_j[shown],
        time_noise=np.full(len(shown), noise.value),
        energy_noise=np.full(len(shown), noise.value),
        time_freedom=noise.freedom,
        energy_freedom=noise.freedom,
        quality="simulated",
    )


@dataclass(frozen=True)
class Noise:
    """Relative standard deviations of a run, and how often each point is run."""

    energy: float
    time: float
    repeats: int


KINDS = (Noise(0.02, 0.02, 3), Noise(0.05, 0.05, 3), Noise(0.1, 0.03, 2), Noise(0.003, 0.3, 3))


@dataclass(frozen=True)
class Tried:
    """Parts of the tables: whose saving lies in its interval; whose choice under a cap breaks it."""

    covered: float
    broken: float


@dataclass(frozen=True)
class _Task:
    """Time 1 - work + work f0/f, power static + the rest (f/f0)^exponent, in parts of those at the highest f0."""

    work: float
    static: float
    exponent: float

    def run(self, hz: Floats | float) -> tuple[Floats, Floats]:
        """Return time and energy."""
        time_s = np.asarray(1 - self.work + self.work * HIGH_HZ / hz)
        power_w = MOST_W * (self.static + (1 - self.static) * (hz / HIGH_HZ) ** self.exponent)
        return time_s, np.asarray(time_s * power_w)


def try_noise(noise: Noise, tables: int) -> Tried:
    """Advise on tables of random tasks, with and without a cap on the power."""
    random = np.random.default_rng(3)
    covered, broken = [], []
    for _ in range(tables):
        task = _Task(*random.uniform((0.1, 0.1, 1.3), (1.0, 0.6, 2.8)))
        rows = _table(task, noise, random)
        covered.append(_covers(task, rows))
        broken += _broken(task, rows, cap_w=MOST_W * random.uniform(0.4, 0.95))
    return Tried(float(np.mean(covered)), float(np.mean(broken)))


def _table(task: _Task, noise: Noise, random: np.random.Generator) -> pd.DataFrame:
    hz = np.repeat(FREQUENCIES_HZ, noise.repeats)
    time_s, energy_j = task.run(hz)
    rows = pd.DataFrame({"task": "", "setting": hz, "setting_unit": "Hz"}).assign(
        energy_j=energy_j * np.exp(noise.energy * random.standard_normal(len(hz))),
        time_s=time_s * np.exp(noise.time * random.standard_normal(len(hz))),
    )
    return check(rows, where="noisy runs")


def _covers(task: _Task, rows: pd.DataFrame) -> bool:
    (advice,) = advise(rows)
    _, low, high = advice.saving()
    saved = 1 - task.run(_chosen_hz(advice))[1] / task.run(HIGH_HZ)[1]
    return bool(low <= saved <= high)


def _broken(task: _Task, rows: pd.DataFrame, *, cap_w: float) -> list[bool]:
    (advice,) = advise(rows, Objective("ed2p", max_power_w=cap_w))
    if advice.chosen is None:
        return []
    time_s, energy_j = task.run(_chosen_hz(advice))
    return [bool(energy_j / time_s > cap_w)]


def _chosen_hz(advice: Advice) -> float:
    setting = None if advice.chosen is None else advice.place(advice.chosen)["setting"]
    if setting is None:
        raise AssertionError("these tables have settings, and an objective without conditions leaves every point")
    return float(setting)
