"""Shares the new joules of one domain among tasks by CPU time: model `cputime`.

The rules are those of `tprof.analysis.sharing`: static power goes to the running cores in proportion to their busy
time, the rest by CPU time; if less than one core is busy, the remainder of it is idle. Two simplifications: a segment
lies on the package on which it begins, and CPU time without samples is spread evenly over the step. The cost is
O(new rows log quanta).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.trace.bounds import LEAST_BUSY_CORES

from .sums import added

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .thread import Stretch


@dataclass(frozen=True, slots=True)
class Hidden:
    """CPU seconds without samples since the last step: of other processes, and of this program's threads."""

    other_s: float
    unseen_s: float


@dataclass(frozen=True, slots=True)
class Shared:
    """Joules of each segment, of hidden CPU time, of idle time, and in total."""

    segment_j: NDArray[np.float64]
    other_j: float
    unseen_j: float
    idle_j: float
    measured_j: float


def share(
    ran: Stretch,
    edges_ns: NDArray[np.int64],
    energy_j: NDArray[np.float64],
    *,
    hidden: Hidden,
    static_w: float,
    weight: NDArray[np.float64] | None,
) -> Shared:
    """Share the joules of each quantum.

    Parameters
    ----------
    ran : between the first edge and the last, each row between two edges
    edges_ns : (k + 1,) int64, increasing
    energy_j : (k,) joules
    hidden : CPU time on this domain
    static_w : of the domain, 0 if not known
    weight : (n,) part of each segment that counts on this domain; None: all of it
    """
    quantum = _quanta(ran, edges_ns)
    cpu_s = ran.cpu_s if weight is None else ran.cpu_s * weight
    length_s = np.diff(edges_ns) * 1e-9
    part = length_s / length_s.sum()
    total_s = added((hidden.other_s + hidden.unseen_s) * part, quantum, cpu_s)
    busy_by_task = np.zeros(len(energy_j), bool)
    busy_by_task[quantum[ran.task >= 0]] = True
    least_s = np.where(busy_by_task, LEAST_BUSY_CORES * length_s, length_s)
    per_s = _per_s(energy_j, static_w * length_s, total_s, length_s, least_s)
    segment_j = cpu_s * per_s[quantum]
    each = float(per_s @ part)
    other_j, unseen_j = each * hidden.other_s, each * hidden.unseen_s
    measured_j = float(energy_j.sum())
    idle_j = max(measured_j - float(segment_j.sum()) - other_j - unseen_j, 0.0)
    return Shared(segment_j, other_j, unseen_j, idle_j, measured_j)


def share_of_process(
    own_s: float, edges_ns: NDArray[np.int64], energy_j: NDArray[np.float64], *, hidden: Hidden, static_w: float
) -> float:
    """Return the joules of a process with `own_s` of CPU time: as `share`, without samples.

    It is unknown whether tasks ran or waited: if less than a core was busy, the remainder of it counts as idle.
    """
    length_s = np.diff(edges_ns) * 1e-9
    part = length_s / length_s.sum()
    total_s = (own_s + hidden.other_s + hidden.unseen_s) * part
    per_s = _per_s(energy_j, static_w * length_s, total_s, length_s, length_s)
    return own_s * float((per_s * part).sum())


def _quanta(ran: Stretch, edges_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the quantum of each row; not searched by NumPy, see `tprof.live.sums`."""
    edges = edges_ns.tolist()
    return np.array([bisect_right(edges, begin_ns) - 1 for begin_ns in ran.begin_ns.tolist()], np.int64)


def _per_s(
    energy_j: NDArray[np.float64],
    static_j: NDArray[np.float64],
    total_s: NDArray[np.float64],
    length_s: NDArray[np.float64],
    least_s: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the joules of a CPU second in each quantum.

    Parameters
    ----------
    energy_j, static_j : joules of the quantum, and its static part
    total_s, length_s : CPU seconds, and the length of the quantum
    least_s : lower bound of the busy time if no core was busy throughout; the rest is idle
    """
    static_j = np.minimum(energy_j, static_j)
    per_s = _divided(energy_j - static_j, np.where(total_s < length_s, np.maximum(total_s, least_s), total_s), total_s)
    return per_s + _divided(static_j, np.maximum(total_s, length_s), total_s)


def _divided(above: NDArray[Any], below: NDArray[Any], where: NDArray[Any]) -> NDArray[np.float64]:
    out = np.zeros(len(above))
    np.divide(above, below, out=out, where=where > 0)
    return out
