"""What all threads did in a recording, 28 bytes a segment, which a fit reads several times."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.load import part_on
from tprof.analysis.attribution.long_arrays import concatenated
from tprof.analysis.attribution.natives.segments import NativeSegments
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.segments import begun_in

from .equations import Work, log_length

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tprof.analysis.attribution.load import Activity, Load
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.windows import Window

Floats = NDArray[np.float64]


class _Part(NamedTuple):
    """Some segments of a thread or of a pool.

    Attributes
    ----------
    t_ns : (n + 1,) int64
    modelled, task : (n,) as of `Work`
    ends : the packages on which they begin and end, (n,) each; None with one package
    cpu, instance : (n,) of a thread
    """

    t_ns: NDArray[np.int64]
    modelled: Floats
    task: NDArray[np.int32]
    ends: tuple[NDArray[np.int16], NDArray[np.int16]] | None
    cpu: NDArray[np.uint16] | None = None
    instance: NDArray[np.uint64] | None = None


class _Thread(NamedTuple):
    """All segments of a thread, and (n,) as of `Work` the logarithms of how long their instances ran on it."""

    whole: _Part
    log_length: NDArray[np.float32]


@dataclass
class WhatRan:
    """The segments of all threads.

    Attributes
    ----------
    tasks : their number
    packages : numbers of the packages that have a domain
    modelled : (tasks,) sums of modelled energy
    """

    tasks: int
    packages: tuple[int, ...]
    modelled: Floats = field(init=False)
    _parts: dict[int, list[_Part]] = field(default_factory=dict)
    _pools: list[_Part] = field(default_factory=list)
    _mean_lengths: dict[int | None, NDArray[np.float32]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin the sums."""
        self.modelled = np.zeros(self.tasks)

    @classmethod
    def of(
        cls, read: Callable[[Window], Activity], windows: Iterable[Window], tasks: int, packages: tuple[int, ...]
    ) -> WhatRan:
        """Read all windows. Raises TraceError."""
        found = cls(tasks, packages)
        for window in windows:
            found._add(read(window), window.own_ns)
        return found

    def _add(self, activity: Activity, own_ns: tuple[int, int]) -> None:
        """Add the segments that begin in a window."""
        for one in activity.segments:
            own, part = self._own(one, own_ns)
            part = part._replace(cpu=one.cpu[own].copy(), instance=one.owners.instance[one.slot[own]])
            self._parts.setdefault(one.thread.ordinal, []).append(part)
        self._pools += (self._own(pool.segments, own_ns)[1] for pool in activity.pools)

    def _own(self, one: Segments | NativeSegments, own_ns: tuple[int, int]) -> tuple[slice, _Part]:
        own = begun_in(one.t_ns, own_ns)
        task, modelled = one.task_numbers(self.tasks)[own], one.modelled[own].copy()  # a window's arrays are used again
        self.modelled += sum_by(task, modelled, self.tasks + 1)[: self.tasks]
        ends = None
        if one.package is not None and one.package_end is not None:
            ends = one.package[own].copy(), one.package_end[own].copy()
        return own, _Part(one.t_ns[own.start : own.stop + 1].copy(), modelled, task, ends)

    @cached_property
    def _threads(self) -> dict[int, _Thread]:
        return {ordinal: _joined(self._parts.pop(ordinal)) for ordinal in list(self._parts)}

    @cached_property
    def _core_of(self) -> NDArray[np.int32]:
        """The numbers of the processors on which anything ran, by those of all."""
        ran_on = np.zeros(1 << 16, bool)
        for one in self._threads.values():
            ran_on[one.whole.cpu] = True
        return np.cumsum(ran_on, dtype=np.int32) - 1

    def work(self, domain: Quanta) -> list[Work]:
        """Return what ran on a domain's package."""
        package = domain.package
        work = [
            Work(one.t_ns, self._on(package, one), one.task, self._core_of[one.cpu], log_length)
            for one, log_length in self._threads.values()
        ]
        self._mean_lengths[package] = _mean_lengths(work, self.tasks)
        pools = (one for one in self._pools if len(one.task))
        return [*work, *(self._pool_work(one.t_ns, self._on(package, one), one.task, package) for one in pools)]

    def _on(self, package: int | None, one: _Part) -> Floats:
        weight = None if one.ends is None else part_on(*one.ends, package, self.packages)
        return one.modelled if weight is None else one.modelled * weight

    def _pool_work(
        self, t_ns: NDArray[np.int64], modelled: Floats, task: NDArray[np.int32], package: int | None
    ) -> Work:
        """Return what a pool did: on no core, as long as its tasks' mean instance."""
        nowhere = np.full(len(task), -1, np.int32)
        return Work(t_ns, modelled, task, nowhere, self._mean_lengths[package][task])

    def in_window(self, load: Load, begin_ns: int) -> list[Work]:
        """Return what threads did in a window that begins at a time, with what is known of it from others."""
        found = []
        for place, one in zip(load.threads, load.segments, strict=True):
            task = one.task_numbers(self.tasks)
            if isinstance(one, NativeSegments):
                found.append(self._pool_work(place.t_ns, place.modelled, task, load.quanta.package))
                continue
            thread = self._threads[one.thread.ordinal]
            first = int(np.searchsorted(thread.whole.t_ns[:-1], begin_ns) - np.searchsorted(one.t_ns[:-1], begin_ns))
            log_length = thread.log_length[first : first + len(task)]
            found.append(Work(place.t_ns, place.modelled, task, self._core_of[one.cpu], log_length))
        return found


def _joined(parts: Sequence[_Part]) -> _Thread:
    t_ns = concatenated([*(one.t_ns[:-1] for one in parts), parts[-1].t_ns[-1:]])
    begins, ends = ([one.ends[side] for one in parts if one.ends is not None] for side in (0, 1))
    modelled, task, cpu, instance = (
        concatenated([getattr(one, name) for one in parts]) for name in ("modelled", "task", "cpu", "instance")
    )
    distinct, place = np.unique(instance, return_inverse=True)
    own_s = np.asarray(np.bincount(place, weights=np.diff(t_ns), minlength=len(distinct)) * 1e-9, np.float64)
    lengths = np.where(distinct == 0, np.float32(0), log_length(own_s))
    packages = (concatenated(begins), concatenated(ends)) if begins else None
    return _Thread(_Part(t_ns, modelled, task, packages, cpu), lengths[place])


def _mean_lengths(work: Iterable[Work], tasks: int) -> NDArray[np.float32]:
    """Return the mean logarithm of the length of each task's instances, and last of none, from what threads did."""
    ran, lengths = np.zeros((2, tasks + 1))
    for one in work:
        ran += np.bincount(one.task, weights=one.modelled, minlength=tasks + 1)
        lengths += np.bincount(one.task, weights=one.modelled * one.log_length, minlength=tasks + 1)
    return (lengths / np.maximum(ran, 1e-300)).astype(np.float32)
