"""What advice is worth where runs are noisy: tables of repeated runs of tasks whose laws are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from tprof.analysis.operating_points.advice import Advice, advise
from tprof.analysis.operating_points.choice import Objective
from tprof.analysis.operating_points.table import check

from .responses import HIGH_HZ, LOW_HZ, Floats

FREQUENCIES_HZ = np.array([LOW_HZ, 2.2e9, 2.8e9, HIGH_HZ])
MOST_W = 50.0


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
        raise AssertionError("these tables have settings, and a objective without conditions leaves every point")
    return float(setting)
