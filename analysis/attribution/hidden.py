"""CPU time without samples: of other processes, and of the program's threads that run no task.

The machine's busy time is counted in ticks of 10 ms, and a thread that is between tasks for long has a
sample of its CPU time only at the end. So over a short interval the difference of two such counts may be too
large, or negative. The result is the largest non-decreasing curve below the difference: no later count
contradicts it, and its total is right.

While a recording runs, later counts are not known. The curve then ends below the largest line of the present slope
that is below the last counts: a tick more does not raise it, and it grows on between readings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tprof.trace.metadata import MAX_NS

from .cpu_counts import CpuCount, sum_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tprof.trace import Readings

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
SeenAt = Callable[[Times], Floats]
"""Returns the CPU seconds that samples show up to each of some times, which do not decrease."""
_INTERVAL_NS = 100_000_000
OWN_SHARE = 0.01
"""Part of one core that reading the sensors may take, and reading the clocks of a process's native threads as well."""
_LOST_SHARE, _LEAST_LOST_S = 0.3, 0.5
"""So much less than the program's CPU time is more than ticks, or a hypervisor that takes the processor, explain."""
LATELY_NS = 50_000_000
"""Values of a running recording that are this much older say no more what is hidden: some ticks."""


class Hidden(Protocol):
    """CPU time without samples, whole or so far."""

    def between(self, edges_ns: Times, package: int | None) -> tuple[Floats, Floats]:
        """Return CPU seconds of other processes, and of our threads without samples, in each quantum: (k,) float64."""


@dataclass(frozen=True)
class HiddenTime:
    """CPU time without samples.

    Attributes
    ----------
    t_ns : (n,) int64
    other_s, unseen_s : (n,) cumulative CPU seconds of other processes, and of the program without samples
    shares : of each package in the former; empty: not known
    before_s : CPU seconds of `unseen_s` in threads that run tasks, before the first of them
    program_s : of the program in all
    busy_s : of all processes together, as the kernel counts; None: it was not read
    own_s : of tprof's own threads, at most
    unordered : readings that were left out, by name, since the file is damaged
    """

    t_ns: Times
    other_s: Floats
    unseen_s: Floats
    shares: Mapping[int | None, float]
    before_s: float = 0.0
    program_s: float = 0.0
    busy_s: float | None = None
    own_s: float = 0.0
    unordered: Mapping[str, int] = field(default_factory=dict)

    def between(self, edges_ns: Times, package: int | None) -> tuple[Floats, Floats]:
        """Return both in each quantum of a package; threads without samples are split evenly over packages."""
        if not len(self.t_ns):
            return np.zeros(max(len(edges_ns) - 1, 0)), np.zeros(max(len(edges_ns) - 1, 0))
        other_s, unseen_s = (np.diff(np.interp(edges_ns, self.t_ns, one)) for one in (self.other_s, self.unseen_s))
        if package not in self.shares:
            return other_s, unseen_s
        return other_s * self.shares[package], unseen_s / len(self.shares)

    def part(self, begin_ns: int, end_ns: int) -> HiddenTime:
        """Return what is needed of it between two times."""
        first = max(int(np.searchsorted(self.t_ns, begin_ns, side="right")) - 1, 0)
        which = slice(first, int(np.searchsorted(self.t_ns, end_ns)) + 1)
        return replace(self, t_ns=self.t_ns[which], other_s=self.other_s[which], unseen_s=self.unseen_s[which])

    @property
    def unseen_share(self) -> float:
        """Share of the program's CPU time in threads that run no task and are not tprof's; 0 if unknown."""
        return self._share(float(self.unseen_s[-1]) - self.before_s - self.own_s) if len(self.unseen_s) else 0.0

    @property
    def before_share(self) -> float:
        """Share of the program's CPU time before the first task of a thread; 0 if unknown."""
        return self._share(self.before_s)

    @property
    def hides_others(self) -> bool:
        """Whether the kernel counts so much less than the program used that others' time cannot be told.

        It counts in ticks, which a virtual machine loses when it gets no processor.
        """
        return self.busy_s is not None and self.program_s - self.busy_s > max(
            _LOST_SHARE * self.program_s, _LEAST_LOST_S
        )

    def _share(self, cpu_s: float) -> float:
        return cpu_s / self.program_s if cpu_s > 0 else 0.0


