r"""Laws of time and power over operating points: the prior family of curves.

Each law is linear in coefficients ≥ 0 for a given **shape** (one or a few numbers), which determines the terms of time
and power. Shapes have a prior weight, which measurements update.

- **Frequency.** Time ``a + b f0/f``: waiting for memory does not depend on the frequency, work does. Power ``c + d
  (f/f0)^k``. Dynamic power is V² f: k is 1 for constant V, 3 for V proportional to f, and more where V rises steeply
  towards the highest frequencies. k is 1, the plain fit, with probability `plain`, anything from 1 to 5 with
  probability `unusual`, and else normal around 1.75. It also covers leakage, which falls with V alone. Below a **knee**
  V may be at its floor, and power is proportional to f: a knee exists with probability 1/2, anywhere within the
  settings. Above a **ceiling** the processor may not reach the frequency, because it is at its power or current limit:
  then nothing changes any more. Rejected: one k for all tasks and machines, which is overconfident; no ceilings (of the
  95 % intervals on an A40, which has one, 56 % hold).
- **Power limit.** A job draws `w` watts at full clock. A lower limit reduces the clock: mean power is a share of
  ``min(limit, w)`` (the share of time in which it computes), and the clock is ``((min(limit, w) - s) /
  (w - s))^(1/k)``, the inverse law of frequency. `s`, the power independent of the clock (idle, memory, leakage), is
  between 15 and 35 % of the highest limit; k is uniform from 1 to 3. A job's phases differ in their demand, `w` times a
  log-normal factor, so power saturates gradually. Limits above the demand of all phases have no effect.
- **Workers.** Time ``serial + parallel/p + overhead p``. Power ``idle + core a^g``, where a is the mean number of busy
  workers, after the model of Korthikanti and Agha (`analysis.theory`): one in the serial part, all in the others,
  so a is ``(serial + parallel + overhead p²)`` over the time; idle workers draw nothing. g is 1 if every busy worker
  draws the same, and less if they wait for memory: uniform from 0.4 to 1. Rejected after the public measurements over
  cores: p instead of a (waiting workers spin), both of them, and parts of each; all predict worse and lose more.
- **Both.** The products: waiting and work, each serial or shared by the workers, overhead as work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .measured import Measured

Floats = NDArray[np.float64]
EXPONENTS = np.linspace(1.0, 5.0, 25)
CORE_EXPONENTS = np.linspace(0.4, 1.0, 7)
DEMAND_STEPS = 41
PHASES = 5
"""Points of the quadrature over a job's phases."""
LEAST_CLOCK = 0.05


@dataclass(frozen=True)
class Prior:
    """Assumptions about machines before any measurement of a task; the module defines each number.

    The probabilities and misfits were chosen on one half of the public measurements and tried on the other half, as
    docs/operating-points.md describes.

    Attributes
    ----------
    plain, unusual : probabilities that power is linear in the frequency, and that k may be anything.
    exponent_mean, exponent_sd : of k otherwise, the exponent of power in the frequency.
    knees : number of places at which V may reach its floor.
    ceilings, capped : number of places from which on a higher frequency may not be reached, and their probability.
    limit_exponents : k under a power limit.
    unchanged : watts that do not depend on the clock, as parts of the highest power limit.
    spreads : of the power demand of a job's phases, in logarithms.
    misfit, limit_misfit, worker_misfit : deviation of a law over different frequencies, power limits or workers, as a
        part of the logarithm by which the measured values differ; where little changes, there is little to mistake.
    least_misfit, least_worker_misfit : relative deviation that is added in squares.
    rough : part of the misfit's variance over frequencies that may have kinks; over power limits and workers all may.
    counts_misfit : relative deviation of the counts of an algorithm.
    freedom : degrees of freedom of a misfit before residuals are seen.
    """

    plain: float = 0.2
    unusual: float = 0.15
    exponent_mean: float = 1.75
    exponent_sd: float = 0.5
    knees: int = 4
    ceilings: int = 4
    capped: float = 0.1
    limit_exponents: tuple[float, ...] = (1.0, 2.0, 3.0)
    unchanged: tuple[float, ...] = (0.15, 0.25, 0.35)
    spreads: tuple[float, ...] = (0.0, 0.2, 0.4)
    misfit: tuple[float, float] = (0.03, 0.05)
    limit_misfit: tuple[float, float] = (0.08, 0.08)
    worker_misfit: tuple[float, float] = (0.0, 0.0)
    least_misfit: float = 0.015
    least_worker_misfit: float = 0.08
    rough: float = 0.45
    counts_misfit: float = 0.02
    freedom: float = 4.0


