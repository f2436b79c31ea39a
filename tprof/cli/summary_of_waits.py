"""The part of a summary on what a run waited for: its longest chain of tasks, and a runtime's workers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tprof.trace.plain_values import counted

from .render import clean, percent, quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tprof.analysis import Profile
    from tprof.analysis.profile.task_graph import CriticalPath

WAITED = {
    "running": "tasks ran",
    "data": "a task waited for data",
    "transfer": "a task waited for data of another host",
    "worker": "a task waited for a worker",
    "spawning": "the program had not spawned the next task",
    "paused": "it was paused",
}
MOST_HOSTS = 8
SERVED = ("running", "starved", "overhead", "suspended")


def waits_as_plain(profile: Profile) -> dict[str, Any]:
    """Return the tables of a task runtime, or the path of an engine's tasks; nothing without them."""
    if profile.runtime is not None:
        return _runtime_as_plain(profile)
    return _path_as_plain(profile.critical_path()) if _has_path(profile) else {}


def _has_path(profile: Profile) -> bool:
    """Return whether there is a path to show, for which no part of a job has to be read again."""
    return profile.has_graph and (profile.job is None or profile.job.has_path)


def _path_as_plain(path: CriticalPath) -> dict[str, Any]:
    """Return the figures of a critical path, and its longest chain by task and host."""
    names = [name for name in ("host", "task") if name in path.chain]
    rows = path.sums(*names).reset_index().to_dict("records")
    return {"critical_path": path.facts() | {"chain": rows}}


def _runtime_as_plain(profile: Profile) -> dict[str, Any]:
    tables = {"waits": profile.waits().reset_index(), "workers": profile.starvation}
    rows = {name: table.to_dict("records") for name, table in tables.items()}
    return {"runtime": profile.runtime, **rows}


def waits_lines(profile: Profile, label: str) -> list[str]:
    """Return the figures of a task runtime, or of the longest chain of an engine's tasks; no lines without them."""
    if profile.runtime is None:
        return _path_lines(profile.critical_path()) if _has_path(profile) else []
    lines = _chain_lines(profile.runtime, label)
    return [*lines[:2], *([_workers(profile.runtime)] if profile.runtime["workers"] else []), *lines[2:]]


def _path_lines(path: CriticalPath) -> list[str]:
    """Return the longest chain, and how much of it each host has if there are several."""
    lines = _chain_lines(path.facts(), f" ({path.quality})")
    if "host" not in path.chain or path.chain["host"].nunique() < 2:
        return lines
    by_host: dict[Any, Any] = path.sums("host").head(MOST_HOSTS).to_dict("index")
    parts = [
        f"{clean(host)} {quantity(row['path_s'], 's')}, {quantity(row['energy_j'], 'J')}"
        for host, row in by_host.items()
    ]
    changes = "once" if path.host_changes == 1 else f"{path.host_changes:,} times"
    return [lines[0], f"By host: {'; '.join(parts)}; the chain changes hosts {changes}", *lines[1:]]


def _chain_lines(facts: Mapping[str, float | int], label: str) -> list[str]:
    """Return the longest chain of tasks, joules with the label of their quality, and what the run waited for."""
    lines = [_chain(facts, label), _waits(facts)]
    if facts["contradicting"]:
        lines.append(
            f"{facts['contradicting']:,} dependences or spawns contradict the recorded times, and are left out"
        )
    return lines


def _chain(facts: Mapping[str, float | int], label: str) -> str:
    length = f"{quantity(facts['span_s'], 's')} of {quantity(facts['makespan_s'], 's')} ({percent(facts['share'])})"
    kept_busy = (
        ""
        if math.isnan(facts["parallelism"])
        else f"; the dependences allow {facts['parallelism']:.1f} workers at once"
    )
    return f"Longest chain of tasks: {length}, {quantity(facts['path_j'], 'J')}{label}{kept_busy}"


def _waits(facts: Mapping[str, float | int]) -> str:
    named = [(phrase, facts.get(f"run_{part}_s")) for part, phrase in WAITED.items()]
    shares = [f"{_part_of(part_s, facts['makespan_s'])} {phrase}" for phrase, part_s in named if part_s]
    return f"What held up the end of the run, by parts of its time: {', '.join(shares) or 'nothing'}"


def _workers(facts: Mapping[str, float | int]) -> str:
    part = {name: _part_of(facts[f"{name}_s"], facts["served_s"]) for name in SERVED}
    return (
        f"{counted(int(facts['workers']), 'worker')}: running {part['running']}, starved (nothing was ready) "
        f"{part['starved']}, idle "
        f"though something was ready {part['overhead']}, suspended {part['suspended']}; {facts['steals']:,} steals"
    )


def _part_of(part_s: float, of_s: float) -> str:
    return percent(part_s / of_s if of_s > 0 else math.nan)