def measure_hidden(
    readings: Mapping[str, Readings],
    first_ns: int | None,
    seen_at: Callable[[Times], Floats],
    before_s: float = 0.0,
    reach_ns: tuple[int, int] = (0, MAX_NS),
) -> HiddenTime:
    """Return the CPU time without samples; empty if the trace has no busy or program readings.

    Parameters
    ----------
    readings : of a trace
    first_ns : of the first sample, None without samples; CPU time of the program before it was the recording's start
    seen_at : returns the CPU seconds of all segments from the first of some times to each of them
    before_s : CPU seconds of threads that run tasks, before the first of them
    reach_ns : the window in which it is measured
    """
    counts = {name: CpuCount.of(one) for name, one in readings.items() if one.quantity in ("busy", "program")}
    unordered = {readings[name].name: count.unordered for name, count in counts.items() if count.unordered}
    busy, program = (
        [count for name, count in counts.items() if readings[name].quantity == quantity and len(count) > 1]
        for quantity in ("busy", "program")
    )
    if not program:
        return HiddenTime(np.empty(0, np.int64), np.empty(0), np.empty(0), {}, unordered=unordered)
    grid_ns = _grid([*busy, *program], reach_ns)
    program_s = _since_first(program, grid_ns)
    started_s = np.minimum(program_s, np.interp(grid_ns[0] if first_ns is None else first_ns, grid_ns, program_s))
    unseen_s = _never_falling(program_s - seen_at(grid_ns) - started_s)
    all_s = _since_first(busy, grid_ns)
    shares = _shares({count.package: float(_since_first([count], grid_ns)[-1]) for count in busy})
    other_s = _never_falling(all_s - program_s) if busy else np.zeros(len(grid_ns))
    return HiddenTime(
        grid_ns, other_s, unseen_s, shares, min(before_s, float(unseen_s[-1])), float(program_s[-1]),
        float(all_s[-1]) if busy else None, unordered=unordered,
    )  # fmt: skip


def machine_busy_s(readings: Iterable[Readings], edges_ns: Times) -> Floats:
    """Return the CPU seconds of all processes in each quantum, (k,); 0 without readings of them."""
    busy = [reading for reading in readings if reading.quantity == "busy" and reading.count > 1]
    return np.diff(sum_at([CpuCount.of(one) for one in busy], edges_ns))


def _since_first(counts: Sequence[CpuCount], t_ns: Times) -> Floats:
    total_s = sum_at(counts, t_ns)
    since_s: Floats = total_s - total_s[0]
    return since_s


def _shares(busy_s: Mapping[int | None, float]) -> dict[int | None, float]:
    """Return each package's share of the machine's busy time."""
    whole_s = sum(busy_s.values())
    return {package: one_s / whole_s if whole_s > 0 else 1.0 / len(busy_s) for package, one_s in busy_s.items()}


