"""Joins the figures of a job's hosts into one snapshot: tasks by name, accounts by kind, the rest side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.trace.kinds import least_certain
from tprof.trace.metric_names import ACCOUNTS

from .snapshot import AccountFigures, Snapshot, State, TaskFigures, sum_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .followed_session import Part

_FURTHEST = (State.RUNNING, State.KILLED, State.ENDED)


def join_hosts(session: str, parts: Sequence[Part]) -> Snapshot:
    """Return the snapshot of parts that have begun, at least one."""
    hosts = [part.host for part in parts]
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
        tasks=parts[0].tasks if len(parts) == 1 else _tasks(parts),
        accounts=parts[0].accounts if len(parts) == 1 else _accounts(parts),
        threads=tuple(thread for part in parts for thread in part.threads),
    )


def _tasks(parts: Sequence[Part]) -> tuple[TaskFigures, ...]:
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


def _accounts(parts: Sequence[Part]) -> tuple[AccountFigures, ...]:
    by_name = {name: [one for part in parts for one in part.accounts if one.name == name] for name in ACCOUNTS}
    return tuple(
        AccountFigures(name, sum_known(one.energy_j for one in ones), sum_known(one.power_w for one in ones))
        for name, ones in by_name.items()
    )
