"""One host's session, followed from outside: its joules, domains, tasks and threads since the read before."""

from __future__ import annotations

import math
import os
import time
from collections import Counter, deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tprof import _core
from tprof.errors import TraceError
from tprof.trace.directory import LABELS
from tprof.trace.labels import read_labels
from tprof.trace.left_out import unread_sentences
from tprof.trace.manifest import END, read_manifest
from tprof.trace.metadata import sound_manifest
from tprof.trace.metric_names import ACCOUNTS
from tprof.trace.running import is_running

from .meter import Meter
from .processes import records_into
from .snapshot import AccountFigures, DomainFigures, HostFigures, State, TaskFigures, ThreadFigures, sum_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .blocks import FollowedThread
    from .energy import Energy

SLICE_NS = 1_000_000_000
"""Of the recording, a step: about as much is new at each read."""
HISTORY = 240
LEAST_NS = 50_000_000
"""Of a recording that ended, or of the time since the read before, for a rate."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Part:
    """The figures of one host, as in `Snapshot`."""

    host: HostFigures
    is_final: bool
    domains: tuple[DomainFigures, ...]
    tasks: tuple[TaskFigures, ...]
    accounts: tuple[AccountFigures, ...]
    threads: tuple[ThreadFigures, ...]


class Rates:
    """Growth per second of values between two reads."""

    def __init__(self) -> None:
        """Begin without values."""
        self._last: dict[tuple[str, object], tuple[int, float]] = {}
        self._rate: dict[tuple[str, object], float] = {}

    def of(self, kind: str, key: object, t_ns: int, value: float) -> float:
        """Return the growth since the last read with another time; NaN at the first one."""
        name = (kind, key)
        before_ns, before = self._last.get(name, (t_ns, value))
        if t_ns - before_ns >= LEAST_NS:
            self._rate[name] = (value - before) / (t_ns - before_ns) * 1e9
            self._last[name] = t_ns, value
        elif name not in self._last:
            self._last[name] = t_ns, value
        return self._rate.get(name, math.nan)

    def keep(self, kind: str, keys: set[object]) -> None:
        """Forget what is gone."""
        for name in [name for name in self._last if name[0] == kind and name[1] not in keys]:
            del self._last[name]
            self._rate.pop(name, None)


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
        self._rates = Rates()
        self._history: dict[str, deque[float]] = {}
        self._labels: dict[int, str] = {}

    def read(self, deadline_s: float) -> Part:
        """Read what is new until then, by time.monotonic(), and return all figures. Raises TraceError."""
        if self._state is State.RUNNING:
            self._state = self._find_state()
            if self._state is not State.RUNNING:
                self._meter, self._is_caught_up = self._new_meter(), False
        self._catch_up(deadline_s)
        energy, domains = self._meter.figures(), tuple(self._domains())
        return Part(
            host=self._host(energy, domains),
            is_final=self._state is not State.RUNNING and self._is_caught_up,
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

    @property
    def _until_ns(self) -> int:
        return self._meter.until_ns

    def _rate(self, kind: str, key: object, value: float, t_ns: int | None = None) -> float:
        """Return the growth per second now; of a recording that has ended, its mean."""
        if self._state is State.RUNNING:
            return self._rates.of(kind, key, self._until_ns if t_ns is None else t_ns, value)
        length_ns = self._until_ns - self._meter.start_ns
        return value / length_ns * 1e9 if length_ns >= LEAST_NS else math.nan

    def _host(self, energy: Energy, domains: Sequence[DomainFigures]) -> HostFigures:
        last_ns = self._meter.readings.last_ns
        return HostFigures(
            name=self.name,
            state=self._state,
            quality=energy.quality,
            duration_s=max(last_ns or 0, self._until_ns, self._meter.start_ns) * 1e-9 - self._meter.start_ns * 1e-9,
            known_s=energy.until_s,
            lag_s=0.0 if last_ns is None else max(last_ns - self._until_ns, 0) * 1e-9,
            energy_j=energy.measured_j,
            power_w=sum_known(domain.power_w for domain in domains if domain.counted),
            processes=_count(self._path / "tasks"),
            threads=self._meter.thread_count,
            unread=self._unread,
        )

    def _domains(self) -> list[DomainFigures]:
        found = []
        for shown in self._meter.readings.shown:
            quanta = shown.quanta
            energy_j = quanta.known_j - quanta.lead_in_j
            power_w = self._rate("domain", shown.name, quanta.known_j, quanta.last_ns or 0)
            if self._state is not State.RUNNING:
                power_w = self._rate("", "", energy_j)
            history = self._history.setdefault(shown.name, deque(maxlen=HISTORY))
            if self._state is State.RUNNING and not math.isnan(power_w):
                history.append(power_w)
            found.append(
                DomainFigures(self.name, shown.name, shown.quality, shown.counted, energy_j, power_w, tuple(history))
            )
        return found

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
        self._rates.keep("cpu", {thread.ordinal for thread in self._meter.threads})
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
            busy=self._rates.of("cpu", thread.ordinal, now.t_ns, now.cpu_s),
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
