"""Follows a recording from outside, read-only: each read gives a snapshot of its figures, those of all hosts of a job.

The cost of a read is proportional to what was recorded since the last one. Nothing is written into the session, and
its lock is tried only once the recorder holds it: before that, the attempt could make the recorder fail.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter, deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tprof import _core
from tprof.errors import TraceError, UsageError
from tprof.trace.cluster import is_job, load_job
from tprof.trace.directory import HOSTS, LABELS, OURS
from tprof.trace.labels import read_labels
from tprof.trace.left_out import unread_sentences
from tprof.trace.manifest import END, MANIFEST, read_manifest
from tprof.trace.metadata import is_ns, sound_manifest
from tprof.trace.metric_names import ACCOUNTS
from tprof.trace.running import LIVE, is_running

from .meter import Meter
from .snapshot import (
    AccountFigures,
    DomainFigures,
    HostFigures,
    Snapshot,
    State,
    TaskFigures,
    ThreadFigures,
    join_hosts,
    sum_known,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .meter import Energy
    from .threads import FollowedThread

BEGUN_S = 5.0
"""A manifest this old without the begin of a block is of a recorder that writes none."""
SLICE_NS = 1_000_000_000
"""Of the recording, a step: about as much is new at each read."""
HISTORY = 240
LEAST_NS = 50_000_000
"""Of a recording that ended, or of the time since the read before, for a rate."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROC = Path("/proc")


class FollowedSession:
    """A session whose block has begun."""

    def __init__(self, path: Path, name: str | None) -> None:
        """Begin at its start, under this name or that of its host. Raises TraceError."""
        self._path = path
        manifest, _ = sound_manifest(read_manifest(path))
        self.name = name or str(manifest.get("host", {}).get("hostname") or "this host")
        boot_id = manifest.get("boot_id")
        self._unread = tuple(unread_sentences(manifest))
        self._is_here = boot_id is None or boot_id == _BOOT.read_text(encoding="ascii").strip()
        self._state = self._find_state()
        self._meter = self._new_meter()
        self._is_caught_up = False
        self._rates: dict[tuple[str, object], tuple[int, float, float]] = {}
        self._history: dict[str, deque[float]] = {}
        self._labels: dict[int, str] = {}

    def read(self, deadline_s: float) -> Snapshot:
        """Read what is new until then, by time.monotonic(), and return all figures. Raises TraceError."""
        if self._state is State.RUNNING:
            self._state = self._find_state()
            if self._state is not State.RUNNING:
                self._meter, self._is_caught_up = self._new_meter(), False
        self._catch_up(deadline_s)
        energy, domains = self._meter.figures(), tuple(self._domains())
        host = self._host(energy, domains)
        return Snapshot(
            session=str(self._path),
            state=self._state,
            quality=energy.quality,
            is_final=self._state is not State.RUNNING and self._is_caught_up,
            energy_j=host.energy_j,
            power_w=host.power_w,
            hosts=(host,),
            domains=domains,
            tasks=tuple(self._tasks(energy)),
            accounts=tuple(self._accounts(energy)),
            threads=tuple(self._threads()) if self._state is State.RUNNING else (),
        )

    def _find_state(self) -> State:
        if (self._path / END).exists():
            return State.ENDED
        return State.RUNNING if is_running(self._path) or (self._path / END).exists() else State.KILLED

    def _new_meter(self) -> Meter:
        return Meter(
            self._path,
            has_clock=partial(records_into, session=self._path) if self._is_here else lambda _: False,
            is_over=self._state is not State.RUNNING,
        )

    def _catch_up(self, deadline_s: float) -> None:
        now_ns = _core.now_ns()
        more = True
        while more:
            more = self._meter.step(SLICE_NS)
            is_now = self._state is State.RUNNING and self._meter.until_ns >= now_ns
            if is_now or time.monotonic() >= deadline_s:  # after a step: else a slow machine would never get on
                break
        self._is_caught_up = not more or self._state is State.RUNNING

    def _rate(self, kind: str, key: object, value: float, t_ns: int | None = None) -> float:
        """Return the growth per second since the read before with an earlier time, NaN at the first.

        Of a recording that has ended, its mean.
        """
        if self._state is not State.RUNNING:
            length_ns = self._meter.until_ns - self._meter.start_ns
            return value / length_ns * 1e9 if length_ns >= LEAST_NS else math.nan
        t_ns = self._meter.until_ns if t_ns is None else t_ns
        before_ns, before, rate = self._rates.get((kind, key), (t_ns, value, math.nan))
        if t_ns - before_ns >= LEAST_NS:
            rate = (value - before) / (t_ns - before_ns) * 1e9
            before_ns, before = t_ns, value
        self._rates[kind, key] = before_ns, before, rate
        return rate

    def _host(self, energy: Energy, domains: Sequence[DomainFigures]) -> HostFigures:
        meter = self._meter
        return HostFigures(
            name=self.name,
            state=self._state,
            quality=energy.quality,
            duration_s=max(meter.domains.last_ns or 0, meter.until_ns, meter.start_ns) * 1e-9 - meter.start_ns * 1e-9,
            known_s=energy.until_s,
            lag_s=meter.lag_s,
            energy_j=energy.measured_j,
            power_w=sum_known(domain.power_w for domain in domains if domain.counted),
            processes=_count(self._path / "tasks"),
            threads=meter.thread_count,
            unread=self._unread,
        )

    def _domains(self) -> Iterator[DomainFigures]:
        for one in self._meter.domains.shown:
            energy_j = one.known_j - one.lead_in_j
            history = self._history.setdefault(one.name, deque(maxlen=HISTORY))
            is_running = self._state is State.RUNNING  # its joules before the block may just become known
            power_w = self._rate("domain", one.name, one.known_j if is_running else energy_j, one.last_ns or 0)
            if is_running and not math.isnan(power_w):
                history.append(power_w)
            yield DomainFigures(self.name, one.name, one.quality, one.counted, energy_j, power_w, tuple(history))

    def _tasks(self, energy: Energy) -> list[TaskFigures]:
        names = (self._name_of(thread.running.task) for thread in self._meter.threads if thread.running)
        running = Counter(name for name in names if name is not None)
        has_energy = energy.quality != "none"
        budgets_j = {one.name: one.budget_j for one in self._meter.table.entries if one.budget_j is not None}
        return [
            TaskFigures(
                name=name,
                energy_j=task.energy_j if has_energy else math.nan,
                power_w=self._rate("task", name, task.energy_j) if has_energy else math.nan,
                instances=task.instances,
                instances_per_s=self._rate("instances", name, task.instances),
                threads=running[name] if self._state is State.RUNNING else 0,
                budget_j=budgets_j.get(name),
            )
            for name, task in energy.tasks.items()
        ]

    def _accounts(self, energy: Energy) -> list[AccountFigures]:
        joules = (
            energy.tasks_j, energy.runtime_j, energy.other_j, energy.idle_j, energy.spin_j, energy.unidentified_j,
        )  # fmt: skip
        return [
            AccountFigures(name, energy_j, self._rate("account", name, energy_j))
            for name, energy_j in zip(ACCOUNTS, joules, strict=True)
        ]

    def _threads(self) -> list[ThreadFigures]:
        found = [one for thread in self._meter.threads if (one := self._thread(thread)) is not None]
        there = {thread.ordinal for thread in self._meter.threads}
        self._rates = {key: one for key, one in self._rates.items() if key[0] != "cpu" or key[1] in there}
        return found

    def _thread(self, thread: FollowedThread) -> ThreadFigures | None:
        now = thread.running
        if now is None or (self._is_here and not _is_there(thread)):
            return None
        return ThreadFigures(
            host=self.name,
            process=thread.process,
            pid=thread.pid,
            tid=thread.tid,
            name=thread.name,
            labels=self._labels_of(thread.process),
            task=self._name_of(now.task),
            running_s=max(now.t_ns - now.since_ns, 0) * 1e-9,
            busy=self._rate("cpu", thread.ordinal, now.cpu_s, now.t_ns),
        )

    def _name_of(self, task: int | None) -> str | None:
        return None if task is None else self._meter.table.entries[task].name

    def _labels_of(self, process: int) -> str:
        if process not in self._labels:
            try:
                labels = read_labels(self._path / LABELS / f"{process:08d}.jsonl")
            except TraceError:
                return ""  # it may get labels later
            self._labels[process] = " ".join(f"{name}={value}" for name, value in labels.items())
        return self._labels[process]


