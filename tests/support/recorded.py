"""Record a piece of code and say in words what the trace holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tprof

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS = {1: "start", 2: "finish", 3: "suspend", 4: "resume", 5: "close", 6: "join"}
FAILED = 1
JOIN = 6


def record(path: Path, body: Callable[[], object], *, counters: str = "none") -> tprof.Trace:
    """Record the body with the estimate as its sensor and load the trace."""
    with tprof.record(path, energy="estimate", counters=counters):
        body()
    return tprof.load(path)


def story(trace: tprof.Trace, thread: int = 0) -> list[tuple[str, str | None]]:
    """Tell a thread's samples, without its joining, as (what happened, name of the task that runs from then on)."""
    samples = trace.threads[thread].read()
    samples = samples[samples["kind"] != JOIN]
    return [
        (KINDS[int(sample["kind"])], trace.tasks[sample["task"]].name if sample["instance"] else None)
        for sample in samples
    ]


def instances(trace: tprof.Trace) -> dict[str, int]:
    """Count the instances of each task in all threads."""
    counts: dict[str, int] = {}
    for thread in trace.threads:
        samples = thread.read()
        for task in samples["task"][samples["kind"] == 1]:
            name = trace.tasks[task].name
            counts[name] = counts.get(name, 0) + 1
    return counts


def failures(trace: tprof.Trace) -> int:
    """Count the instances that ended in an exception."""
    return sum(int(((thread.read()["flags"] & FAILED) != 0).sum()) for thread in trace.threads)
