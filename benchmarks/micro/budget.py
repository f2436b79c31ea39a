"""How soon a budget acts and what watching it costs: the measurement behind `tprof bench budget`."""

from __future__ import annotations

import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.benchmarks.figures import Figure
from tprof.benchmarks.machine import describe_machine

import tprof
from tprof.errors import TprofError

from .sensor_thread import powercap_stand_in

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

REACTION_MS = 50.0
SHARE = 0.01
STEP_J, LIMIT_J = 40.0, 1.0
"""A step of which even a small part, where others keep the machine busy, is too much."""
DEADLINE_S = 30
BUSY_W = 6.0
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


@tprof.task
def spin_until(done: threading.Event, crossed_s: list[float], cpu_s: float) -> None:
    """Run until the event, and note when the thread had used so much CPU time."""
    end_s = time.thread_time() + cpu_s
    while not done.is_set():
        if not crossed_s and time.thread_time() >= end_s:
            crossed_s.append(time.perf_counter())


def measure(effort: Effort = FULL, *, directory: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Measure reaction and cost in one run; as `tprof.benchmarks.micro.overhead.measure`."""
    with tempfile.TemporaryDirectory(prefix="tprof-budget-", dir=directory) as name:
        place = Path(name)
        with powercap_stand_in(place / "root"):
            energy = place / "root/sys/class/powercap/intel-rapl:0/energy_uj"
            steps_ms = tuple(time_step(place, energy) for _ in range(effort.rounds))
        used_ms = tuple(time_estimate(place) for _ in range(effort.rounds))
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
        Figure("the thread that watches, far from the limit", far, "core", SHARE),
        Figure(
            "the thread that watches, where any joule may be too much", near, "core", SHARE, "it looks less often then"
        ),
    ]
    return {
        "machine": describe_machine(),
        "effort": asdict(effort),
        "directory": str(Path(name).parent),
        "figures": [figure.as_plain() for figure in figures],
    }


def time_step(place: Path, energy: Path) -> float:
    """Return milliseconds from a step of the counter that exceeds a budget to the warning."""
    with tprof.record(place / "t.tprof", energy="powercap", counters="none", idle_s=0, overwrite=True):
        done, crossed_s = threading.Event(), [0.0]
        with caught_warning(done) as told_s, tprof.budget(joules=LIMIT_J):
            thread = threading.Thread(target=spin_until, args=(done, crossed_s, 0.0))
            thread.start()
            time.sleep(0.1)
            before_uj = int(energy.read_text(encoding="ascii"))
            with energy.open("r+", encoding="ascii") as file:
                crossed_s[0] = time.perf_counter()
                file.write(f"{before_uj + round(STEP_J * 1e6)}\n")
            thread.join()
    return (told_s[0] - crossed_s[0]) * 1e3


def time_estimate(place: Path) -> float:
    """Return milliseconds from when a thread has used a budget's worth of CPU time to the warning."""
    recording = tprof.record(place / "t.tprof", energy="estimate", watts=(0.0, BUSY_W), counters="none", overwrite=True)
    with recording:
        done, crossed_s = threading.Event(), list[float]()
        with caught_warning(done) as told_s, tprof.budget(joules=LIMIT_J, tasks="spin_until"):
            spin_until(done, crossed_s, LIMIT_J / BUSY_W)
    return (told_s[0] - (crossed_s or told_s)[0]) * 1e3


def watch(place: Path, duration_s: float, *, limit_j: float) -> float:
    """Return the share of a core that the thread takes which watches a budget for a task that does not run."""
    with (
        tprof.record(place / "t.tprof", energy="estimate", counters="none", overwrite=True),
        tprof.budget(joules=limit_j, tasks="nobody"),
    ):
        time.sleep(duration_s / 2)  # what it may use ahead is used by then
        begin_s, begin_ns = time.perf_counter(), cpu_time_ns()
        while time.perf_counter() - begin_s < duration_s:
            time.sleep(0.01)
        return (cpu_time_ns() - begin_ns) * 1e-9 / (time.perf_counter() - begin_s)


@contextmanager
def caught_warning(done: threading.Event) -> Iterator[list[float]]:
    """Note when a warning is shown, and set the event; after a deadline it is set anyway."""
    told_s: list[float] = []

    def show(*_: object, **__: object) -> None:
        told_s.append(time.perf_counter())
        done.set()

    deadline = threading.Timer(DEADLINE_S, done.set)
    deadline.start()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield told_s
    deadline.cancel()
    deadline.join()
    if not told_s:
        message = f"the budget did not act in {DEADLINE_S} s: others keep this machine too busy to measure"
        raise TprofError(message)


def cpu_time_ns() -> int:
    """Read how long the thread that watches has run."""
    thread = next(thread for thread in threading.enumerate() if thread.name == THREAD_NAME)
    text = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text(encoding="ascii")
    return int(text.split()[0])