def _count(directory: Path) -> int:
    try:
        return sum(1 for _ in directory.iterdir())
    except OSError:
        return 0


def _is_there(thread: FollowedThread) -> bool:
    """Return whether a thread is in /proc; where its process is, but under another number, it counts as there."""
    return os.path.exists(f"/proc/{thread.pid}/task/{thread.tid}") or not os.path.exists(f"/proc/{thread.pid}")


class Watch:
    """A session, or all parts of a job; it may begin later than the watch."""

    def __init__(self, path: Path) -> None:
        """Watch a directory that need not exist yet."""
        self.path = path.absolute()
        self._parts: dict[str, FollowedSession] = {}
        self._is_job = False

    def read(self, most_s: float = math.inf) -> Snapshot:
        """Read what is new, for about so many seconds at most. Raises TraceError if it is no session, or is gone."""
        try:
            self._find_parts()
        except OSError as error:
            raise TraceError(f"cannot read {error.filename or self.path}: {(error.strerror or '').lower()}") from error
        deadline_s = time.monotonic() + most_s
        parts = [followed.read(deadline_s) for followed in self._parts.values()]
        if parts:
            return join_hosts(str(self.path), parts)
        return waiting_for(str(self.path))

    def _find_parts(self) -> None:
        if self._parts and not self._is_job:
            return
        if not self.path.is_dir():
            if self.path.exists():
                raise TraceError(f"{self.path} is a file: give the directory of a session, or a process number")
            return
        self._is_job = is_job(self.path)
        if not self._is_job and not (self.path / MANIFEST).exists():
            _refuse_other(self.path)
        for name, path in self._places():
            if name not in self._parts and has_begun(path):
                self._parts[name] = FollowedSession(path, name or None)

    def _places(self) -> list[tuple[str, Path]]:
        if not self._is_job:
            return [("", self.path)]
        try:
            hosts = load_job(self.path).hosts
        except TraceError:
            return []  # no host has begun yet
        return [(host.name, host.path) for host in hosts if host.path is not None]


