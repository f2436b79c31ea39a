"""What is taken for granted about machines before a task was measured on one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Prior:
    """Which curves are likely; `laws` says what each number means.

    Physics and what is known of processors set these, no fit to the jobs that they are validated on. The exceptions
    are `limit_misfit` and `worker_misfit`: they are what makes intervals hold about 95 % of what was measured on a V100
    and on seven multicore machines, and `tprof bench advise` chooses the first again without each kind of job.

    Attributes
    ----------
    exponent_mean, exponent_sd : of k, how power goes with the frequency.
    knees : at how many places V may reach its floor.
    limit_exponents : k where a power limit holds the clock.
    unchanged : watts that the clock does not change, as parts of the highest power limit.
    spreads : of the watts that a job's phases want, in logarithms.
    misfit, limit_misfit, worker_misfit : relative deviation that a law leaves over where frequencies (or the counts
        of an algorithm), power limits or workers differ.
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
