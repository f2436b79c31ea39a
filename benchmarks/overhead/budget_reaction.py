"""How soon a budget acts and what watching it costs: the measurement behind `scripts/bench budget`.

Actions are timed against the moment from which they were due.
"""

from __future__ import annotations

import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.benchmarks.measured_figures import Figure, result_of

import tprof
from tprof.errors import TprofError

from .sensor_thread_cost import cpu_time_ns, powercap_stand_in

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator


REACTION_MS = 50.0
SHARE, NEAR_SHARE = 0.01, 0.05
ENERGY_US = 0.2
"""Of `recording.energy()`, for an instance: about what recording one takes."""
INSTANCES = 100_000
THREAD_NAME = "tprof-budget"
STEP_J, LIMIT_J = 40.0, 1.0
"""A step of which even a small part is too much, if other programs keep the machine busy."""
STEP_AGAIN_S = 1.0
"""Others may keep the thread from its core just when the counter steps: that step is theirs, and another follows."""
DEADLINE_S = 120
BUSY_W = 6.0
TASK_S = 0.02


@dataclass(frozen=True)
class Extent:
    """How much is measured.

    Attributes
    ----------
    rounds : actions that are timed.
    watch_s, watch_rounds : how long the monitor thread is measured.
    """

    rounds: int = 40
    watch_s: float = 2.0
    watch_rounds: int = 5


FULL = Extent()
QUICK = Extent(rounds=1, watch_s=0.1, watch_rounds=1)


