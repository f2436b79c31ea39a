"""What a task runtime came to, in a few lines for a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WAITED = ("running", "data", "worker", "spawning", "paused")
SERVED = ("running", "starved", "overhead", "suspended")


def runtime_lines(facts: Mapping[str, float | int] | None, label: str) -> list[str]:
    """Say what a task runtime came to, joules with the label of their quality; nothing without one."""
    if facts is None:
        return []
    lines = [_chain(facts, label), _run(facts)]
    if facts["workers"]:
        lines.append(_workers(facts))
    if facts["contradicting"]:
        lines.append(f"{facts['contradicting']} dependences or spawns contradict the recorded times, and are left out")
    return lines


def _chain(facts: Mapping[str, float | int], label: str) -> str:
    from .tables import percent, quantity

    length = f"{quantity(facts['span_s'], 's')} of {quantity(facts['makespan_s'], 's')} ({percent(facts['share'])})"
    kept_busy = "" if math.isnan(facts["parallelism"]) else f"; average parallelism {facts['parallelism']:.1f}"
    return f"Longest chain of tasks: {length}, {quantity(facts['path_j'], 'J')}{label}{kept_busy}"


def _run(facts: Mapping[str, float | int]) -> str:
    part = {name: _share(facts[f"run_{name}_s"], facts["makespan_s"]) for name in WAITED}
    return (
        f"The run waited for tasks to run {part['running']}, for data {part['data']}, for a worker {part['worker']}, "
        f"for the program to spawn {part['spawning']}, paused {part['paused']}"
    )


def _workers(facts: Mapping[str, float | int]) -> str:
    part = {name: _share(facts[f"{name}_s"], facts["served_s"]) for name in SERVED}
    return (
        f"{facts['workers']} workers: running {part['running']}, starved (nothing was ready) {part['starved']}, idle "
        f"though something was ready {part['overhead']}, suspended {part['suspended']}; {facts['steals']} steals"
    )


def _share(part_s: float, of_s: float) -> str:
    from .tables import percent

    return percent(part_s / of_s if of_s > 0 else math.nan)
