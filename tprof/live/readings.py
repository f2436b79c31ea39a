"""The readings of a running session: joules of its domains, and CPU time of the machine and of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tprof.errors import TraceError

from .domain import Curve, Domain
from .hidden import HiddenTime
from .share import Hidden, share, share_of_process

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from .share import Shared
    from .thread import Stretch

MOST_RECORDS = 1 << 16
"""Of one file at a time: the first read of a long recording then takes no more memory than of a short one."""
_LEAST_CERTAIN_FIRST = ("estimated", "simulated", "given", "measured")


class Readings:
    """The readings of a session, up to the last time at which all domains are known."""

    def __init__(self, session: Path, static_w: Mapping[str, float]) -> None:
        """Open the files of readings, which exist from the session's start."""
        self.domains: list[Domain] = []
        self._directory = session / "readings"
        self._opened: set[str] = set()
        self._static_w = static_w
        self._hidden_time = HiddenTime()
        self._open()

    @property
    def quality(self) -> str:
        """Quality of the joules; `none` without any."""
        qualities = {domain.quality for domain in self.domains}
        return next((name for name in _LEAST_CERTAIN_FIRST if name in qualities), "none")

    @property
    def packages_only(self) -> bool:
        """Whether all domains are packages; `tprof._core.drawn_uj` then has their joules without a read."""
        return all(
            domain.package is not None and domain.description.get("scope") == "package" for domain in self.domains
        )

    @property
    def is_whole(self) -> bool:
        """Whether every domain has values."""
        return all(len(domain.t_ns) for domain in self.domains)

    @property
    def first_ns(self) -> int | None:
        """Time from which the joules of all domains are known; None without domains, or before their first reading."""
        return max((int(domain.t_ns[0]) for domain in self.domains), default=None) if self.is_whole else None

    @property
    def last_ns(self) -> int | None:
        """Time up to which the joules of all domains are known; None without domains, or before their first reading."""
        return min((int(domain.t_ns[-1]) for domain in self.domains), default=None) if self.is_whole else None

    def read(self) -> bool:
        """Read what is new; returns whether there is more. Raises OSError."""
        if not self.domains:
            self._open()
        curves: tuple[Curve, ...] = (*self.domains, *self._hidden_time.busy, *self._hidden_time.program)
        more = [curve.read(MOST_RECORDS) for curve in curves]
        return any(more)

    def read_j(self, t_ns: int) -> float:
        """Return the joules from the first reading of each domain to a time not before the last step."""
        return sum(domain.at(t_ns) for domain in self.domains)

    def until(self, since_ns: int, at_most_ns: int) -> int | None:
        """Return the end of a step that begins at `since_ns`: the last edge not after `at_most_ns`.

        A step ends with its quantum if that is longer. None without new joules after `since_ns`, or without domains.
        """
        last_ns = self.last_ns
        if last_ns is None or last_ns <= since_ns:
            return None
        ends = [domain.edge(at_most_ns, since_ns) for domain in self.domains]
        return min(last_ns, max((end for end in ends if end <= at_most_ns), default=min(ends)))

    def edges(self, since_ns: int, until_ns: int) -> NDArray[np.int64]:
        """Return all domains' edges between two times, with these two."""
        if len(self.domains) == 1:
            return self.domains[0].edges(since_ns, until_ns)
        both = [np.array([since_ns, until_ns], np.int64)]
        return np.unique(np.concatenate([*both, *(domain.edges(since_ns, until_ns) for domain in self.domains)]))

    def share(self, ran: Stretch, since_ns: int, until_ns: int, *, began_ns: int | None) -> list[Shared]:
        """Share the joules between two times, by domain; drops all values before the second one.

        Parameters
        ----------
        ran : the load between them
        since_ns, until_ns : the two times
        began_ns : of the first sample; CPU time of the program before it was our own start
        """
        hidden = self._hidden_time.claim(since_ns, until_ns, ran, began_ns=began_ns)
        packages = self._packages
        shares = []
        for domain in self.domains:
            edges_ns, energy_j = domain.take(since_ns, until_ns)
            even = self._even(domain)
            wide = domain.package is None or len(packages) < 2
            weight = None if wide else _weight(ran.package, domain.package or 0, len(packages))
            of_it = Hidden(hidden.other_s * even, hidden.unseen_s * even)
            static_w = self._static_w.get(domain.name, 0.0)
            shares.append(share(ran, edges_ns, energy_j, hidden=of_it, static_w=static_w, weight=weight))
        return shares

    def share_of_process(self, ran: Stretch, since_ns: int, until_ns: int) -> tuple[float, float]:
        """Return the joules of a process between two times, and the number of busy cores.

        As `share`, with one row in `ran` for the whole process.
        """
        hidden = self._hidden_time.claim(since_ns, until_ns, ran, began_ns=since_ns)
        own_s, process_j = float(ran.cpu_s[0]), 0.0
        for domain in self.domains:
            edges_ns, energy_j = domain.take(since_ns, until_ns)
            even, static_w = self._even(domain), self._static_w.get(domain.name, 0.0)
            of_it = Hidden(hidden.other_s * even, hidden.unseen_s * even)
            process_j += share_of_process(own_s * even, edges_ns, energy_j, hidden=of_it, static_w=static_w)
        return process_j, (own_s + hidden.other_s + hidden.unseen_s) / (until_ns - since_ns) * 1e9

    @property
    def _packages(self) -> set[int]:
        return {domain.package for domain in self.domains if domain.package is not None}

    def _even(self, domain: Domain) -> float:
        """Return the domain's part of CPU time whose package is unknown."""
        wide = domain.package is None or len(self._packages) < 2
        return 1.0 if wide else 1.0 / len(self.domains)

    def _open(self) -> None:
        for path in self._directory.iterdir():
            if path.name not in self._opened:
                self._open_one(path)

    def _open_one(self, path: Path) -> None:
        try:
            curve = Curve(path)
            if curve.description.get("quantity") == "energy" and curve.description.get("counted") is True:
                self.domains.append(Domain(path))
        except TraceError:
            return
        kinds = {"busy": self._hidden_time.busy, "program": self._hidden_time.program}
        if curve.description.get("quantity") in kinds:
            kinds[curve.description["quantity"]].append(curve)
        self._opened.add(path.name)


def _weight(package: NDArray[np.int64], package_index: int, count: int) -> NDArray[np.float64]:
    return np.where(package < 0, 1.0 / count, (package == package_index).astype(np.float64))
