"""What is known of a recording at a moment: the figures that `tprof top` shows and that metrics are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tprof.trace.kinds import least_certain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


CAUGHT_UP_S = 2.0


def sum_known(values: Iterable[float]) -> float:
    """Return the sum of what is known, a whole number if all are; NaN if nothing is."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) if known else math.nan


class State(StrEnum):
    """State of a recording, as seen from outside."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class DomainFigures:
    """One sensor's domain.

    Attributes
    ----------
    host, name : of a job, names occur once a host
    quality : `measured`, `estimated`, `simulated` or `given`
    counted : whether it belongs in a total; one inside another domain does not
    energy_j : joules that the sensor gave in the recorded block
    power_w : since the snapshot before; NaN if that is not known. Of a recording that has ended, the mean
    history_w : the power of the last snapshots, the latest one last
    """

    host: str
    name: str
    quality: str
    counted: bool
    energy_j: float
    power_w: float
    history_w: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """One task, over all processes and hosts; nested tasks are left out of its energy.

    Attributes
    ----------
    energy_j, instances : so far; instances are those that have begun
    power_w, instances_per_s : since the snapshot before; NaN if not known. Of a recording that has ended, the mean
    threads : how many run it now
    budget_j : what each instance may use; None without a budget
    """

    name: str
    energy_j: float
    power_w: float
    instances: int
    instances_per_s: float
    threads: int
    budget_j: float | None


@dataclass(frozen=True, slots=True)
class AccountFigures:
    """Where a part of the joules went: `tasks`, `runtime`, `other`, `idle`, `spinning` or `unidentified`."""

    name: str
    energy_j: float
    power_w: float


@dataclass(frozen=True, slots=True)
class ThreadFigures:
    """A thread that ran tasks and has not ended.

    Attributes
    ----------
    process, labels : the ordinal of its process in the session, and the labels of that, such as a rank
    task : what it runs; None between tasks
    running_s : for how long without a break
    busy : CPU seconds per second since the snapshot before; NaN if not known
    """

    host: str
    process: int
    pid: int
    tid: int
    name: str
    labels: str
    task: str | None
    running_s: float
    busy: float


@dataclass(frozen=True, slots=True)
class HostFigures:
    """A host's part of a job, or the whole of another session.

    Attributes
    ----------
    quality : of the least certain domain; `none` without any
    duration_s : from the begin of the block to the end, or to `known_s` before now
    known_s : up to when joules are shared, from the begin of the block
    lag_s : how far that is behind what is written
    processes, threads : that recorded, those that have ended too
    unread : sentences on joules that are in no figure
    """

    name: str
    state: State
    quality: str
    duration_s: float
    known_s: float
    lag_s: float
    energy_j: float
    power_w: float
    processes: int
    threads: int
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of it.

    Attributes
    ----------
    session : its path
    state : that of the host that is furthest from its end
    quality : that of the least certain host; `none` without sensors
    is_final : whether nothing more will come, so that the figures are those of a profile by the model `cputime`
    energy_j, power_w : of all counted domains; NaN without any
    """

    session: str
    state: State
    quality: str
    is_final: bool
    energy_j: float
    power_w: float
    hosts: tuple[HostFigures, ...] = ()
    domains: tuple[DomainFigures, ...] = ()
    tasks: tuple[TaskFigures, ...] = ()
    accounts: tuple[AccountFigures, ...] = ()
    threads: tuple[ThreadFigures, ...] = ()

    @property
    def is_caught_up(self) -> bool:
        """Whether all is read that was written when the read began, to about a second."""
        return all(host.lag_s < CAUGHT_UP_S for host in self.hosts) and (self.is_final or not self._has_ended)

    @property
    def _has_ended(self) -> bool:
        return self.state in {State.ENDED, State.KILLED}

    @property
    def duration_s(self) -> float:
        """Of the host that recorded longest."""
        return max((host.duration_s for host in self.hosts), default=0.0)


class Part(NamedTuple):
    """The figures of one host, as those of a `Snapshot`."""

    host: HostFigures
    is_final: bool
    domains: Sequence[DomainFigures]
    tasks: Sequence[TaskFigures]
    accounts: Sequence[AccountFigures]
    threads: Sequence[ThreadFigures]


_FURTHEST = (State.RUNNING, State.KILLED, State.ENDED, State.WAITING)
_ADDED = ("energy_j", "power_w", "instances", "instances_per_s", "threads")
_Named = TypeVar("_Named", TaskFigures, AccountFigures)


def join_hosts(session: str, parts: Sequence[Part]) -> Snapshot:
    """Return the snapshot of the parts that have begun."""
    hosts = tuple(part.host for part in parts)
    states = {host.state for host in hosts} or {State.WAITING}
    return Snapshot(
        session=session,
        state=next(state for state in _FURTHEST if state in states),
        quality=least_certain({host.quality for host in hosts}),
        is_final=bool(parts) and all(part.is_final for part in parts),
        energy_j=sum_known(host.energy_j for host in hosts),
        power_w=sum_known(host.power_w for host in hosts),
        hosts=hosts,
        domains=tuple(domain for part in parts for domain in part.domains),
        tasks=_by_name(task for part in parts for task in part.tasks),
        accounts=_by_name(account for part in parts for account in part.accounts),
        threads=tuple(thread for part in parts for thread in part.threads),
    )


def _by_name(rows: Iterable[_Named]) -> tuple[_Named, ...]:
    """Return one row for each name, with the sums of what adds up."""
    found: dict[str, _Named] = {}
    for one in rows:
        before = found.setdefault(one.name, one)
        if before is not one:
            names = [name for name in _ADDED if hasattr(one, name)]
            sums: dict[str, Any] = {name: sum_known((getattr(before, name), getattr(one, name))) for name in names}
            if isinstance(one, TaskFigures) and isinstance(before, TaskFigures) and before.budget_j is None:
                sums["budget_j"] = one.budget_j
            found[one.name] = replace(before, **sums)
    return tuple(found.values())
