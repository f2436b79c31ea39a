"""How many instances run beside others: running integrals over time, of all threads.

The mean beside a segment is a difference of such an integral. Where segments are in a file it is followed in slices of
time, and kept at moments that are given: then each slice has it inside, and of a segment that goes on at its ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .stored_work import timed_slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .equations import Work
    from .stored_work import StoredWork

Floats = NDArray[np.float64]
Times = NDArray[np.int64]


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
        integrals = (np.append(0.0, np.cumsum(np.clip(count - less, 0.0, most) * length))[:-1] for less in (0, 1))
        return cls(task, t_ns, *integrals)

    def part(self, one: Work) -> Floats:
        """Return the mean number beside each segment of a thread."""
        if not len(self.t_ns):
            return np.zeros(len(one.modelled))
        length = np.maximum(np.diff(one.t_ns), 1)
        own, others = (np.diff(np.interp(one.t_ns, self.t_ns, total)) / length for total in (self.own, self.others))
        return np.asarray(np.where((one.task == self.task) | (self.task < 0), own, others))


@dataclass(frozen=True)
class BesideCourse:
    """The integrals of a whole recording at some moments.

    Attributes
    ----------
    task, form : as for `Beside.of`
    t_ns, others, own : (m,) as those of `Beside`
    """

    task: int
    form: str
    t_ns: Times
    others: Floats
    own: Floats

    def inside(self, work: Sequence[Work], begin_ns: int, end_ns: int) -> Beside:
        """Return the integrals with all their moments in a window, whose ends are among those that are known.

        `work` is all that ran in the window.
        """
        here = Beside.of([one.within(begin_ns, end_ns) for one in work if one.ran_in(begin_ns, end_ns)], *self.key)
        first, after = np.searchsorted(self.t_ns, (begin_ns, end_ns)).tolist()
        t_ns = np.concatenate((self.t_ns[: first + 1], here.t_ns, self.t_ns[after:]))
        others, own = (
            np.concatenate((total[: first + 1], total[first] + inside, total[after:]))
            for total, inside in ((self.others, here.others), (self.own, here.own))
        )
        return Beside(self.task, t_ns, others, own)

    @property
    def key(self) -> tuple[int, str]:
        """Task and form."""
        return self.task, self.form


def follow(work: Sequence[StoredWork], keys: Sequence[tuple[int, str]], ends_ns: Sequence[int]) -> list[BesideCourse]:
    """Follow integrals through a recording, and keep them at some moments and at both ends of segments that go on then.

    Parameters
    ----------
    work : all that ran
    keys : tasks and forms, as for `Beside.of`
    ends_ns : the moments
    """
    t_ns = np.unique(np.concatenate([np.asarray(ends_ns, np.int64), *(_crossing(one, ends_ns) for one in work)]))
    known = np.zeros((len(keys), 2, len(t_ns)))
    total = np.zeros((len(keys), 2))
    for (begin_ns, end_ns), parts in timed_slices(work):
        first, after = np.searchsorted(t_ns, (begin_ns, end_ns)).tolist()
        for number, key in enumerate(keys):
            here = Beside.of(parts, *key)
            if len(here.t_ns):
                for side, values in enumerate((here.others, here.own)):
                    known[number, side, first:after] = total[number, side] + np.interp(
                        t_ns[first:after], here.t_ns, values
                    )
                total[number] += here.others[-1], here.own[-1]
            else:
                known[number, :, first:after] = total[number][:, None]
        known[:, :, after:] = total[:, :, None]
    return [BesideCourse(*key, t_ns, *known[number]) for number, key in enumerate(keys)]


def _crossing(one: StoredWork, ends_ns: Sequence[int]) -> Times:
    """Return both ends of the segments that go on at some moments."""
    within_ns = [end_ns for end_ns in ends_ns if one.ran_in(end_ns, end_ns)]
    if not within_ns:
        return np.empty(0, np.int64)
    t_ns = one.loaded().t_ns
    at = np.searchsorted(t_ns, within_ns, side="right")
    return np.concatenate((t_ns[at - 1], t_ns[np.minimum(at, len(t_ns) - 1)]))