PRIOR = Prior()


@dataclass(frozen=True)
class Law:
    """A family of curves over m operating points, in shapes.

    Attributes
    ----------
    time : (shapes, m, columns) terms of the time.
    power : (shapes, m, columns) terms of the power; all but the first column for one worker.
    weight : (shapes,) prior log weight.
    waiting : columns of the time that do not depend on the setting.
    misfit : of time and power, as `Prior.misfit`; residuals update it.
    least_misfit, rough : as of `Prior`.
    active : (m, columns of the time) busy workers in each part of the time, relative to the largest number that was
        run; None if their number does not vary.
    exponent : (shapes,) g, the exponent of power in the number of busy workers.
    """

    time: Floats
    power: Floats
    weight: Floats
    waiting: NDArray[np.bool_]
    misfit: tuple[float, float]
    least_misfit: float
    rough: float
    active: Floats | None = None
    exponent: Floats | None = None

    def powers(self, shapes: NDArray[np.int64], parts: Floats) -> Floats:
        """Return the power's columns of some shapes, (n, m, columns), for the time's coefficients `parts`."""
        power = self.power[shapes]
        if self.active is None or self.exponent is None:
            return power
        at_work = mean_active(parts[:, None, :] * self.time[shapes], self.active) ** self.exponent[shapes][:, None]
        return np.concatenate([power[..., :1], power[..., 1:] * at_work[..., None]], axis=2)


def mean_active(took_s: Floats, active: Floats) -> Floats:
    """Return the mean number of busy workers, (n, m), from the parts of the time, (n, m, columns)."""
    return np.asarray((took_s * active).sum(axis=2) / np.maximum(took_s.sum(axis=2), 1e-300))


def law_of(measured: Measured, setting: Floats, workers: NDArray[np.int64], prior: Prior = PRIOR) -> Law:
    """Return the law for the quantities that vary in `measured`, at the given operating points.

    Parameters
    ----------
    measured
        With the settings and workers that were run.
    setting, workers
        (m,) points of the curves.
    prior
        Assumptions about machines.
    """
    most = float(measured.workers.max())
    share, grown, power, weight = _by_setting(measured, setting, prior)
    if measured.workers.min() == most:
        columns = [np.ones_like(grown), grown] if _varies(measured.setting) else [grown]
        waiting = np.array([True, False])[: len(columns)]
        rough = prior.rough if measured.unit == "Hz" else 1.0
        return Law(
            np.stack(columns, axis=2), power, weight, waiting, _misfit(measured, prior), prior.least_misfit, rough
        )
    return _with_workers(measured, (share, grown, weight), workers, prior)


def _by_setting(measured: Measured, setting: Floats, prior: Prior) -> tuple[Floats, Floats, Floats, Floats]:
    """Return for each shape and point the clock-dependent part of power, slowness, power's columns, weight."""
    if not _varies(measured.setting):
        ones = np.ones((1, len(setting)))
        return ones, ones, ones[..., None], np.zeros(1)
    of_unit = by_frequency if measured.unit == "Hz" else _by_limit
    return of_unit(setting, float(np.nanmin(measured.setting)), float(np.nanmax(measured.setting)), prior)


def by_frequency(hz: Floats, lowest: float, highest: float, prior: Prior) -> tuple[Floats, Floats, Floats, Floats]:
    """Return for each shape and frequency the same as for settings, relative to the highest frequency."""
    exponent = _exponent_weights(prior)
    knees, knee_weights = _places(prior.knees, lowest / highest, 0.0, 1 / 2 if prior.knees else 0.0)
    ceilings, ceiling_weights = _places(prior.ceilings, lowest / highest, 1.0, prior.capped if prior.ceilings else 0.0)
    shapes = np.meshgrid(EXPONENTS, knees, ceilings, indexing="ij")
    weights = np.meshgrid(exponent, knee_weights, ceiling_weights, indexing="ij")
    k, knee, ceiling = (one.ravel()[:, None] for one in shapes)
    part = np.minimum(hz / highest, ceiling)
    share = part * np.maximum(part, knee) ** (k - 1)
    share /= ceiling * np.maximum(ceiling, knee) ** (k - 1)
    grown, weight = ceiling / part, np.sum([one.ravel() for one in weights], axis=0)
    return share, grown, np.stack([np.ones_like(share), share], axis=2), weight