def _grid(counts: Sequence[CpuCount], reach_ns: tuple[int, int]) -> Times:
    begins_ns, ends_ns = zip(*(count.ends_ns for count in counts), strict=True)
    begin, end = max(reach_ns[0], *begins_ns), min(reach_ns[1], *ends_ns)
    steps = max((end - begin) // _INTERVAL_NS, 1)
    return np.linspace(begin, max(end, begin + 1), int(min(steps, 10_000_000)) + 1).astype(np.int64)


def _never_falling(cumulative_s: Floats) -> Floats:
    below = np.minimum.accumulate(cumulative_s[..., ::-1], axis=-1)[..., ::-1]
    return np.maximum(below, 0.0)


class HiddenSoFar:
    """The CPU time without samples of a recording that runs.

    Attributes
    ----------
    busy, program : the counts, to which their readers add
    """

    def __init__(self) -> None:
        """Begin without counts."""
        self.busy: list[CpuCount] = []
        self.program: list[CpuCount] = []
        self._known = HiddenTime(np.empty(0, np.int64), np.empty(0), np.empty(0), {})
        self._began_s: float | None = None
        self._other_began_s: float | None = None
        self._compared_ns = 0
        # Of other processes, and of our threads without samples: the last values, and what was claimed of them.
        self._late_ns, self._late_s, self._claimed_s = np.empty(0, np.int64), np.empty((2, 0)), np.zeros(2)

    def extend(self, since_ns: int, until_ns: int, seen_at: SeenAt, *, first_ns: int | None) -> tuple[float, float]:
        """Go on to a time, and return the CPU seconds of other processes, and of our threads without samples.

        Parameters
        ----------
        since_ns, until_ns : of this step; CPU time of others before the first step does not count
        seen_at : returns the samples' CPU seconds up to each of some times
        first_ns : of the first sample; CPU time of the program before it was our own start
        """
        known = self._known
        if not len(known.t_ns):
            known = replace(known, t_ns=np.array([since_ns]), other_s=np.zeros(1), unseen_s=np.zeros(1))
        at_ns, values_s = self._compared(since_ns, until_ns, seen_at, first_ns)
        more_ns = np.append(at_ns, until_ns)
        new = more_ns > known.t_ns[-1]  # the growth up to counts that came late is the next ones'
        more_s = self._claim(at_ns, values_s, until_ns)[:, new]
        other_s, unseen_s = np.concatenate((np.stack((known.other_s, known.unseen_s)), more_s), axis=1)
        self._known = replace(known, t_ns=np.append(known.t_ns, more_ns[new]), other_s=other_s, unseen_s=unseen_s)
        return float(other_s[-1] - known.other_s[-1]), float(unseen_s[-1] - known.unseen_s[-1])

    def _claim(self, t_ns: Times, values_s: Floats, until_ns: int) -> Floats:
        """Return what is certain at times of values that grow, (2, n), and at a last time: it never falls.

        Later values can be less, by a tick, so that it ends below the largest line of their slope that is below the
        last values.
        """
        late_ns, late_s = np.append(self._late_ns, t_ns), np.append(self._late_s, values_s, axis=1)
        line_s = self._claimed_s
        if len(late_ns):
            first = max(min(int(np.searchsorted(late_ns, late_ns[-1] - LATELY_NS)), len(late_ns) - 2), 0)
            late_ns, late_s = late_ns[first:], late_s[:, first:]
            per_ns = np.maximum(late_s[:, -1:] - late_s[:, :1], 0.0) / max(int(late_ns[-1] - late_ns[0]), 1)
            line_s = (late_s + per_ns * (until_ns - late_ns)).min(axis=1)
        claims_s = np.maximum(_never_falling(np.column_stack((values_s, line_s))), self._claimed_s[:, None])
        self._late_ns, self._late_s, self._claimed_s = late_ns, late_s, claims_s[:, -1]
        return claims_s

    def _compared(self, since_ns: int, until_ns: int, seen_at: SeenAt, first_ns: int | None) -> tuple[Times, Floats]:
        """Return the times of new counts, and by them the CPU seconds of others and of our threads without samples.

        Between the times of counts they are less exact.
        """
        counts, nothing = (*self.program, *self.busy), np.empty((2, 0))
        if not self.program or not all(len(count) for count in counts):
            return np.empty(0, np.int64), nothing
        until_ns = min(until_ns, *(count.ends_ns[1] for count in counts))
        at_ns = self.program[0].between(self._compared_ns, until_ns)
        if not len(at_ns):
            return at_ns, nothing
        self._compared_ns = int(at_ns[-1])
        program_s = sum_at(self.program, at_ns)
        if self._began_s is None and first_ns is not None:
            self._began_s = float(sum_at(self.program, np.array([min(first_ns, self._compared_ns)]))[0])
        unseen_s = program_s - (self._began_s or 0.0) - seen_at(at_ns)
        other_s = np.zeros(len(at_ns))
        if self.busy:
            if self._other_began_s is None:
                began_ns = np.array([min(since_ns, self._compared_ns)])
                self._other_began_s = float((sum_at(self.busy, began_ns) - sum_at(self.program, began_ns))[0])
            other_s = sum_at(self.busy, at_ns) - program_s - self._other_began_s
        for count in counts:
            count.leave(self._compared_ns)
        return at_ns, np.stack((other_s, unseen_s))

    def between(self, edges_ns: Times, package: int | None) -> tuple[Floats, Floats]:
        """As `HiddenTime.between`, for times since the last `leave`."""
        shares = _shares({count.package: count.whole_s for count in self.busy})
        return replace(self._known, shares=shares).between(edges_ns, package)

    def leave(self, t_ns: int) -> None:
        """Forget what was before a time."""
        self._known = self._known.part(t_ns, MAX_NS)
