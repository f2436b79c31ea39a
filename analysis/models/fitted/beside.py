"""How many instances run beside others: running integrals over time, of all threads.

The mean beside a segment is a difference of such an integral.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .equations import Work

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Beside:
    """How many instances of a task run beside others: the running integral of their (saturated) number.

    Attributes
    ----------
    task : the aggressor; -1: any.
    t_ns, others, own : moments, and integrals up to them beside segments of other tasks and of the task itself, ns.
    """

    task: int
    t_ns: NDArray[np.int64]
    others: Floats
    own: Floats

    @classmethod
    def of(cls, work: Sequence[Work], task: int, form: str) -> Beside:
        """Count in all threads."""
        runs = [(one, (one.modelled > 0) & ((one.task == task) | (task < 0))) for one in work]
        begins = np.concatenate([np.empty(0, np.int64), *(one.t_ns[:-1][run] for one, run in runs)])
        ends = np.concatenate([np.empty(0, np.int64), *(one.t_ns[1:][run] for one, run in runs)])
        t_ns = np.concatenate([begins, ends])
        order = np.argsort(t_ns, kind="stable")
        change = np.concatenate([np.ones(len(begins)), -np.ones(len(ends))])[order]
        t_ns, count = t_ns[order], np.cumsum(change)
        most = 1.0 if form == "saturating" else np.inf
        length = np.diff(t_ns, append=t_ns[-1:])
        lasts = length > 0  # of moments at the same time the last one counts
        lasts[-1:] = True
        t_ns, count, length = t_ns[lasts], count[lasts], length[lasts]
        integrals = (np.append(0.0, np.cumsum(np.clip(count - less, 0.0, most) * length))[:-1] for less in (0, 1))
        return cls(task, t_ns, *integrals)

    def part(self, one: Work) -> Floats:
        """Return the mean number beside each segment of a thread."""
        if not len(self.t_ns):
            return np.zeros(len(one.modelled))
        length = np.maximum(np.diff(one.t_ns), 1)
        own, others = (np.diff(np.interp(one.t_ns, self.t_ns, total)) / length for total in (self.own, self.others))
        return np.asarray(np.where((one.task == self.task) | (self.task < 0), own, others))
