"""CPU time without samples: of other processes, and of the program's threads that run no task.

The machine's busy time is counted in ticks of 10 ms, and a thread that is between tasks for long has a
sample of its CPU time only at the end. So over a short interval the difference of two such counts may be too
large, or negative. The result is the largest non-decreasing curve below the difference: no later count
contradicts it, and its total is right.

While a recording runs, later counts are not known. `HiddenSoFar` then claims the largest line of the present slope
below the last counts: a tick more does not raise it, and it grows on between readings.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tprof.trace.metadata import MAX_NS

from .cpu_counts import CpuCount, grown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tprof.trace import Readings

Floats = NDArray[np.float64]
_INTERVAL_NS = 100_000_000
OWN_SHARE = 0.01
"""Part of one core that reading the sensors may take, and reading the clocks of a process's native threads as well."""
_LOST_SHARE, _LEAST_LOST_S = 0.3, 0.5
"""So much less than the program's CPU time is more than ticks, or a hypervisor that takes the processor, explain."""
LATELY_NS = 50_000_000
"""Values of a running recording that are this much older say no more what is hidden: some ticks."""


class Hidden(Protocol):
    """CPU time without samples, whole or so far."""

    def between(self, edges_ns: NDArray[np.int64], package: int | None) -> tuple[Floats, Floats]:
        """Return CPU seconds of other processes, and of our threads without samples, in each quantum: (k,) float64."""


@dataclass(frozen=True)
class HiddenTime:
    """Cumulative CPU seconds at times `t_ns` of other processes (by package) and of the program without samples.

    `before_s` of the latter passed in threads that run tasks, before the first of them. In all the program used
    `program_s`, and all processes together `busy_s` as the kernel counts, None if it was not read. `unordered` are the
    readings that were left out, by name, since the file is damaged.
    """

    t_ns: NDArray[np.int64]
    other_s: dict[int | None, Floats]
    unseen_s: Floats
    before_s: float
    program_s: float
    busy_s: float | None = None
    own_s: float = 0.0
    unordered: Mapping[str, int] = field(default_factory=dict)

    def between(self, edges_ns: NDArray[np.int64], package: int | None) -> tuple[Floats, Floats]:
        """Return both in each quantum of a package; threads without samples are split evenly over packages."""
        if not len(self.t_ns):
            return np.zeros(max(len(edges_ns) - 1, 0)), np.zeros(max(len(edges_ns) - 1, 0))
        known = self.other_s.get(package)
        other_s = known if known is not None else sum(self.other_s.values(), np.zeros(len(self.t_ns)))
        share = 1.0 if known is None else 1.0 / len(self.other_s)
        other_s, unseen_s = (np.diff(np.interp(edges_ns, self.t_ns, total)) for total in (other_s, self.unseen_s))
        return other_s, unseen_s * share

    def part(self, begin_ns: int, end_ns: int) -> HiddenTime:
        """Return what is needed of it between two times."""
        first = max(int(np.searchsorted(self.t_ns, begin_ns, side="right")) - 1, 0)
        which = slice(first, int(np.searchsorted(self.t_ns, end_ns)) + 1)
        other_s = {package: total[which] for package, total in self.other_s.items()}
        return replace(self, t_ns=self.t_ns[which], other_s=other_s, unseen_s=self.unseen_s[which])

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
    seen_at: Callable[[NDArray[np.int64]], Floats],
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
    counts = [CpuCount.of(one) for one in readings.values() if one.quantity in ("busy", "program")]
    unordered = {count.readings.name: count.unordered for count in counts if count.unordered}
    busy, program = (
        [count for count in counts if count.readings.quantity == quantity and count.count > 1]
        for quantity in ("busy", "program")
    )
    if not program:
        return HiddenTime(np.empty(0, np.int64), {}, np.empty(0), 0.0, 0.0, unordered=unordered)
    grid_ns = _grid([*busy, *program], reach_ns)
    program_s = sum((count.at(grid_ns) for count in program), np.zeros(len(grid_ns)))
    started_s = np.minimum(program_s, np.interp(grid_ns[0] if first_ns is None else first_ns, grid_ns, program_s))
    unseen_s = _never_falling(program_s - seen_at(grid_ns) - started_s)
    busy_s = {count.readings.package: count.at(grid_ns) for count in busy}
    all_s = sum(busy_s.values(), np.zeros(len(grid_ns)))
    other_s = _never_falling(all_s - program_s) if busy else np.zeros(len(grid_ns))
    shares = _shares({package: float(values[-1]) for package, values in busy_s.items()})
    other_by_package_s = {package: other_s * share for package, share in shares.items()}
    return HiddenTime(
        grid_ns, other_by_package_s, unseen_s, min(before_s, float(unseen_s[-1])), float(program_s[-1]),
        float(all_s[-1]) if busy else None, unordered=unordered,
    )  # fmt: skip


