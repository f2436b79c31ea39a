"""Two tasks of one run side by side: how often, how long, how many joules, and whether they differ.

Which errors both share depends on where the joules come from.

A sensor's joules are shared among what ran in a reading, and what one task gets too much another may lack. So the
errors of both are added as they are. Only the sensor's own relative error, the same for all joules, is left out.

An estimate with the model of CPU time is idle watts times time and watts of a busy core times CPU time. Each call's
thread counts its CPU time itself, so above the idle watts a call drew ``w * cpu_s``, with the same ``w`` for both:

- An error of ``w`` is common and cancels.
- How far the attribution is from ``w * cpu_s`` is known: the difference of a side's joules to its CPU time at the
  watts of both sides together bounds the bias of that side.
- The idle joules s are another multiple of CPU time where a task ran beside more or fewer others. If idle watts are off
  by a factor k more than busy ones, the ratio is ``(k s_b + d_b) / (k s_a + d_a)``, which is monotone in k. So its ends
  are at the ends of k, the product of both factors, times what ``w`` of these calls is off from that of the estimate.
- The calls' own scatter remains, and bounds of native threads.

That tasks draw unlike watts for the same CPU time is no part of the assumed model, so it is in no interval of this
ratio: it holds for the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.operating_points.scales import NORMAL_95, student

from .evidence import SURE_DF, Difference, Estimate, difference
from .inclusive import inclusive, outermost
from .scatter import batched_error

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pandas as pd
    from tprof.analysis.profile import Profile

Floats = NDArray[np.float64]
CALLS, ATTRIBUTION, IDLE = "calls", "attribution", "idle"
"""What an interval is from: the scatter of calls, the sharing of joules, or how idle watts compare with busy ones."""


class Spread(NamedTuple):
    """A figure over the instances of a task: mean, standard deviation (NaN for one), least and largest."""

    mean: float
    std: float
    least: float
    most: float


@dataclass(frozen=True)
class Side:
    """One of the tasks, with all tasks that run inside it.

    Attributes
    ----------
    calls : instances
    seconds, joules : over these; the joules are NaN if they are not known
    """

    calls: int
    seconds: Spread
    joules: Spread


@dataclass(frozen=True)
class TwoTasks:
    """What B takes beside A.

    Attributes
    ----------
    a, b : the tasks
    time, energy : difference of the means, each an array of one; see `Difference`
    quality : of the joules
    is_of_model : whether the energy's ratio holds for the assumed model: a busy core draws the same whatever it runs
    cause : what most of the energy's interval is from: `CALLS`, `ATTRIBUTION` or `IDLE`
    """

    a: Side
    b: Side
    time: Difference
    energy: Difference
    quality: str
    is_of_model: bool
    cause: str

    def as_plain(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        sides = {
            name: {"calls": side.calls, "seconds": side.seconds._asdict(), "joules": side.joules._asdict()}
            for name, side in (("a", self.a), ("b", self.b))
        }
        found = {"time": self.time, "energy": self.energy}
        parts = {name: {key: float(value[0]) for key, value in one._asdict().items()} for name, one in found.items()}
        of_energy = {"is_of_model": self.is_of_model, "cause": self.cause}
        return {**sides, **parts, "quality": self.quality, **of_energy}


def two_tasks(profile: Profile, a: Collection[str], b: Collection[str]) -> TwoTasks | None:
    """Compare the tasks of a run that have one of the names `a` with those that have one of `b`.

    Returns
    -------
    TwoTasks or None
        None if one of them has no instance.
    """
    names = (a, b)
    tables = [inclusive(profile, one) for one in names]
    if any(table.empty for table in tables):
        return None
    side_a, side_b = (Side(len(table), _spread(table["duration_s"]), _spread(table["energy_j"])) for table in tables)
    model = _of_model(profile, names, tables)
    errors = _of_sharing(profile, names, tables) if model is None else model
    energies = [
        _estimate(table["energy_j"], scatter, bias)
        for table, scatter, bias in zip(tables, errors.scatter, errors.bias_j, strict=True)
    ]
    times = [_estimate(table["duration_s"], _scatter(table["duration_s"])) for table in tables]
    return TwoTasks(
        side_a, side_b, difference(*times), difference(*energies), str(profile.info["quality"]), model is not None,
        max(errors.halves_j, key=lambda name: errors.halves_j[name]),
    )  # fmt: skip


class _Scatter(NamedTuple):
    """The variance of a mean, and its degrees of freedom."""

    variance: float
    df: float

    def plus(self, known: float) -> _Scatter:
        """Return it with a variance that is known."""
        if self.variance == 0:
            return _Scatter(known, SURE_DF)
        variance = self.variance + known
        return _Scatter(variance, min(self.df * (variance / self.variance) ** 2, SURE_DF))


class _Errors(NamedTuple):
    """What may be wrong with the mean joules of both sides.

    Attributes
    ----------
    scatter : of both sides
    bias_j : (2, 2), of both sides by how much they may be too high, and too low
    halves_j : about half the difference's interval that is due to each cause
    """

    scatter: list[_Scatter]
    bias_j: Floats
    halves_j: dict[str, float]


def _of_sharing(profile: Profile, names: Sequence[Collection[str]], tables: Sequence[pd.DataFrame]) -> _Errors:
    """Return the errors of joules that were shared among what ran in a reading."""
    of_means = [_attribution_error(profile, one) / len(table) for one, table in zip(names, tables, strict=True)]
    of_calls = [_scatter(table["energy_j"]) for table in tables]
    scatter = [one.plus(error * sum(of_means)) for one, error in zip(of_calls, of_means, strict=True)]
    halves = {CALLS: _half(of_calls), ATTRIBUTION: NORMAL_95 * sum(of_means)}
    return _Errors(scatter, np.zeros((2, 2)), halves)


def _of_model(profile: Profile, names: Sequence[Collection[str]], tables: Sequence[pd.DataFrame]) -> _Errors | None:
    """Return the errors of an estimate's joules by its model; None for joules that do not follow CPU time alone."""
    info = profile.info
    made_of = info["estimate"]
    if info["quality"] != "estimated" or info["model"] != "cputime" or not made_of or "gpu_j" in profile.tasks:
        return None
    known = [table[np.isfinite(table["energy_j"])] for table in tables]
    if any(table.empty for table in known):
        return None
    cpu_s, static_j, energy_j = (
        np.array([float(table[name].mean()) for table in known]) for name in ("cpu_s", "static_j", "energy_j")
    )
    calls = np.array([len(table) for table in known])
    dynamic_j = energy_j - static_j
    if not (cpu_s > 0).all() or not (dynamic_j > 0).all() or not made_of["per_core_w"] > 0:
        return None
    busy_w = float(calls @ dynamic_j / (calls @ cpu_s))
    modelled_j = busy_w * cpu_s
    native_j = [_native_reach(profile, one) / len(table) for one, table in zip(names, known, strict=True)]
    bias_j = np.column_stack([dynamic_j - modelled_j, modelled_j - dynamic_j]).clip(min=0.0) + native_j
    off, factors = busy_w / made_of["per_core_w"], profile.watts.idle * profile.watts.busy
    ratios = [
        (k * static_j[1] + modelled_j[1]) / (k * static_j[0] + modelled_j[0])
        for k in (1.0, min(1.0, off) / factors, max(1.0, off) * factors)
    ]
    idle_j = np.array([1 - min(ratios) / ratios[0], max(ratios) / ratios[0] - 1]) * energy_j[1]
    scatter = [_scatter(busy_w * table["cpu_s"] + table["static_j"]) for table in known]
    halves = {CALLS: _half(scatter), ATTRIBUTION: float(bias_j.sum(axis=0).max()), IDLE: float(idle_j.max())}
    return _Errors(scatter, bias_j + np.stack([np.zeros(2), idle_j]), halves)