def measure(extent: Extent = FULL, *, directory: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Measure reaction and cost in one run; as `benchmarks.overhead.recording_cost.measure`."""
    with tempfile.TemporaryDirectory(prefix="tprof-budget-", dir=directory) as name:
        place = Path(name)
        with powercap_stand_in(place / "root"):
            energy = place / "root/sys/class/powercap/intel-rapl:0/energy_uj"
            steps_ms = tuple(time_step(place, energy) for _ in range(extent.rounds))
        used_ms = tuple(time_estimate(place) for _ in range(extent.rounds))
        short_ms = tuple(time_tasks(place, run_short, tasks=None) for _ in range(extent.rounds))
        named_ms = tuple(time_tasks(place, run_short, tasks="turn") for _ in range(extent.rounds))
        locked_ms = tuple(time_tasks(place, run_on_two_threads, tasks=None) for _ in range(extent.rounds))
        energy_us = tuple(time_energy(place) for _ in range(extent.watch_rounds))
        far = tuple(watch(place, extent.watch_s, limit_j=1e9) for _ in range(extent.watch_rounds))
        near = tuple(watch(place, extent.watch_s, limit_j=1e-9) for _ in range(extent.watch_rounds))
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
    return result_of(extent, figures, directory=str(Path(name).parent))


def time_energy(place: Path) -> float:
    """Return microseconds of CPU time that `recording.energy()` takes for each instance that is new."""
    with tprof.record(place / "t.tprof", energy="estimate", counters="none", overwrite=True) as recording:
        recording.energy()
        for _ in range(INSTANCES):
            turn(0)
        time.sleep(0.04)  # until the estimate includes what was drawn
        begin_s = time.thread_time()
        energy = recording.energy()
        used_s = time.thread_time() - begin_s
    return used_s / energy.tasks["turn"].instances * 1e6


def watch(place: Path, duration_s: float, *, limit_j: float) -> float:
    """Return the share of a core that the monitor thread takes for a budget of a task that does not run."""
    with (
        warnings.catch_warnings(action="ignore", category=RuntimeWarning),  # no task of that name is intended
        tprof.record(place / "t.tprof", energy="estimate", counters="none", overwrite=True),
        tprof.budget(joules=limit_j, tasks="nobody"),
    ):
        time.sleep(duration_s / 2)  # what it may use ahead is used by then
        begin_s, begin_ns = time.perf_counter(), cpu_time_ns(THREAD_NAME)
        while time.perf_counter() - begin_s < duration_s:
            time.sleep(0.01)
        return (cpu_time_ns(THREAD_NAME) - begin_ns) * 1e-9 / (time.perf_counter() - begin_s)


class Crossing:
    """Notes when this process has used so much CPU time; the threads that use it poll, so none waits for a lock."""

    def __init__(self, done: threading.Event, cpu_s: float) -> None:
        """Begin now; `done` is set once the budget has acted."""
        self._done = done
        self._end_s = time.process_time() + cpu_s
        self.at_s: float | None = None

    def goes_on(self) -> bool:
        """Poll; returns whether the budget has still to act."""
        if self.at_s is None and time.process_time() >= self._end_s:
            self.at_s = time.perf_counter()
        return not self._done.is_set()


@tprof.task
def spin_until(done: threading.Event, crossed_s: list[float], cpu_s: float) -> None:
    """Run until the event, and note when the thread had used so much CPU time."""
    end_s = time.thread_time() + cpu_s
    while not done.is_set():
        if not crossed_s and time.thread_time() >= end_s:
            crossed_s.append(time.perf_counter())


@tprof.task
def turn(rounds: int) -> None:
    """Run for about 10 µs with 1200 rounds."""
    for _ in range(rounds):
        pass


@tprof.task
def turn_for(duration_s: float, crossing: Crossing) -> None:
    """Run Python code."""
    end_s = time.perf_counter() + duration_s
    while time.perf_counter() < end_s and crossing.goes_on():
        pass


def time_step(place: Path, energy: Path) -> float:
    """Return milliseconds from a step of the counter that exceeds a budget to the warning."""
    with tprof.record(place / "t.tprof", energy="powercap", counters="none", idle_s=0, overwrite=True):
        done, crossed_s = threading.Event(), [0.0]
        with caught_warning(done) as warned_s, tprof.budget(joules=LIMIT_J):
            thread = threading.Thread(target=spin_until, args=(done, crossed_s, 0.0))
            thread.start()
            time.sleep(0.1)
            while not done.is_set():
                before_uj = int(energy.read_text(encoding="ascii"))
                with energy.open("r+", encoding="ascii") as file:
                    crossed_s[0] = time.perf_counter()
                    file.write(f"{before_uj + round(STEP_J * 1e6)}\n")
                done.wait(STEP_AGAIN_S)
            thread.join()
    return (warned_s[0] - crossed_s[0]) * 1e3


def time_estimate(place: Path) -> float:
    """Return milliseconds from when a thread has used a budget's worth of CPU time to the warning."""
    recording = tprof.record(place / "t.tprof", energy="estimate", watts=(0.0, BUSY_W), counters="none", overwrite=True)
    with recording:
        done, crossed_s = threading.Event(), list[float]()
        with caught_warning(done) as warned_s, tprof.budget(joules=LIMIT_J, tasks="spin_until"):
            spin_until(done, crossed_s, LIMIT_J / BUSY_W)
    return (warned_s[0] - (crossed_s or warned_s)[0]) * 1e3


def time_tasks(place: Path, run: Callable[[Crossing], None], *, tasks: str | None) -> float:
    """Return milliseconds from when this process has used a budget's worth of CPU time to the warning; 0: before."""
    recording = tprof.record(place / "t.tprof", energy="estimate", watts=(0.0, BUSY_W), counters="none", overwrite=True)
    with recording:
        done = threading.Event()
        with caught_warning(done) as warned_s, tprof.budget(joules=LIMIT_J, tasks=tasks):
            crossing = Crossing(done, LIMIT_J / BUSY_W)
            run(crossing)
    return max(warned_s[0] - (crossing.at_s or warned_s[0]), 0.0) * 1e3


def run_short(crossing: Crossing) -> None:
    """Run tasks of about 10 µs until the budget acts."""
    while crossing.goes_on():
        for _ in range(10):
            turn(1200)


def run_on_two_threads(crossing: Crossing) -> None:
    """Run tasks that hold the interpreter's lock until the budget acts."""

    def run() -> None:
        while crossing.goes_on():
            turn_for(TASK_S, crossing)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def caught_warning(done: threading.Event) -> Iterator[list[float]]:
    """Note when a warning is shown, and set the event; after a deadline it is set anyway."""
    warned_s: list[float] = []

    def show(*_: object, **__: object) -> None:
        warned_s.append(time.perf_counter())
        done.set()

    deadline = threading.Timer(DEADLINE_S, done.set)
    deadline.start()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield warned_s
    deadline.cancel()
    deadline.join()
    if not warned_s:
        raise TprofError(f"the budget did not act in {DEADLINE_S} s: others keep this machine too busy to measure")
