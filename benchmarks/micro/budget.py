"""How soon a budget acts and what watching it costs: the measurement behind `tprof bench budget`."""

from __future__ import annotations

import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.benchmarks.figures import Figure
from tprof.benchmarks.machine import describe_machine

import tprof

from .reaction import run_on_two_threads, run_short, time_estimate, time_step, time_tasks, turn
from .sensor_thread import cpu_time_ns, powercap_stand_in

if TYPE_CHECKING:
    import os

REACTION_MS = 50.0
SHARE, NEAR_SHARE = 0.01, 0.05
ENERGY_US = 0.2
"""Of `recording.energy()`, for an instance: about what recording one takes."""
INSTANCES = 100_000
THREAD_NAME = "tprof-budget"


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes
    ----------
    rounds : actions that are timed.
    watch_s, watch_rounds : how long the thread that watches is watched.
    """

    rounds: int = 40
    watch_s: float = 2.0
    watch_rounds: int = 5


FULL = Effort()
QUICK = Effort(rounds=1, watch_s=0.1, watch_rounds=1)


def measure(effort: Effort = FULL, *, directory: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Measure reaction and cost in one run; as `tprof.benchmarks.micro.overhead.measure`."""
    with tempfile.TemporaryDirectory(prefix="tprof-budget-", dir=directory) as name:
        place = Path(name)
        with powercap_stand_in(place / "root"):
            energy = place / "root/sys/class/powercap/intel-rapl:0/energy_uj"
            steps_ms = tuple(time_step(place, energy) for _ in range(effort.rounds))
        used_ms = tuple(time_estimate(place) for _ in range(effort.rounds))
        short_ms = tuple(time_tasks(place, run_short, tasks=None) for _ in range(effort.rounds))
        named_ms = tuple(time_tasks(place, run_short, tasks="turn") for _ in range(effort.rounds))
        locked_ms = tuple(time_tasks(place, run_on_two_threads, tasks=None) for _ in range(effort.rounds))
        energy_us = tuple(time_energy(place) for _ in range(effort.watch_rounds))
        far = tuple(watch(place, effort.watch_s, limit_j=1e9) for _ in range(effort.watch_rounds))
        near = tuple(watch(place, effort.watch_s, limit_j=1e-9) for _ in range(effort.watch_rounds))
    figures = [
        Figure(
            "from a step of the sensor to the action", steps_ms, "ms", REACTION_MS, "a file stands in for the register"
        ),
        Figure(
            "from the CPU time that is too much to the action, estimated",
            used_ms,
            "ms",
            REACTION_MS,
            "0: the estimate, made of ticks of 10 ms, was ahead",
        ),
        Figure("the same, tasks of 10 µs", short_ms, "ms", REACTION_MS),
        Figure("the same, tasks of 10 µs that the budget names", named_ms, "ms", REACTION_MS),
        Figure(
            "the same, Python code on two threads", locked_ms, "ms", REACTION_MS, "they share the interpreter's lock"
        ),
        Figure("recording.energy(), of an instance that does nothing", energy_us, "µs", ENERGY_US),
        Figure("the thread that watches, far from the limit", far, "core", SHARE),
        Figure("the thread that watches, where any joule may be too much", near, "core", NEAR_SHARE),
    ]
    return {
        "machine": describe_machine(),
        "effort": asdict(effort),
        "directory": str(Path(name).parent),
        "figures": [figure.as_plain() for figure in figures],
    }


def time_energy(place: Path) -> float:
    """Return microseconds of CPU time that `recording.energy()` takes for each instance that is new."""
    with tprof.record(place / "t.tprof", energy="estimate", counters="none", overwrite=True) as recording:
        recording.energy()
        for _ in range(INSTANCES):
            turn(0)
        time.sleep(0.04)  # until the estimate says what was drawn
        begin_s = time.thread_time()
        energy = recording.energy()
        used_s = time.thread_time() - begin_s
    return used_s / energy.tasks["turn"].instances * 1e6


def watch(place: Path, duration_s: float, *, limit_j: float) -> float:
    """Return the share of a core that the thread takes which watches a budget for a task that does not run."""
    with (
        warnings.catch_warnings(action="ignore", category=RuntimeWarning),  # that nobody runs is what is wanted
        tprof.record(place / "t.tprof", energy="estimate", counters="none", overwrite=True),
        tprof.budget(joules=limit_j, tasks="nobody"),
    ):
        time.sleep(duration_s / 2)  # what it may use ahead is used by then
        begin_s, begin_ns = time.perf_counter(), cpu_time_ns(THREAD_NAME)
        while time.perf_counter() - begin_s < duration_s:
            time.sleep(0.01)
        return (cpu_time_ns(THREAD_NAME) - begin_ns) * 1e-9 / (time.perf_counter() - begin_s)