def _native_reach(profile: Profile, names: Collection[str]) -> Floats:
    """Return by how much the joules of native threads in some tasks and what nests in them may be less, and more."""
    if profile.native is None:
        return np.zeros(2)
    inside = outermost(profile.tasks, names) >= 0
    codes = profile.tasks["task"].cat.codes.to_numpy()
    within = np.unique(codes[inside & (codes >= 0)])
    joules = np.bincount(
        codes[codes >= 0],
        np.nan_to_num(profile.tasks["native_j"].to_numpy(float)[codes >= 0]),
        len(profile.native.least_j),
    )
    reach = np.stack([joules - profile.native.least_j, profile.native.most_j - joules])
    return np.asarray(reach[:, within].clip(min=0.0).sum(axis=1), np.float64)


def _attribution_error(profile: Profile, names: Collection[str]) -> float:
    """Return the standard error of the joules of some tasks, and what nests in them, by the attribution alone."""
    inside = profile.tasks["task"][outermost(profile.tasks, names) >= 0].dropna().unique()
    alone = profile.summary(common=False)
    alone = alone[alone.index.isin(list(inside))]
    return float((alone["dynamic_high_j"] - alone["dynamic_j"]).clip(lower=0).sum()) / NORMAL_95


def _spread(values: pd.Series[float]) -> Spread:
    return Spread(*(float(part) for part in (values.mean(), values.std(), values.min(), values.max())))


def _known(values: pd.Series[float]) -> Floats:
    every: Floats = np.asarray(values, np.float64)
    return every[np.isfinite(every)]


def _scatter(values: pd.Series[float]) -> _Scatter:
    variance, df = batched_error(_known(values))
    return _Scatter(variance, SURE_DF if variance == 0 else df)


def _half(scatter: Sequence[_Scatter]) -> float:
    """Return half the 95 % interval of the difference, about, by the scatter of calls alone."""
    return math.sqrt(sum(float(student(one.df)) ** 2 * one.variance for one in scatter))


def _estimate(values: pd.Series[float], scatter: _Scatter, bias: Sequence[float] | Floats = (0.0, 0.0)) -> Estimate:
    """Return the mean of calls; `bias` is bounded below and above."""
    known = _known(values)
    mean = known.mean() if len(known) else np.nan
    return Estimate(*(np.array([one]) for one in (mean, *scatter, *bias)))
