"""The readings of a session: joules of its domains, and CPU time of the machine and of the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.analysis.attribution.cpu_counts import CpuCount, sum_at
from tprof.analysis.attribution.hidden import Hidden, HiddenSoFar, SeenAt
from tprof.analysis.attribution.idle_power import idle_power, is_quiet, quanta_before
from tprof.analysis.attribution.quanta import GPU
from tprof.errors import TraceError
from tprof.trace import layout
from tprof.trace.increments import Counter
from tprof.trace.kinds import Quality, ReadingFlag, StreamKind, least_certain
from tprof.trace.readings import unit_of
from tprof.trace.stream import open_stream

from .blocks import tail_of
from .quanta import GrowingQuanta

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tprof import _core
    from tprof.trace.stream import Stream

Records = np.ndarray[Any, np.dtype[np.void]]
READINGS = ".readings"
NOTHING_DRAWN_NS = 1_000_000_000
"""A count that stands still for longer counts as 0 J."""
MOST_RECORDS = 1 << 16
"""Of one file at a time: the first read of a long recording then takes no more memory than of a short one."""


@dataclass(frozen=True, slots=True)
class DomainSoFar:
    """A domain and what is known of it; one that is not counted is in no total."""

    name: str
    quality: str
    counted: bool
    quanta: GrowingQuanta


class Readings:
    """What is known of a session's readings.

    Attributes
    ----------
    shown : all domains that are followed, GPUs too
    domains : the counted ones, GPUs left out
    gpus : counted GPUs, whose joules no CPU time shares
    packages : numbers of the packages that have a domain
    hidden : CPU time without samples
    packages_only : whether all domains are packages; `tprof._core.drawn_uj` then has their joules without a read
    """

    def __init__(self, hidden: Hidden) -> None:
        """Begin without domains."""
        self.shown: list[DomainSoFar] = []
        self.domains: list[GrowingQuanta] = []
        self.gpus: list[GrowingQuanta] = []
        self.packages: list[int] = []
        self.hidden = hidden
        self.packages_only = True
        self._qualities: set[str] = set()
        self._begin_ns = 0

    @property
    def quality(self) -> str:
        """Quality of the joules; `none` without any."""
        return least_certain(self._qualities)

    @property
    def first_ns(self) -> int | None:
        """Time from which the joules of any domain are known; None without domains."""
        return min((domain.first_ns for domain in self.domains if domain.first_ns is not None), default=None)

    @property
    def last_ns(self) -> int | None:
        """Time up to which the joules of all domains are known; None without domains, or before their first reading."""
        lasts = [domain.last_ns for domain in self.domains]
        return min((last_ns for last_ns in lasts if last_ns is not None), default=None) if None not in lasts else None

    def find_static(self, block_ns: int) -> None:
        """Take what domains drew in idle time before the block as their static power, if it is not known."""

    def begin(self, t_ns: int) -> None:
        """Drop the joules before a time."""
        self._begin_ns = t_ns
        for domain in self.shown:
            domain.quanta.begin(t_ns)

    def read(self) -> bool:
        """Read what is new; returns whether there is more. Raises OSError."""
        return False

    def learn(self, since_ns: int, until_ns: int, seen_at: SeenAt, first_ns: int | None) -> tuple[float, float]:
        """Learn the CPU time without samples in a step, if it is not known; as `HiddenSoFar.extend`."""
        del since_ns, until_ns, seen_at, first_ns
        return 0.0, 0.0

    def leave(self, t_ns: int) -> None:
        """Forget the CPU time without samples before a time."""

    def until(self, since_ns: int, at_most_ns: int, now_ns: int) -> int | None:
        """Return the end of a step that begins at `since_ns`: the last edge not after `at_most_ns`.

        A step ends with its quantum if that is longer, and now without domains. None if nothing new is known after
        `since_ns`.
        """
        last_ns = self.last_ns if self.domains else min(now_ns, at_most_ns)
        if last_ns is None or last_ns <= since_ns:
            return None
        ends = [end for domain in self.domains if (end := domain.edge(since_ns, at_most_ns)) is not None]
        return min(last_ns, max((end for end in ends if end <= at_most_ns), default=min(ends, default=last_ns)))

    def reach(self, end_ns: int) -> int:
        """Return where the last quantum of all domains ends that begins before a time."""
        return max([end_ns, *(domain.end_of(end_ns) for domain in self.domains)])

    def _enter(
        self, name: str, quality: str, package: int | None, static_w: Mapping[str, float], *, scope: str
    ) -> GrowingQuanta:
        """Return a new counted domain."""
        domain = GrowingQuanta(name, package, static_w.get(name, 0.0))
        domain.begin(self._begin_ns)
        (self.gpus if scope == GPU else self.domains).append(domain)
        self._qualities.add(quality)
        self.shown.append(DomainSoFar(name, quality, counted=True, quanta=domain))
        return domain

    def _show(self, name: str, quality: str, package: int | None) -> GrowingQuanta:
        """Return a new domain that is not counted; nobody takes its quanta."""
        domain = GrowingQuanta(name, package, 0.0)
        domain.begin(self._begin_ns)
        self.shown.append(DomainSoFar(name, quality, counted=False, quanta=domain))
        return domain

    def _add_package(self, package: int | None) -> None:
        if package is not None and package not in self.packages:
            self.packages.append(package)


class RunningReadings(Readings):
    """The readings of a session that runs, as far as they are committed."""

    def __init__(self, session: Path, static_w: dict[str, float], *, all_domains: bool = False) -> None:
        """Open the files of readings, which exist from the session's start; all or those of counted domains.

        `find_static` adds to the static watts that are known.
        """
        self.so_far = HiddenSoFar()
        self._all_domains = all_domains
        super().__init__(self.so_far)
        self._directory = session / "readings"
        self._static_w = static_w
        self._files: dict[str, tuple[_core.Tail, Callable[[Records], None]] | None] = {}
        self._open()

    def read(self) -> bool:
        """Read what is new; returns whether there is more. Raises OSError."""
        if not self.domains and not self.gpus:
            self._open()
        more = False
        for tail, follow in filter(None, self._files.values()):
            read, has_more = tail.read(MOST_RECORDS)
            more |= has_more
            if read:
                follow(np.frombuffer(read, layout.READING))
        return more

    def find_static(self, block_ns: int) -> None:
        """As `idle_powers` finds it for a whole recording; the session's further readers get it too."""
        for one in self.shown:
            quanta = one.quanta
            if quanta not in self.domains or one.name in self._static_w or one.quality == Quality.ESTIMATED:
                continue
            edges_ns, energy_j = quanta.known()
            count = quanta_before(edges_ns, block_ns)
            edges_ns = edges_ns[: count + 1]
            busy_s = np.diff(sum_at(self.so_far.busy, edges_ns))
            found = idle_power(edges_ns, energy_j[:count], is_quiet(edges_ns, busy_s))
            if found is not None:
                self._static_w[one.name] = quanta.static_w = found.watts

    def read_counts(self) -> dict[Path, int]:
        """Return how many records of each file were read."""
        found = {self._directory / name: one for name, one in self._files.items()}
        return {path: one[0].done for path, one in found.items() if one is not None}

    def learn(self, since_ns: int, until_ns: int, seen_at: SeenAt, first_ns: int | None) -> tuple[float, float]:
        """Learn the CPU time without samples in a step; as `HiddenSoFar.extend`."""
        return self.so_far.extend(since_ns, until_ns, seen_at, first_ns=first_ns)

    def leave(self, t_ns: int) -> None:
        """Forget the CPU time without samples before a time."""
        self.so_far.leave(t_ns)

    def _open(self) -> None:
        for path in self._directory.iterdir():
            if path.suffix == READINGS and path.name not in self._files:
                try:
                    self._open_one(path)
                except TraceError:
                    continue  # its header is not whole yet: next time

    def _open_one(self, path: Path) -> None:
        stream = open_stream(path, StreamKind.READINGS)
        description, follow = stream.description, None
        package = description.get("package")
        package = package if isinstance(package, int) else None
        quantity = description.get("quantity")
        if quantity == "energy":
            follow = self._domain(path, stream, package)
        elif quantity in ("busy", "program"):
            growth = CpuCount(unit_of(stream), package)
            (self.so_far.busy if quantity == "busy" else self.so_far.program).append(growth)
            follow = _follow_time(growth)
        self._files[path.name] = None if follow is None else (tail_of(stream, layout.READING), follow)

    def _domain(self, path: Path, stream: Stream, package: int | None) -> Callable[[Records], None] | None:
        description = stream.description
        unit_j, quality, scope = unit_of(stream), description.get("quality"), str(description.get("scope"))
        self._add_package(package)
        counted = description.get("counted") is True
        if not (counted or self._all_domains):
            return None
        quality = quality if isinstance(quality, str) and quality in set(Quality) else str(Quality.ESTIMATED)
        counter = Counter(unit_j=unit_j, modulus=stream.number("modulus"), quality=quality, scope=scope)
        name = str(description.get("name", path.stem))
        if not counted:
            shown = self._show(name, quality, package)
            return lambda records: shown.pass_over(counter.follow(records, longest_still_ns=NOTHING_DRAWN_NS))
        domain = self._enter(name, quality, package, self._static_w, scope=scope)
        self.packages_only &= package is not None and scope == "package"
        return lambda records: domain.add(counter.follow(records, longest_still_ns=NOTHING_DRAWN_NS))


def _follow_time(growth: CpuCount) -> Callable[[Records], None]:
    def follow(records: Records) -> None:
        good = records[(records["flags"] & ReadingFlag.MISSING) == 0]
        growth.add(good["t_ns"].astype(np.int64), good["value"])

    return follow
