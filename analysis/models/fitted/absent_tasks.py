"""Leaves tasks that never ran out of a fit, and gives them the prior in what it found.

A library may declare hundreds of tasks, such as each function of MPI, of which a program calls a few. Readings say
nothing about the others, but each would cost columns, and time grows as the third power of their number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .averaging import Prior
    from .equations import Work
    from .powers import Fit

Floats = NDArray[np.float64]


def fitted_tasks(work: Sequence[Work], tasks: int) -> NDArray[np.intp]:
    """Return the numbers of the tasks with modelled energy, and of one without if there is any.

    That one stays at the prior power, below a part of which no task's power counts in the noise (`base_fit.FLOOR`).
    """
    ran = np.zeros(tasks + 1, np.bool_)
    for one in work:
        ran[one.task[one.modelled > 0]] = True
    ran[np.flatnonzero(~ran[:tasks])[:1]] = True
    return np.flatnonzero(ran[:tasks])


def renumbered(work: Sequence[Work], kept: NDArray[np.intp], tasks: int) -> list[Work]:
    """Return the work with only these tasks; what else there is has no modelled energy and counts as between tasks."""
    if len(kept) == tasks:
        return list(work)
    number = np.full(tasks + 1, len(kept), np.int32)
    number[kept] = np.arange(len(kept))
    return [replace(one, task=number[one.task]) for one in work]


def with_absent(fit: Fit, kept: NDArray[np.intp], tasks: int, prior: Prior) -> Fit:
    """Return the fit of these tasks as one of all: the others have the prior of a task, and no part in the rest."""
    if len(kept) == tasks:
        return fit
    power = np.full(tasks + 1, prior.mean[0])
    power[kept], power[-1] = fit.power[:-1], fit.power[-1]
    covariance, floor = np.eye(tasks) * prior.deviation[0] ** 2, np.zeros((tasks, tasks))
    at = np.ix_(kept, kept)
    covariance[at], floor[at] = fit.covariance, fit.floor
    unresolved = np.zeros(tasks, np.bool_)
    unresolved[kept] = fit.unresolved
    together = tuple(tuple(int(kept[task]) for task in group) for group in fit.together)
    effects = None if fit.effects is None else fit.effects.renumbered(kept, tasks)
    return replace(
        fit, power=power, covariance=covariance, floor=floor, unresolved=unresolved, together=together, effects=effects
    )
