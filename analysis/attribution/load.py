"""What ran in a recording, and the load that this is for one domain: all segments, located in its quanta."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.engine import _engine

from tprof.trace.bounds import LEAST_BUSY_CORES

from .hidden import OWN_SHARE, measure_hidden
from .idle_power import LEAST_IDLE_S
from .segment_energy import LocatedSegments, spread
from .segments import JoinedSegments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tprof.trace import Trace

    from .hidden import HiddenTime
    from .natives.pools import CutPool
    from .natives.segments import NativeSegments
    from .quanta import Quanta
    from .segments import Segments

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Activity:
    """What ran in a block of a recording.

    Attributes
    ----------
    ran : the segments of all threads that have samples
    pools : native threads that tasks use
    hidden : CPU time without samples and without such a pool
    packages : numbers of the packages that have a domain
    """

    ran: JoinedSegments
    pools: list[CutPool]
    hidden: HiddenTime
    packages: tuple[int, ...]

    @cached_property
    def segments(self) -> list[Segments]:
        """Those of each thread with samples."""
        return list(self.ran.apart())

    def load(self, quanta: Quanta) -> Load:
        """Locate all segments in the quanta of a domain."""
        edges_ns, package = quanta.edges_ns, quanta.package
        groups: list[JoinedSegments | NativeSegments] = [self.ran, *(pool.segments for pool in self.pools)]
        weights = tuple(_weight(one, package, self.packages) for one in groups)
        located = tuple(
            LocatedSegments(
                one.t_ns, one.modelled if weight is None else one.modelled * weight, edges_ns,
                one.joints if isinstance(one, JoinedSegments) else None,
            )
            for one, weight in zip(groups, weights, strict=True)
        )  # fmt: skip
        return Load(quanta, groups, located, weights, *self.hidden.between(edges_ns, package))


def losses(trace: Trace) -> Iterator[str]:
    """Yield sentences on records of damaged blocks that were met."""
    start_ns = (trace.recorded or trace).start_ns
    for one in trace.threads:
        for text in one.stream.losses(f"thread {one.name or one.ordinal} ({one.tid})", start_ns, trace.reach_ns):
            yield f"{text}; that time counts as `runtime`"
    for file in trace.native:
        yield from file.stream.losses(
            f"what is known of native threads of process {file.pid}", start_ns, trace.reach_ns
        )


class Reach(NamedTuple):
    """From when to when a thread has segments; `earlier_s` are its CPU seconds before."""

    pid: int
    first_ns: int
    last_ns: int
    earlier_s: float


def hidden_time(trace: Trace, reaches: Sequence[Reach], seen_at: Callable[[NDArray[np.int64]], Floats]) -> HiddenTime:
    """Return the CPU time without samples; `seen_at` returns that of all samples up to some times."""
    first_ns = min((one.first_ns for one in reaches), default=0)
    before_s = sum(min(one.earlier_s, max(one.first_ns - first_ns, 0) * 1e-9) for one in reaches)
    hidden = measure_hidden(trace.readings, first_ns if reaches else None, seen_at, before_s, trace.reach_ns)
    return replace(hidden, own_s=_most_own_s(trace, reaches))


def _most_own_s(trace: Trace, reaches: Sequence[Reach]) -> float:
    """Return the CPU seconds that tprof's own threads took at most: they keep to budgets, or say what they took."""
    read_ns = float(trace.end_ns - trace.start_ns)
    for pid in {one.pid for one in trace.native}:
        own = [one for one in reaches if one.pid == pid]
        read_ns += max((one.last_ns for one in own), default=0) - min((one.first_ns for one in own), default=0)
    return (OWN_SHARE * read_ns + float(trace.end.get("readers_cpu_ns", 0))) * 1e-9


