"""Finds the processes that were started together with this one and record into the same session, such as ranks.

Ranks have a common ancestor, the launcher: the nearest ancestor that is not a rank. Launchers have nothing else in
common. Other programs were started together if one process started them within a few seconds.

Processes are read from /proc, not by psutil: its start times move with the wall clock, so they do not identify a
process, and loading it would delay the start of each recording.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof import _core
from tprof.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Variables of Open MPI, MPICH, PMIx, MVAPICH2, PALS and Slurm; the earlier ones take precedence within Slurm's jobs.
RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "SLURM_PROCID")
TOGETHER_S = 10.0
# Longest time from a rank's start until it joins; Python and tprof take 0.1 s on an idle machine.
START_S = 20.0
WAIT_S = 0.02
_PROC = Path("/proc")


@dataclass(frozen=True)
class Status:
    """A process's parent and start in ticks since the machine's boot, from the kernel."""

    parent: int
    started_ticks: int

    @classmethod
    def of(cls, pid: int) -> Status | None:
        """Read it; None if there is no such process."""
        try:
            fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return cls(int(fields[1]), int(fields[19]))


@dataclass(frozen=True)
class Origin:
    """The origin of a process.

    Attributes
    ----------
    launcher : process number and start of the process that started it and its companions
    rank : the name and value of the variable with its rank; None if it has none
    started_ticks : its start
    """

    launcher: tuple[int, int]
    rank: tuple[str, str] | None
    started_ticks: int

    @classmethod
    def of(cls, pid: int) -> Origin | None:
        """Return the origin of a process; None if /proc does not have it."""
        own = Status.of(pid)
        variables = _variables(pid)
        name = next((name for name in RANKS if name in variables), None)
        launcher = None if own is None else _launcher(own.parent, name)
        if own is None or launcher is None:
            return None
        return cls(launcher, None if name is None else (name, variables[name]), own.started_ticks)

    @classmethod
    def from_json(cls, plain: Any) -> Origin | None:
        """Read it from a manifest; None without one."""
        try:
            pid, ticks = plain["launcher"]
            rank = plain["rank"]
            rank = None if rank is None else (str(rank[0]), str(rank[1]))
            return cls((int(pid), int(ticks)), rank, int(plain["started_ticks"]))
        except (KeyError, IndexError, TypeError, ValueError):
            return None

    def as_json(self) -> dict[str, Any]:
        """Return it for a manifest."""
        rank = None if self.rank is None else list(self.rank)
        return {"launcher": list(self.launcher), "rank": rank, "started_ticks": self.started_ticks}

    def is_together_with(self, other: Origin) -> bool:
        """Return whether both were started together: as ranks of one job, or at the same time by one process."""
        if self.launcher != other.launcher:
            return False
        if self.rank is None or other.rank is None:
            apart_s = abs(self.started_ticks - other.started_ticks) / os.sysconf("SC_CLK_TCK")
            return self.rank is other.rank and apart_s <= TOGETHER_S
        return self.rank[0] == other.rank[0] and self.rank[1] != other.rank[1]


def is_rank() -> bool:
    """Return whether this process is a rank of a job."""
    return rank() is not None


def rank() -> str | None:
    """Return this process's rank in its job, by its launcher; None without one."""
    return next((os.environ[name] for name in RANKS if name in os.environ), None)


def _launcher(pid: int, rank_name: str | None) -> tuple[int, int] | None:
    while True:
        status = Status.of(pid)
        if status is None:
            return None
        if rank_name is None or status.parent == 0 or rank_name not in _variables(pid):
            return pid, status.started_ticks
        pid = status.parent


def _variables(pid: int) -> dict[str, str]:
    """Return the initial environment of a process; empty for another user's, as a launcher may be."""
    try:
        entries = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(os.fsdecode(entry).split("=", 1) for entry in entries if b"=" in entry)


def shares(session: Path) -> bool:
    """Return whether a companion of this process records there; a rank may just have ended."""
    from tprof.sensors import sysroot  # noqa: PLC0415 - kept off `import tprof`
    from tprof.sensors.topology import boot_id  # noqa: PLC0415 - see above
    from tprof.trace.manifest import read_manifest  # noqa: PLC0415 - see above
    from tprof.trace.running import is_running  # noqa: PLC0415 - see above

    try:
        manifest = read_manifest(session)
    except TraceError:
        return False
    here, there = Origin.of(os.getpid()), Origin.from_json(manifest.get("origin"))
    if (
        manifest.get("boot_id") != boot_id(sysroot())
        or here is None
        or there is None
        or not here.is_together_with(there)
    ):
        return False
    return here.rank is not None or is_running(session)


def are_awaited() -> bool:
    """Return whether companions record into this process's session, or are ranks that were just started."""
    return not all(_has_left(companion) for companion in _companions(os.getpid()))


def await_companions(owner: int) -> None:
    """Wait until the owner's companions have left the session, and starting ranks have joined and left."""
    while not all(_has_left(companion) for companion in _companions(owner)):
        time.sleep(WAIT_S)


def describe_running(owner: int) -> list[str]:
    """Return a sentence on companions that record at the end of the session, if there are any."""
    joined = {pid for _, pid, _, ended_ns in _core.session_processes() if not ended_ns}
    if joined <= {owner}:
        return []
    numbers = [str(companion.pid) for companion in _companions(owner) if companion.pid in joined]
    if not numbers:
        return []
    return [f"when the recording ended, processes {', '.join(numbers)} still ran: what they did later is not recorded"]


@dataclass(frozen=True)
class Companion:
    """A running process that was started together with this one."""

    pid: int
    status: Status
    expected: bool
    """Whether it has the same session in its environment, and will join if it has just started."""


def _companions(owner: int) -> Iterator[Companion]:
    """Find them below the launcher; their own children do not count."""
    origin = Origin.of(owner)
    joined = {pid for _, pid, _, _ in _core.session_processes()}
    # Most programs are neither: then nobody has to look at each process of the machine.
    if origin is None or (origin.rank is None and joined <= {owner}):
        return
    launcher, own = origin.launcher[0], _words(owner)
    numbers = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()]
    running = {pid: status for pid in numbers if (status := Status.of(pid)) is not None}
    for pid, status in running.items():
        expected = origin.rank is not None and _words(pid) == own
        if pid == owner or not (expected or pid in joined):
            continue
        above = status.parent
        while above in running and above != launcher and above not in joined and _words(above) != own:
            above = running[above].parent
        if above == launcher:
            yield Companion(pid, status, expected)


def _has_left(companion: Companion) -> bool:
    ends = {pid: ended_ns for _, pid, _, ended_ns in _core.session_processes()}
    if companion.pid in ends:
        return ends[companion.pid] != 0
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - companion.status.started_ticks / os.sysconf("SC_CLK_TCK")
    return not companion.expected or age_s > START_S


def _words(pid: int) -> bytes:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""
