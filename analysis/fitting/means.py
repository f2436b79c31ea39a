"""The standard error of a task's mean energy, from the covariance of the fitted powers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.lanes import sum_by
from tprof.analysis.attribution.segments import task_of
from tprof.analysis.names import places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.attribution.instances import InstanceRows
    from tprof.analysis.attribution.segments import Segments

    from .fitted import Fit

Floats = NDArray[np.float64]


def mean_errors(
    fits: Mapping[str, Fit], segments: Sequence[Segments], rows: InstanceRows, names: Sequence[str]
) -> Floats:
    """Return joules for each distinct name, in order: the error of its instances' mean.

    Parameters
    ----------
    fits : by domain; their errors are independent
    segments : of all threads
    rows : the instances
    names : of the tasks; places of one name count as one
    """
    tasks = len(names)
    unique, code = places(names)
    ran = sum((sum_by(task_of(one, tasks), one.modelled, tasks + 1)[:tasks] for one in segments), np.zeros(tasks))
    count = np.bincount(code[rows.task[rows.task < tasks]], minlength=len(unique))
    # One column per name: the modelled energy of each of its places.
    of_name = np.zeros((tasks, len(unique)))
    of_name[np.arange(tasks), code] = ran
    variance = sum(
        (np.einsum("tn,ts,sn->n", of_name, fit.covariance, of_name) for fit in fits.values()), np.zeros(len(unique))
    )
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)) / np.maximum(count, 1))
