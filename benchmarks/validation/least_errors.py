"""The least error with which the energies of a run's tasks can be known from its readings.

It is the standard error of generalised least squares that is told the truth about the noise: the powers, by how much
instances differ, and the sensor's own noise. No linear estimate of powers without a bias has a smaller one (Aitken,
1935). What remains unknown is when in its window each update happened, and what the instances of each interval drew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.models.fitted.base_fit import Equations
from tprof.analysis.models.fitted.equations import Rows
from tprof.analysis.models.fitted.what_ran import WhatRan

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tprof.analysis import Profile
    from tprof.analysis.models.fitted.noise import Spread

    from .assumptions import AssumptionCase

    Floats = NDArray[np.float64]


def least_errors(profile: Profile, case: AssumptionCase) -> Floats:
    """Return the least standard error of each task's dynamic energy, as a part of it; NaN of one that did not run.

    The assumptions must hold: powers are constant but for the spread between instances, and updates are not late.
    """
    tasks, recipe, stream = len(case.tasks), profile.recipe, profile.host_instances.stream
    domain = recipe.whole[0]
    rows = Rows.of(domain, np.sum(stream.found.hidden.between(domain.edges_ns, domain.package), axis=0), tasks + 3)
    read = stream.found.activities(recipe.model, stream.pools)
    run = WhatRan.of(read, stream.windows, tasks, recipe.packages)
    equations = Equations.of(rows, run.work(domain), tasks, 0.0)
    power = np.array([*(task.kernel.unseen_w for task in case.tasks), 0.0, 0.0, case.package.law.static_w])
    noise = equations.noise(power, None)
    own_j2 = case.sensor.noise_j**2
    spread2 = case.tasks[0].power_spread ** 2
    noise = replace(noise, before=noise.before + own_j2, after=noise.after + own_j2, spread2=spread2)
    ran = np.flatnonzero(equations.time.sum(axis=0) > 0)
    # What the instances drew more or less than their task's power is noise in the rows, and part of the true energy.
    with_energy = spread2 * power[:tasks] ** 2 * _products(equations.spread)
    white, _ = noise.whiten(np.column_stack([equations.time[:, ran], with_energy]))
    columns, with_energy_white = white[:, : len(ran)], white[:, len(ran) :]
    covariance = np.linalg.inv(columns.T @ columns)
    found = np.full(tasks, np.nan)
    for place, task in enumerate(ran[ran < tasks]):
        ran_s = equations.time[:, task].sum()
        along = covariance[place] @ (columns.T @ with_energy_white[:, task])
        variance = ran_s**2 * covariance[place, place] - 2 * ran_s * along + with_energy[:, task].sum()
        found[task] = np.sqrt(max(variance, 0.0)) / (ran_s * power[task])
    return found


def _products(spread: Spread) -> Floats:
    """Return sums over instances of their modelled time in each row times that in all rows, by task: (n, tasks)."""
    found = spread.own.copy()
    for lag, across in enumerate(spread.across, start=1):
        found += across
        found[lag:] += across[:-lag]
    return found
