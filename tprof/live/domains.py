"""The domains of a session: their joules as far as they are known, and the CPU time of the machine and the program."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tprof.analysis.attribution.cpu_counts import CpuCount, sum_at
from tprof.analysis.attribution.hidden import HiddenSoFar
from tprof.analysis.attribution.idle_power import idle_power, is_quiet, quanta_before
from tprof.analysis.attribution.quanta import GPU, Quanta
from tprof.errors import TraceError
from tprof.trace import layout
from tprof.trace.increments import Counter
from tprof.trace.kinds import Quality, ReadingFlag, least_certain
from tprof.trace.readings import open_readings

from .threads import tail_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tprof import _core
    from tprof.analysis.attribution.hidden import Hidden
    from tprof.trace import Readings

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
Records = np.ndarray[Any, np.dtype[np.void]]
READINGS = ".readings"
NOTHING_DRAWN_NS = 1_000_000_000
"""A count that stands still for longer counts as 0 J."""
MOST_RECORDS = 1 << 16
"""Of one file at a time: the first read of a long recording then takes no more memory than of a short one."""


@dataclass(eq=False)
class Domain:
    """A domain, and its quanta as they become known; those that were shared are dropped.

    Attributes
    ----------
    counted : whether it belongs in a total
    is_gpu : whether no CPU time shares its joules: when it worked for whom is known only later
    lead_in_j : joules before `begin`
    known_j : joules from the first edge on, shared or not
    taken : how many quanta were taken
    edges_ns, energy_j : the quanta that are known and not dropped
    """

    name: str
    quality: str = Quality.ESTIMATED
    package: int | None = None
    counted: bool = True
    is_gpu: bool = False
    static_w: float = 0.0
    lead_in_j: float = 0.0
    known_j: float = 0.0
    taken: int = 0
    edges_ns: Times = field(default_factory=lambda: np.empty(0, np.int64))
    energy_j: Floats = field(default_factory=lambda: np.empty(0))
    _begin_ns: int = 0

    @property
    def first_ns(self) -> int | None:
        """The first edge that is known and not dropped; None without quanta."""
        return int(self.edges_ns[0]) if len(self.edges_ns) else None

    @property
    def last_ns(self) -> int | None:
        """The last edge that is known; None without edges."""
        return int(self.edges_ns[-1]) if len(self.edges_ns) else None

    def follow(self, counter: Counter, records: Records) -> None:
        """Add what new readings show; the best estimate of the time of a change is the middle of its window."""
        found = counter.follow(records, longest_still_ns=NOTHING_DRAWN_NS)
        if len(found.t_ns):
            # The very first reading ends no quantum.
            energy_j = found.energy_j if len(self.edges_ns) else found.energy_j[1:]
            self.append(found.t_ns - found.window_ns // 2, energy_j)

    def append(self, edges_ns: Times, energy_j: Floats) -> None:
        """Add the edges at which quanta end, and the joules of each; the very first edge ends none."""
        self.edges_ns = np.concatenate((self.edges_ns, edges_ns))
        self.energy_j = np.concatenate((self.energy_j, energy_j))
        self.known_j += float(energy_j.sum())
        self.begin(self._begin_ns)

    def begin(self, t_ns: int) -> None:
        """Drop what is before a time; a quantum that is cut keeps its part by time."""
        self._begin_ns = t_ns
        if not len(self.edges_ns) or self.edges_ns[0] >= t_ns:
            return
        first = bisect_right(self.edges_ns, t_ns) - 1
        self.lead_in_j += float(self.energy_j[:first].sum())
        self.edges_ns, self.energy_j = self.edges_ns[first:].copy(), self.energy_j[first:].copy()
        if len(self.energy_j):
            part = (self.edges_ns[1] - t_ns) / (self.edges_ns[1] - self.edges_ns[0])
            self.lead_in_j += float(self.energy_j[0] * (1 - part))
            self.energy_j[0] *= part
            self.edges_ns[0] = t_ns

    def edge(self, since_ns: int, at_most_ns: int) -> int | None:
        """Return the last edge after one time and not after another, else the next one; None without any."""
        after = bisect_right(self.edges_ns, since_ns)
        if after == len(self.edges_ns):
            return None
        return int(self.edges_ns[max(bisect_right(self.edges_ns, at_most_ns) - 1, after)])

    def end_of(self, t_ns: int) -> int:
        """Return where the last quantum ends that begins before a time."""
        at = min(bisect_left(self.edges_ns, t_ns), len(self.edges_ns) - 1)
        return int(self.edges_ns[at]) if at > 0 else t_ns

    def take(self, t_ns: int) -> Quanta:
        """Return the quanta that begin before a time, and drop them."""
        last = min(bisect_left(self.edges_ns, t_ns), len(self.energy_j))
        edges_ns, energy_j = self.edges_ns[: last + 1 if last else 0], self.energy_j[:last]
        self.edges_ns, self.energy_j = self.edges_ns[last:], self.energy_j[last:]
        self.taken += last
        return Quanta(
            self.name, "", self.package, counted=True, quality="", edges_ns=edges_ns, energy_j=energy_j,
            valid=np.ones(last, bool), stuck=np.zeros(last, bool), window_s=np.zeros(last + 1), unit_j=0.0, warnings=(),
        )  # fmt: skip


class Domains:
    """The domains of a session, and the CPU time without samples.

    Attributes
    ----------
    shown : all domains that are followed, GPUs too
    packages : numbers of the packages that have a domain, followed or not
    hidden : CPU time without samples
    packages_only : whether all domains are packages; `tprof._core.drawn_uj` then has their joules without a read
    """

    def __init__(self, hidden: Hidden) -> None:
        """Begin without domains."""
        self.shown: list[Domain] = []
        self.packages: list[int] = []
        self.hidden = hidden
        self.packages_only = True

    def enter(self, domain: Domain) -> Domain:
        """Add a domain, whose joules before the block are not counted."""
        self.shown.append(domain)
        self.add_package(domain.package)
        return domain

    def add_package(self, package: int | None) -> None:
        """Add the package of a domain."""
        if package is not None and package not in self.packages:
            self.packages.append(package)

    @property
    def counted(self) -> list[Domain]:
        """The domains whose joules are shared by CPU time."""
        return [one for one in self.shown if one.counted and not one.is_gpu]

    @property
    def quality(self) -> str:
        """Quality of the joules; `none` without any."""
        return least_certain({one.quality for one in self.shown if one.counted})

    @property
    def first_ns(self) -> int | None:
        """Time from which the joules of any domain are known; None without domains."""
        return min((one.first_ns for one in self.counted if one.first_ns is not None), default=None)

    @property
    def last_ns(self) -> int | None:
        """When the last quantum of any domain of a session ended that has ended: no more will come."""
        return max((one.last_ns for one in self.counted if one.last_ns is not None), default=None)

    def read(self) -> bool:
        """Read what is new; returns whether there is more. Raises OSError."""
        return False

    def begin(self, t_ns: int) -> None:
        """Drop the joules before a time."""
        for one in self.shown:
            one.begin(t_ns)

    def until(self, since_ns: int, at_most_ns: int, now_ns: int) -> int | None:
        """Return the end of a step that begins at `since_ns`: the last edge not after `at_most_ns`.

        A step ends with its quantum if that is longer, and now without domains. None if nothing new is known after
        `since_ns`.
        """
        last_ns = self.last_ns if self.counted else min(now_ns, at_most_ns)
        if last_ns is None or last_ns <= since_ns:
            return None
        ends = [end for one in self.counted if (end := one.edge(since_ns, at_most_ns)) is not None]
        return min(last_ns, max((end for end in ends if end <= at_most_ns), default=min(ends, default=last_ns)))

    def reach(self, end_ns: int) -> int:
        """Return where the last quantum of all domains ends that begins before a time."""
        return max([end_ns, *(one.end_of(end_ns) for one in self.counted)])


class RunningDomains(Domains):
    """The domains of a session that runs, as far as their readings are committed.

    Attributes
    ----------
    so_far : CPU time without samples
    """

    def __init__(self, session: Path, static_w: dict[str, float], *, all_domains: bool = False) -> None:
        """Open the files of readings, which exist from the session's start; all or those of counted domains.

        `find_static` adds to the static watts that are known.
        """
        self.so_far = HiddenSoFar()
        super().__init__(self.so_far)
        self._all_domains, self._directory, self._static_w = all_domains, session / "readings", static_w
        self._begin_ns = 0
        self._files: dict[str, tuple[_core.Tail, Callable[[Records], None]] | None] = {}
        self._open()

    @property
    def last_ns(self) -> int | None:
        """Time up to which the joules of all domains are known; None without domains, or before their first reading."""
        lasts = [one.last_ns for one in self.counted]
        return min((one for one in lasts if one is not None), default=None) if None not in lasts else None

    def read(self) -> bool:
        """Read what is new; returns whether there is more. Raises OSError."""
        if not any(one.counted for one in self.shown):
            self._open()
        more = False
        for tail, follow in filter(None, self._files.values()):
            read, has_more = tail.read(MOST_RECORDS)
            more |= has_more
            if read:
                follow(np.frombuffer(read, layout.READING))
        return more

    def begin(self, t_ns: int) -> None:
        """Drop the joules before a time, of domains too that come later."""
        self._begin_ns = t_ns
        super().begin(t_ns)

    def find_static(self, block_ns: int) -> None:
        """As `idle_powers` finds it for a whole recording; the session's further readers get it too."""
        for one in self.counted:
            if one.name in self._static_w or one.quality == Quality.ESTIMATED:
                continue
            count = quanta_before(one.edges_ns, block_ns)
            edges_ns = one.edges_ns[: count + 1]
            busy_s = np.diff(sum_at(self.so_far.busy, edges_ns))
            found = idle_power(edges_ns, one.energy_j[:count], is_quiet(edges_ns, busy_s))
            if found is not None:
                self._static_w[one.name] = one.static_w = found.watts

    def read_counts(self) -> dict[Path, int]:
        """Return how many records of each file were read."""
        return {self._directory / name: one[0].done for name, one in self._files.items() if one is not None}

    def _open(self) -> None:
        for path in self._directory.iterdir():
            if path.suffix == READINGS and path.name not in self._files:
                try:
                    readings, stream, _ = open_readings(path)
                except TraceError:
                    continue  # its header is not whole yet: next time
                follow = self._follow(readings)
                self._files[path.name] = None if follow is None else (tail_of(stream, layout.READING), follow)

    def _follow(self, readings: Readings) -> Callable[[Records], None] | None:
        """Return what takes the readings of a file; None: nobody does."""
        if readings.quantity in ("busy", "program"):
            count = CpuCount(readings.unit, readings.package)
            (self.so_far.busy if readings.quantity == "busy" else self.so_far.program).append(count)
            return partial(_add_time, count)
        if readings.quantity != "energy":
            return None
        self.add_package(readings.package)
        name, package, counted, is_gpu = readings.name, readings.package, readings.counted, readings.scope == GPU
        if not (counted or self._all_domains):
            return None
        static_w = self._static_w.get(name, 0.0)
        domain = self.enter(Domain(name, str(readings.quality), package, counted, is_gpu, static_w))
        domain.begin(self._begin_ns)
        self.packages_only &= not counted or (package is not None and readings.scope == "package")
        return partial(domain.follow, Counter.of(readings))


def _add_time(count: CpuCount, records: Records) -> None:
    good = records[(records["flags"] & ReadingFlag.MISSING) == 0]
    count.add(good["t_ns"].astype(np.int64), good["value"])
