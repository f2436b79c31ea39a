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
    Part,
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
    from .threads import FollowedThread, Running

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
        self._rates: dict[tuple[str, object], tuple[int, float, float]] = {}
        self._history: dict[str, deque[float]] = {}
        self._labels: dict[int, str] = {}

    def read(self, deadline_s: float) -> Part:
        """Read what is new until then, by time.monotonic(), and return all figures. Raises TraceError."""
        if self._state is State.RUNNING:
            self._state = self._find_state()
            if self._state is not State.RUNNING:
                self._meter = self._new_meter()
        is_caught_up = self._catch_up(deadline_s)
        is_running, energy, domains = self._state is State.RUNNING, self._meter.figures(), list(self._domains())
        followed = self._meter.threads.followed if is_running else ()
        running = [(one, now) for one in followed if (now := one.running) is not None]
        return Part(
            self._host(energy, domains),
            is_final=not is_running and is_caught_up,
            domains=domains,
            tasks=list(self._tasks(energy, Counter(self._name_of(now.task) for _, now in running))),
            accounts=list(self._accounts(energy)),
            threads=list(self._threads(running)),
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

    def _catch_up(self, deadline_s: float) -> bool:
        """Read until then; returns whether all was read that is there."""
        now_ns = _core.now_ns()
        while self._meter.step(SLICE_NS):
            is_now = self._state is State.RUNNING and self._meter.until_ns >= now_ns
            if is_now or time.monotonic() >= deadline_s:  # after a step: else a slow machine would never get on
                return False
        return True

    def _rate(self, key: tuple[str, object], value: float, t_ns: int | None = None) -> float:
        """Return the growth per second since the read before with an earlier time, NaN at the first.

        Of a recording that has ended, its mean.
        """
        if self._state is not State.RUNNING:
            length_ns = self._meter.until_ns - self._meter.start_ns
            return value / length_ns * 1e9 if length_ns >= LEAST_NS else math.nan
        t_ns = self._meter.until_ns if t_ns is None else t_ns
        before_ns, before, rate = self._rates.get(key, (t_ns, value, math.nan))
        if t_ns - before_ns >= LEAST_NS:
            rate = (value - before) / (t_ns - before_ns) * 1e9
            before_ns, before = t_ns, value
        self._rates[key] = before_ns, before, rate
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
            threads=meter.threads.count,
            unread=self._unread,
        )

    def _domains(self) -> Iterator[DomainFigures]:
        for one in self._meter.domains.shown:
            energy_j = one.known_j - one.lead_in_j
            history = self._history.setdefault(one.name, deque(maxlen=HISTORY))
            is_running = self._state is State.RUNNING  # its joules before the block may just become known
            power_w = self._rate(("domain", one.name), one.known_j if is_running else energy_j, one.last_ns or 0)
            if is_running and not math.isnan(power_w):
                history.append(power_w)
            yield DomainFigures(self.name, one.name, one.quality, one.counted, energy_j, power_w, tuple(history))

    def _tasks(self, energy: Energy, threads: Counter[str | None]) -> Iterator[TaskFigures]:
        budgets_j = {one.name: one.budget_j for one in self._meter.table.entries if one.budget_j is not None}
        for name, task in energy.tasks.items():
            energy_j = task.energy_j if energy.quality != "none" else math.nan
            power_w, per_s = self._rate(("task", name), energy_j), self._rate(("instances", name), task.instances)
            yield TaskFigures(name, energy_j, power_w, task.instances, per_s, threads[name], budgets_j.get(name))

    def _accounts(self, energy: Energy) -> Iterator[AccountFigures]:
        joules = (
            energy.tasks_j, energy.runtime_j, energy.other_j, energy.idle_j, energy.spin_j, energy.unidentified_j,
        )  # fmt: skip
        for name, energy_j in zip(ACCOUNTS, joules, strict=True):
            yield AccountFigures(name, energy_j, self._rate(("account", name), energy_j))

    def _threads(self, running: list[tuple[FollowedThread, Running]]) -> Iterator[ThreadFigures]:
        labels = {process: self._labels_of(process) for process in {one.thread.process for one, _ in running}}
        for one, now in running:
            thread = one.thread
            # Where its process is, but under another number, it counts as there.
            if one.is_there or not os.path.exists(f"/proc/{thread.pid}"):
                yield ThreadFigures(
                    host=self.name,
                    process=thread.process,
                    pid=thread.pid,
                    tid=thread.tid,
                    name=thread.name,
                    labels=labels[thread.process],
                    task=self._name_of(now.task),
                    running_s=max(now.t_ns - now.since_ns, 0) * 1e-9,
                    busy=self._rate(("cpu", thread.ordinal), now.cpu_s, now.t_ns),
                )
        there = {one.thread.ordinal for one, _ in running}
        self._rates = {key: one for key, one in self._rates.items() if key[0] != "cpu" or key[1] in there}

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
        return join_hosts(str(self.path), [followed.read(deadline_s) for followed in self._parts.values()])

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
                return join_hosts(f"process {self._pid}", [])
        return self._watch.read(most_s)


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
    parents, near = _parents(), [pid]
    for one in near:  # the nearest of its descendants first
        near += [child for child, parent in parents.items() if parent == one and child not in near]
    ancestor = pid
    while (ancestor := parents.get(ancestor, 0)) and ancestor not in near:
        near.append(ancestor)
    for one in near:
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
        inode = (session / LIVE).stat().st_ino
        return any(page == inode for page, _ in _pages(pid))
    except OSError:
        return False


def _pages(pid: int) -> Iterator[tuple[int, Path]]:
    """Yield the inodes and paths of the pages of sessions that a process has mapped. Raises OSError."""
    for line in (_PROC / str(pid) / "maps").read_bytes().splitlines():
        if line.endswith(b"/" + LIVE.encode()):
            *_, inode, path = line.split(maxsplit=5)
            yield int(inode), Path(os.fsdecode(path))


def _mapped(pid: int) -> Iterator[Path]:
    """Yield the sessions whose shared page a process has mapped. Raises OSError."""
    for page in sorted({path for _, path in _pages(pid)}):
        for session in (page.parent, _PROC / str(pid) / "root" / page.parent.relative_to("/")):
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