def machine_busy_s(readings: Iterable[Readings], edges_ns: NDArray[np.int64]) -> Floats:
    """Return the CPU seconds of all processes in each quantum, (k,); 0 without readings of them."""
    busy = [reading for reading in readings if reading.quantity == "busy" and reading.count > 1]
    total_s = sum((CpuCount.of(reading).at(edges_ns) for reading in busy), np.zeros(len(edges_ns)))
    return np.diff(total_s)


def _shares(busy_s: Mapping[int | None, float]) -> dict[int | None, float]:
    """Return each package's share of the machine's busy time."""
    whole_s = sum(busy_s.values())
    return {package: one_s / whole_s if whole_s > 0 else 1.0 / len(busy_s) for package, one_s in busy_s.items()}


def _grid(counts: Sequence[CpuCount], reach_ns: tuple[int, int]) -> NDArray[np.int64]:
    begin = max(reach_ns[0], *(count.first_ns for count in counts))
    end = min(reach_ns[1], *(count.last_ns for count in counts))
    steps = max((end - begin) // _INTERVAL_NS, 1)
    return np.linspace(begin, max(end, begin + 1), int(min(steps, 10_000_000)) + 1).astype(np.int64)


def _never_falling(cumulative_s: Floats) -> Floats:
    below: Floats = np.minimum.accumulate(cumulative_s[::-1])[::-1]
    return np.maximum(below, 0.0)


class Growth:
    """A count of CPU time that grows, with its last values. Searched without NumPy, which is slow for few."""

    def __init__(self, unit: float, package: int | None) -> None:
        """Begin without values; `unit` is seconds of one count."""
        self.package = package
        self.whole_s = 0.0
        self._unit = unit
        self._value = np.empty(0, np.uint64)
        self._t_ns: list[int] = []
        self._total_s: list[float] = []

    def __len__(self) -> int:
        return len(self._t_ns)

    def add(self, t_ns: NDArray[np.int64], value: NDArray[np.uint64]) -> None:
        """Add counts."""
        if not len(value):
            return
        both = np.concatenate((self._value if len(self._value) else value[:1], value))
        self._value = value[-1:].copy()
        for at_ns, moved_s in zip(t_ns.tolist(), (grown(both) * self._unit).tolist(), strict=True):
            self.whole_s += moved_s
            self._t_ns.append(max(at_ns, self._t_ns[-1]) if self._t_ns else at_ns)
            self._total_s.append(self.whole_s)

    def at(self, t_ns: int) -> float:
        """Return the CPU seconds up to a time; before the first value and after the last, those of that value."""
        return _interpolated(self._t_ns, self._total_s, t_ns)

    def last_before(self, t_ns: int) -> int:
        """Return the time of the last value not after `t_ns`, else of the first."""
        return self._t_ns[max(bisect_right(self._t_ns, t_ns) - 1, 0)]

    def leave(self, t_ns: int) -> None:
        """Drop all values before a time."""
        first = max(bisect_right(self._t_ns, t_ns) - 1, 0)
        del self._t_ns[:first], self._total_s[:first]


class _Claims:
    """A growing quantity, and the part of it that was claimed."""

    def __init__(self) -> None:
        """Begin without claims."""
        self.claimed_s = 0.0
        self._points: deque[tuple[int, float]] = deque()

    def add(self, t_ns: int, value_s: float) -> None:
        """Add a value; drops values that are too old."""
        points = self._points
        if not points or t_ns > points[-1][0]:
            points.append((t_ns, value_s))
        while len(points) > 2 and points[1][0] < t_ns - LATELY_NS:
            points.popleft()

    def claim(self, until_ns: int) -> float:
        """Claim what the line says at a time, never less than before; returns it."""
        if self._points:
            (first_ns, first_s), (last_ns, last_s) = self._points[0], self._points[-1]
            per_ns = max(last_s - first_s, 0.0) / max(last_ns - first_ns, 1)
            least_s = min(value_s + per_ns * (until_ns - t_ns) for t_ns, value_s in self._points)
            self.claimed_s = max(self.claimed_s, least_s)
        return self.claimed_s


class HiddenSoFar:
    """The CPU time without samples of a recording that runs.

    Attributes
    ----------
    busy, program : the counts, to which their readers add
    """

    def __init__(self) -> None:
        """Begin without counts."""
        self.busy: list[Growth] = []
        self.program: list[Growth] = []
        self._began_s: float | None = None
        self._other_began_s: float | None = None
        self._other, self._unseen = _Claims(), _Claims()
        self._t_ns: list[int] = []
        self._other_s: list[float] = []
        self._unseen_s: list[float] = []

    def extend(
        self, since_ns: int, until_ns: int, seen_s: Callable[[int], float], *, first_ns: int | None
    ) -> tuple[float, float]:
        """Go on to a time, and return the CPU seconds of other processes, and of our threads without samples.

        Parameters
        ----------
        since_ns, until_ns : of this step; CPU time of others before the first step does not count
        seen_s : returns the samples' CPU seconds up to a time
        first_ns : of the first sample; CPU time of the program before it was our own start
        """
        counts = (*self.program, *self.busy)
        if not self._t_ns:
            self._append(since_ns)
        if self.program and all(len(count) for count in counts):
            # Compare with the samples at a reading: values between two readings are less exact.
            at_ns = min(count.last_before(until_ns) for count in counts)
            program_s = sum(count.at(at_ns) for count in self.program)
            if self._began_s is None and first_ns is not None:
                self._began_s = sum(count.at(min(first_ns, at_ns)) for count in self.program)
            self._unseen.add(at_ns, program_s - (self._began_s or 0.0) - seen_s(at_ns))
            if self.busy:
                if self._other_began_s is None:
                    self._other_began_s = self._other_at(min(since_ns, at_ns))
                self._other.add(at_ns, self._other_at(at_ns) - self._other_began_s)
            for count in counts:
                count.leave(at_ns)
        self._other.claim(until_ns)
        self._unseen.claim(until_ns)
        self._append(until_ns)
        return self._other_s[-1] - self._other_s[-2], self._unseen_s[-1] - self._unseen_s[-2]

    def between(self, edges_ns: NDArray[np.int64], package: int | None) -> tuple[Floats, Floats]:
        """As `HiddenTime.between`, for times since the last `leave`."""
        shares = _shares({count.package: count.whole_s for count in self.busy})
        known = package in shares
        other_s, unseen_s = (self._differences(edges_ns, total) for total in (self._other_s, self._unseen_s))
        if not known:
            return other_s, unseen_s
        return other_s * shares[package], unseen_s / len(shares)

    def leave(self, t_ns: int) -> None:
        """Forget what was before a time."""
        first = max(bisect_right(self._t_ns, t_ns) - 1, 0)
        del self._t_ns[:first], self._other_s[:first], self._unseen_s[:first]

    def _append(self, t_ns: int) -> None:
        self._t_ns.append(t_ns)
        self._other_s.append(self._other.claimed_s)
        self._unseen_s.append(self._unseen.claimed_s)

    def _other_at(self, t_ns: int) -> float:
        return sum(count.at(t_ns) for count in self.busy) - sum(count.at(t_ns) for count in self.program)

    def _differences(self, edges_ns: NDArray[np.int64], total_s: list[float]) -> Floats:
        if len(self._t_ns) == 2 and edges_ns[0] >= self._t_ns[0] and edges_ns[-1] <= self._t_ns[1]:
            per_ns = (total_s[1] - total_s[0]) / max(self._t_ns[1] - self._t_ns[0], 1)
            return np.diff(edges_ns) * per_ns
        return np.diff([_interpolated(self._t_ns, total_s, t_ns) for t_ns in edges_ns.tolist()])


def _interpolated(t_ns: list[int], values: list[float], at_ns: int) -> float:
    """Return the value at a time; outside, the nearest one, and 0 without any."""
    if not t_ns:
        return 0.0
    after = bisect_right(t_ns, at_ns)
    if after in (0, len(t_ns)):
        return values[max(after - 1, 0)]
    begin_ns, end_ns = t_ns[after - 1], t_ns[after]
    return values[after - 1] + (values[after] - values[after - 1]) * (at_ns - begin_ns) / (end_ns - begin_ns)
