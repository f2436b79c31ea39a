"""What is known of a recording at a moment: the figures that `tprof top` shows and that metrics are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tprof.trace.kinds import least_certain
from tprof.trace.metric_names import ACCOUNTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


CAUGHT_UP_S = 2.0


def sum_known(values: Iterable[float]) -> float:
    """Return the sum of what is known; NaN if nothing is."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) if known else math.nan


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


_FURTHEST = (State.RUNNING, State.KILLED, State.ENDED)


def join_hosts(session: str, parts: Sequence[Snapshot]) -> Snapshot:
    """Return the snapshot of parts that have begun, at least one."""
    hosts = [host for part in parts for host in part.hosts]
    states = {host.state for host in hosts}
    return Snapshot(
        session=session,
        state=next(state for state in _FURTHEST if state in states),
        quality=least_certain({host.quality for host in hosts}),
        is_final=all(part.is_final for part in parts),
        energy_j=sum_known(host.energy_j for host in hosts),
        power_w=sum_known(host.power_w for host in hosts),
        hosts=tuple(hosts),
        domains=tuple(domain for part in parts for domain in part.domains),
        tasks=_tasks(parts),
        accounts=_accounts(parts),
        threads=tuple(thread for part in parts for thread in part.threads),
    )


def _tasks(parts: Sequence[Snapshot]) -> tuple[TaskFigures, ...]:
    by_name: dict[str, list[TaskFigures]] = {}
    for part in parts:
        for task in part.tasks:
            by_name.setdefault(task.name, []).append(task)
    return tuple(
        TaskFigures(
            name=name,
            energy_j=sum_known(one.energy_j for one in tasks),
            power_w=sum_known(one.power_w for one in tasks),
            instances=sum(one.instances for one in tasks),
            instances_per_s=sum_known(one.instances_per_s for one in tasks),
            threads=sum(one.threads for one in tasks),
            budget_j=next((one.budget_j for one in tasks if one.budget_j is not None), None),
        )
        for name, tasks in by_name.items()
    )


def _accounts(parts: Sequence[Snapshot]) -> tuple[AccountFigures, ...]:
    by_name = {name: [one for part in parts for one in part.accounts if one.name == name] for name in ACCOUNTS}
    return tuple(
        AccountFigures(name, sum_known(one.energy_j for one in ones), sum_known(one.power_w for one in ones))
        for name, ones in by_name.items()
    )
