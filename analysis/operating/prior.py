"""The prior: assumptions about machines before any measurement of a task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Prior:
    """The prior of the curves; `laws` defines each number.

    They come from physics and known processors, not from a fit to the jobs of the validation. The exceptions are
    `limit_misfit` and `worker_misfit`: with them intervals cover about 95 % of the measurements on a V100 and on seven
    multicore machines; `tprof bench advise` fits the first again without each kind of job.

    Attributes
    ----------
    exponent_mean, exponent_sd : of k, the exponent of power in the frequency.
    knees : number of places at which V may reach its floor.
    limit_exponents : k under a power limit.
    unchanged : watts that do not depend on the clock, as parts of the highest power limit.
    spreads : of the power demand of a job's phases, in logarithms.
    misfit, limit_misfit, worker_misfit : relative deviation of a law over different frequencies (or counts of an
        algorithm), power limits or workers.
    """

    exponent_mean: float = 2.0
    exponent_sd: float = 0.5
    knees: int = 4
    limit_exponents: tuple[float, ...] = (1.0, 2.0, 3.0)
    unchanged: tuple[float, ...] = (0.15, 0.25, 0.35)
    spreads: tuple[float, ...] = (0.0, 0.2, 0.4)
    misfit: float = 0.02
    limit_misfit: float = 0.04
    worker_misfit: float = 0.10


PRIOR = Prior()