class WatchedProcess:
    """What a process records, as soon as it does."""

    def __init__(self, pid: int) -> None:
        """Watch a process that may not record yet."""
        self._pid = pid
        self._watch: Watch | None = None

    def read(self, most_s: float = math.inf) -> Snapshot:
        """Read what is new, as `Watch.read`."""
        if self._watch is None:
            try:
                self._watch = Watch(session_of(self._pid))
            except UsageError:
                return waiting_for(f"process {self._pid}")
        return self._watch.read(most_s)


def waiting_for(session: str) -> Snapshot:
    """Return the snapshot of what has not begun."""
    return Snapshot(session, State.WAITING, "none", is_final=False, energy_j=math.nan, power_w=math.nan)


def has_begun(session: Path) -> bool:
    """Return whether the block of a session has begun."""
    if (session / END).exists():
        return True
    try:
        manifest, _ = sound_manifest(read_manifest(session))
        age_s = time.time() - (session / MANIFEST).stat().st_mtime
    except (TraceError, OSError):
        return False
    return is_ns(manifest.get("clock", {}).get("block_start_ns")) or age_s > BEGUN_S


def _refuse_other(directory: Path) -> None:
    """Raise TraceError if a directory without a manifest holds what no recorder puts there."""
    foreign = sorted({entry.name for entry in directory.iterdir()} - OURS)
    if foreign:
        raise TraceError(f"{directory} is no session (it holds {foreign[0]!r}): give one, or a process number")


def session_of(pid: int) -> Path:
    """Return the session, or the job, into which a process, one of its descendants or of its ancestors records.

    Raises
    ------
    UsageError
        If there is no such process or session, or the process belongs to another user.
    """
    if not (_PROC / str(pid)).exists():
        raise UsageError(f"there is no process {pid}: give the number of one that runs, or a session directory")
    parents = _parents()
    lines = {one: _lineage(one, parents) for one in parents}
    descendants = sorted((one for one in lines if pid in lines[one]), key=lambda one: lines[one].index(pid))
    for one in (*descendants, *_lineage(pid, parents)):
        with suppress(OSError):
            for session in _mapped(one):
                return _job_of(session)
    try:
        (_PROC / str(pid) / "maps").read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot see what process {pid} records: {error.strerror}; give the session directory, or be its user"
        ) from error
    raise UsageError(
        f"process {pid} and its children record no session of tprof: start it with tprof run, or give a directory"
    )


def running_sessions() -> list[Path]:
    """Return the sessions and jobs into which processes of this user record now."""
    found: dict[Path, None] = {}
    for pid in sorted(_parents()):
        with suppress(OSError):
            if (_PROC / str(pid)).stat().st_uid == os.geteuid():
                found |= dict.fromkeys(_job_of(session) for session in _mapped(pid))
    return list(found)


def records_into(pid: int, session: Path) -> bool:
    """Return whether the process with this number here is one that records into a session, not an unrelated one.

    A session of a container has the numbers that its processes have there.
    """
    try:
        page = (session / LIVE).stat()
        with (_PROC / str(pid) / "maps").open("rb") as maps:
            return any(line.split(maxsplit=5)[4] == str(page.st_ino).encode() for line in maps if _has_page(line))
    except OSError:
        return False


def _has_page(line: bytes) -> bool:
    return line.rstrip(b"\n").endswith(b"/" + LIVE.encode())


def _mapped(pid: int) -> Iterator[Path]:
    """Yield the sessions whose shared page a process has mapped. Raises OSError."""
    with (_PROC / str(pid) / "maps").open("rb") as maps:
        places = {os.fsdecode(line.split(maxsplit=5)[5].rstrip(b"\n")) for line in maps if _has_page(line)}
    for place in sorted(places):
        for session in (Path(place).parent, _PROC / str(pid) / "root" / Path(place).parent.relative_to("/")):
            if (session / MANIFEST).exists():
                yield session
                break


def _job_of(session: Path) -> Path:
    is_part = session.parent.name == HOSTS and not (session.parent.parent / MANIFEST).exists()
    return session.parent.parent if is_part else session


def _parents() -> dict[int, int]:
    """Return the parent of each process."""
    found: dict[int, int] = {}
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            with suppress(OSError):
                stat = Path(entry.path, "stat").read_text(errors="replace")
                found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def _lineage(pid: int, parents: dict[int, int]) -> list[int]:
    """Return a process and its ancestors, from it on."""
    found = [pid]
    while (parent := parents.get(found[-1], 0)) and parent not in found:
        found.append(parent)
    return found