@dataclass(frozen=True)
class Load:
    """The segments of all threads in one domain's quanta, and CPU time without samples.

    Attributes
    ----------
    quanta : of the domain
    groups : the segments of all threads with samples, then of the pools of native threads
    located : the same segments with their quanta and modelled energy; without parts on other packages
    weights : of each group, the part of each segment on this domain's package; None: all of it
    other_s, unseen_s : (k,) CPU seconds of other processes, and of our threads without samples
    """

    quanta: Quanta
    groups: Sequence[JoinedSegments | NativeSegments]
    located: tuple[LocatedSegments, ...]
    weights: tuple[Floats | None, ...]
    other_s: Floats
    unseen_s: Floats

    @property
    def segments(self) -> list[Segments | NativeSegments]:
        """Those of each thread, then of each pool."""
        return [
            one for group in self.groups for one in (group.apart() if isinstance(group, JoinedSegments) else [group])
        ]

    @property
    def threads(self) -> list[LocatedSegments]:
        """The same, located."""
        return [one for group in self.located for one in group.apart()]

    @property
    def hidden_s(self) -> Floats:
        """CPU seconds without samples, (k,)."""
        return self.other_s + self.unseen_s

    def corrected(self, power: Floats, factors: Sequence[Floats] | None) -> Load:
        """Return the load with modelled energy times power.

        Parameters
        ----------
        power : (tasks + 1,) of each task, last: between tasks
        factors : for each thread, of its segments' power relative to their tasks'; None: 1
        """
        located, of_threads = [], iter(factors or ())
        for one, group in zip(self.located, self.groups, strict=True):
            modelled = one.modelled * power[group.task_numbers(len(power) - 1)]
            for part in () if factors is None else one.parts():
                modelled[part] *= next(of_threads)
            located.append(one.weighing(modelled))
        return replace(self, located=tuple(located))

    def busy_segments(self, number: int) -> LocatedSegments:
        """Return a group's with CPU seconds; not stored: those of all threads are as large as the trace."""
        located, cpu_s, weight = self.located[number], self.groups[number].cpu_s, self.weights[number]
        return located.weighing(cpu_s if weight is None else cpu_s * weight)

    def modelled(self) -> Floats:
        """Return the modelled energy of all threads in each quantum, padded."""
        return sum(map(spread, self.located), np.zeros(len(self.quanta.edges_ns) + 1))

    @cached_property
    def busy_s(self) -> Floats:
        """The CPU seconds of all threads in each quantum, padded."""
        busy = map(self.busy_segments, range(len(self.groups)))
        return sum(map(spread, busy), np.zeros(len(self.quanta.edges_ns) + 1))

    def without_tasks(self) -> NDArray[np.bool_]:
        """Return the quanta in which no instance runs, padded."""
        running = np.zeros(len(self.quanta.edges_ns) + 2, np.int64)
        for one, group in zip(self.located, self.groups, strict=True):
            if isinstance(group, JoinedSegments):
                _engine.count_running(one.course, group.slot, running)
        return np.asarray(np.cumsum(running)[:-1] == 0)

    def idle(self) -> tuple[float, float]:
        """Return the joules and seconds of idle quanta."""
        quanta = self.quanta
        length_s = np.diff(quanta.edges_ns) * 1e-9
        busy_s = self.busy_s[1:-1] + self.hidden_s
        idle = self.without_tasks()[1:-1] & (busy_s < LEAST_BUSY_CORES * length_s) & quanta.valid
        return float(quanta.energy_j[idle].sum()), float(length_s[idle].sum())


def idle_power_w(joules: float, seconds: float) -> float | None:
    """Return the mean power of idle quanta, or None if they last less than a tenth of a second in total.

    A calibrated static power holds for the frequency, voltage and temperature of the calibration. Idle time in the
    recording, for example before the program started, gives a better value for this recording.
    """
    return joules / seconds if seconds >= LEAST_IDLE_S else None


def _weight(segments: JoinedSegments | NativeSegments, package: int | None, packages: Sequence[int]) -> Floats | None:
    if segments.package is None or segments.package_end is None:
        return None
    return part_on(segments.package, segments.package_end, package, packages)


def part_on(
    begin: NDArray[np.integer[Any]], end: NDArray[np.integer[Any]], package: int | None, packages: Sequence[int]
) -> Floats | None:
    """Return the part of each segment that lies on a package: half if one end does, an even part if unknown.

    Parameters
    ----------
    begin, end : the packages on which the segments begin and end
    package, packages : of the domain, and of all domains

    Returns
    -------
    (n,) float64; None if all of every segment counts: the domain covers the machine, or there is one package only.
    """
    if package is None or len(packages) < 2:
        return None
    even = 1.0 / len(packages)
    on_begin, on_end = (np.where(np.isin(side, packages), side == package, even) for side in (begin, end))
    return (on_begin + on_end) / 2
