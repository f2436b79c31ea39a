"""Shares the joules of one domain between two moments among what ran, by CPU time: model `cputime`, on what is new.

As `tprof.analysis.sharing` does it for a whole trace: static power goes to the cores that run, each as far as it is
busy; the rest by CPU time; where less than one core is busy, what is left of it is idle. What is simpler here: a
segment lies on the package on which it begins, and CPU time that no sample shows is spread evenly over the time since
the last look. O(segments + quanta) of what is new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .thread import Stretch

WAITING = 0.05
"""Of one core: where all together are busy for less, tasks wait rather than run."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """CPU seconds since the last look that no sample shows: of other processes, and of this program's threads."""

    other_s: float
    unseen_s: float


@dataclass(frozen=True, slots=True)
class Shared:
    """Joules of each segment, of hidden CPU time, of nobody, and of all."""

    segment_j: NDArray[np.float64]
    other_j: float
    unseen_j: float
    idle_j: float
    measured_j: float


@dataclass(frozen=True, slots=True)
class Pieces:
    """Segments cut where quanta meet: which segment, which quantum, CPU seconds."""

    segment: NDArray[np.intp]
    quantum: NDArray[np.intp]
    cpu_s: NDArray[np.float64]

    @classmethod
    def of(cls, ran: Stretch, edges_ns: NDArray[np.int64], weight: NDArray[np.float64] | None) -> Pieces:
        """Cut them; all lie between the first edge and the last."""
        first = np.searchsorted(edges_ns, ran.begin_ns, side="right") - 1
        counts = np.searchsorted(edges_ns, ran.end_ns, side="left") - first
        segment = np.repeat(np.arange(len(counts)), counts)
        quantum = first[segment] + np.arange(len(segment)) - np.repeat(np.cumsum(counts) - counts, counts)
        begin_ns, end_ns = ran.begin_ns[segment], ran.end_ns[segment]
        inside_ns = np.minimum(end_ns, edges_ns[quantum + 1]) - np.maximum(begin_ns, edges_ns[quantum])
        cpu_s = ran.cpu_s if weight is None else ran.cpu_s * weight
        return cls(segment, quantum, cpu_s[segment] * inside_ns / (end_ns - begin_ns))


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
    ran : between the first edge and the last
    edges_ns : (k + 1,) int64, increasing
    energy_j : (k,) joules
    hidden : CPU time on this domain
    static_w : of the domain, 0 if not known
    weight : (n,) part of each segment that counts on this domain; None: all of it
    """
    pieces = Pieces.of(ran, edges_ns, weight)
    quanta = len(energy_j)
    length_s = np.diff(edges_ns) * 1e-9
    part = length_s / length_s.sum()
    total_s = np.bincount(pieces.quantum, pieces.cpu_s, quanta) + (hidden.other_s + hidden.unseen_s) * part
    busy_by_task = np.bincount(pieces.quantum[ran.task[pieces.segment] >= 0], minlength=quanta) > 0
    least_s = np.where(busy_by_task, WAITING * length_s, length_s)
    per_s = _per_s(energy_j, static_w * length_s, total_s, length_s, least_s)
    segment_j: NDArray[Any] = np.bincount(pieces.segment, pieces.cpu_s * per_s[pieces.quantum], len(ran.cpu_s))
    each = float(per_s @ part)
    other_j, unseen_j = each * hidden.other_s, each * hidden.unseen_s
    measured_j = float(energy_j.sum())
    idle_j = max(measured_j - float(segment_j.sum()) - other_j - unseen_j, 0.0)
    return Shared(segment_j, other_j, unseen_j, idle_j, measured_j)


def share_of_process(
    own_s: float, edges_ns: NDArray[np.int64], energy_j: NDArray[np.float64], *, hidden: Hidden, static_w: float
) -> float:
    """Return the joules of a process that ran for `own_s` in all: as `share`, without its samples.

    Whether tasks ran or waited is not known: where less than a core was busy, what is left of it counts as idle.
    """
    length_s = np.diff(edges_ns) * 1e-9
    part = length_s / length_s.sum()
    total_s = (own_s + hidden.other_s + hidden.unseen_s) * part
    per_s = _per_s(energy_j, static_w * length_s, total_s, length_s, length_s)
    return own_s * float((per_s * part).sum())


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
    energy_j, static_j : of the quantum, and what it would have drawn with nobody running
    total_s, length_s : CPU seconds, and how long it was
    least_s : of a core's time, where no core was busy throughout: the rest was idle
    """
    static_j = np.minimum(energy_j, static_j)
    per_s = _divided(energy_j - static_j, np.where(total_s < length_s, np.maximum(total_s, least_s), total_s), total_s)
    return per_s + _divided(static_j, np.maximum(total_s, length_s), total_s)


def _divided(above: NDArray[Any], below: NDArray[Any], where: NDArray[Any]) -> NDArray[np.float64]:
    out = np.zeros(len(above))
    np.divide(above, below, out=out, where=where > 0)
    return out