def _exponent_weights(prior: Prior) -> Floats:
    """Return the logarithms of the probabilities of the exponents."""
    normal = np.exp(-0.5 * ((EXPONENTS - prior.exponent_mean) / prior.exponent_sd) ** 2)
    even = np.full(len(EXPONENTS), 1 / len(EXPONENTS))
    plain = (EXPONENTS[0] == EXPONENTS).astype(float)
    usual = 1 - prior.plain - prior.unusual
    return np.asarray(np.log(prior.plain * plain + prior.unusual * even + usual * normal / normal.sum()))


def _places(count: int, lowest: float, none: float, probability: float) -> tuple[Floats, Floats]:
    """Return parts of the highest frequency within the settings, the first for none, and log probabilities."""
    within = np.linspace(lowest, 1.0, count + 2)[1:-1]
    weight = np.log(np.append(1 - probability, np.full(count, probability / max(count, 1))))
    return np.append(none, within), weight


def _by_limit(limit: Floats, lowest: float, highest: float, prior: Prior) -> tuple[Floats, Floats, Floats, Floats]:
    nodes, parts = np.polynomial.hermite_e.hermegauss(PHASES)
    median = np.geomspace(0.9 * lowest, 1.3 * highest, DEMAND_STEPS)
    shapes = np.meshgrid(
        median, np.array(prior.unchanged) * highest, prior.limit_exponents, prior.spreads, indexing="ij"
    )
    w, s, k, spread = (one.ravel()[:, None] for one in shapes)
    at = np.append(limit, highest)
    share, slow = np.zeros((len(w), len(at))), np.zeros((len(w), len(at)))
    for node, part in zip(nodes, parts / parts.sum(), strict=True):
        demand = np.maximum(w * np.exp(spread * node), s + 1.0)
        clock = np.clip((np.minimum(at, demand) - s) / (demand - s), 0.0, 1.0) ** (1 / k)
        share += part * np.minimum(at, demand)
        slow += part / np.maximum(clock, LEAST_CLOCK)
    share, slow = share / share[:, -1:], slow / slow[:, -1:]
    return share[:, :-1], slow[:, :-1], share[:, :-1, None], np.zeros(len(w))


def _with_workers(
    measured: Measured, by_setting: tuple[Floats, Floats, Floats], workers: NDArray[np.int64], prior: Prior
) -> Law:
    share, grown, weight = by_setting
    most = float(measured.workers.max())
    varies, flat, p = _varies(measured.setting), np.ones_like(grown), workers / most
    time = [grown, grown / p, grown * p] + ([flat, flat / p] if varies else [])
    power = np.stack([flat, share, flat] if varies else [flat, share], axis=2)
    alone = np.full(len(p), 1 / most)
    times = len(CORE_EXPONENTS)
    return Law(
        time=np.tile(np.stack(time, axis=2), (times, 1, 1)),
        power=np.tile(power, (times, 1, 1)),
        weight=np.tile(weight, times),
        waiting=np.array([False] * 3 + [True] * (len(time) - 3)),
        misfit=_misfit(measured, prior),
        least_misfit=prior.least_worker_misfit,
        rough=1.0,
        active=np.stack([alone, p, p, alone, p][: len(time)], axis=1),
        exponent=np.repeat(CORE_EXPONENTS, len(weight)),
    )


def _misfit(measured: Measured, prior: Prior) -> tuple[float, float]:
    if _varies(measured.workers.astype(float)):
        return prior.worker_misfit
    return prior.limit_misfit if measured.unit == "W" and _varies(measured.setting) else prior.misfit


def _varies(setting: Floats) -> bool:
    return len(np.unique(setting[~np.isnan(setting)])) > 1
