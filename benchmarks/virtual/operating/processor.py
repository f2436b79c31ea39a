"""A simulated processor: from one event to the next, exactly; no clock of this machine is looked at.

A running task's work goes on at the rate that its response gives at its core's frequency, and draws the watts that
this gives; the package draws `static_w` beside. The energy counter that the loop sees is updated each millisecond,
as RAPL's is.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.benchmarks.virtual.machine import FREQUENCIES_HZ, RESPONSES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tprof.runtime.policy.control import Control

    from .mixes import Job, Mix

TRANSITION_S = 10e-6
UPDATE_S = 1e-3
DONE_S = 1e-12


@dataclass(frozen=True)
class Outcome:
    """A run: joules, seconds, how often a frequency changed; core seconds and joules of each task at its end."""

    energy_j: float
    time_s: float
    changes: int
    task_s: dict[str, float]
    task_j: dict[str, float]

    @property
    def edp_js(self) -> float:
        """Return energy times time."""
        return self.energy_j * self.time_s


@dataclass
class _Running:
    job: Job
    place: int
    left_s: float  # of work at the highest frequency
    stall_s: float


class Processor:
    """One run of a mix; it is what `Control` sees as the machine's controls too.

    Parameters
    ----------
    mix
        The program.
    workers
        Cores, each with a worker.
    shared
        Whether all cores share one frequency.
    static_w
        What the package draws while the program runs, whatever runs.
    """

    def __init__(self, mix: Mix, workers: int = 4, *, shared: bool = False, static_w: float = 0.0) -> None:
        """Make it stand still at the highest frequency."""
        self._mix, self._workers, self._shared, self._static_w = mix, workers, shared, static_w
        self.active = workers
        self.frequencies_hz = FREQUENCIES_HZ
        self.count = 1 if shared else workers
        self.transition_s = TRANSITION_S
        self._hz = [FREQUENCIES_HZ[-1]] * self.count
        self._now_s = self._energy_j = self._updated_j = 0.0
        self._running: dict[int, _Running] = {}
        self._stalled: set[int] = set()
        self.changes = 0
        self._task_s = dict.fromkeys(mix.tasks, 0.0)
        self._task_j = dict.fromkeys(mix.tasks, 0.0)

    def of(self, slot: int) -> int:
        """Return the control of a worker."""
        return 0 if self._shared else slot

    def cpus(self, control: int) -> tuple[int, ...]:
        """Return the processors of a control."""
        return tuple(range(self._workers)) if self._shared else (control,)

    def nearest_hz(self, control: int, hz: int) -> int:  # noqa: ARG002 - all cores are alike
        """Return a frequency as it is: it takes any."""
        return hz

    def hold(self, control: int, hz: int) -> None:
        """Set a frequency: the cores stand still for the time that it takes."""
        self._hz[control] = hz
        self.changes += 1
        for worker in self._running:
            if self.of(worker) == control:
                self._running[worker].stall_s += TRANSITION_S

    def changed_elsewhere(self) -> tuple[int, ...]:
        """Return nothing: nobody else is there."""
        return ()

    def now_ns(self) -> int:
        """Return the simulated time."""
        return round(self._now_s * 1e9)

    def read_j(self) -> float:
        """Return what the energy counter shows."""
        return self._updated_j

    def set_active(self, workers: int) -> None:
        """Let so many workers take tasks."""
        self.active = workers

    def run(self, make: Callable[[Processor], Control]) -> Outcome:
        """Run the program under a loop."""
        control = make(self)
        jobs = self._mix.jobs
        followers: list[list[int]] = [[] for _ in jobs]
        unmet = [len(job.after) for job in jobs]
        for place, job in enumerate(jobs):
            for before in job.after:
                followers[before].append(place)
        ready = [place for place, count in enumerate(unmet) if count == 0]
        heapq.heapify(ready)
        while ready or self._running:
            for worker in range(self.active):
                if ready and worker not in self._running:
                    self._start(control, worker, heapq.heappop(ready))
            for worker in self._advance():
                place = self._running[worker].place
                control.end(worker, jobs[place].task)
                del self._running[worker]
                for follower in followers[place]:
                    unmet[follower] -= 1
                    if unmet[follower] == 0:
                        heapq.heappush(ready, follower)
        return Outcome(self._energy_j, self._now_s, self.changes, self._task_s, self._task_j)

    def _start(self, control: Control, worker: int, place: int) -> None:
        job = self._mix.jobs[place]
        self._running[worker] = _Running(job, place, job.seconds, 0.0)
        control.begin(worker, job.task, worker)

    def _advance(self) -> list[int]:
        """Go on to the next end of a job or update of the counter; returns the workers whose jobs ended."""
        rates = {worker: 1 / RESPONSES[one.job.task].time(self._of(worker)) for worker, one in self._running.items()}
        until_s = min(one.stall_s + one.left_s / rates[worker] for worker, one in self._running.items())
        to_update_s = UPDATE_S - self._now_s % UPDATE_S
        if to_update_s < DONE_S:
            to_update_s += UPDATE_S
        step_s = min(until_s, to_update_s)
        self._draw(step_s)
        for worker, one in self._running.items():
            stalled_s = min(one.stall_s, step_s)
            one.stall_s -= stalled_s
            one.left_s -= (step_s - stalled_s) * rates[worker]
        if to_update_s <= step_s:
            self._updated_j = self._energy_j
        return [worker for worker, one in self._running.items() if one.left_s <= DONE_S and one.stall_s <= DONE_S]

    def _draw(self, step_s: float) -> None:
        self._now_s += step_s
        self._energy_j += self._static_w * step_s
        for worker, one in self._running.items():
            drawn_j = RESPONSES[one.job.task].power_w(self._of(worker)) * step_s
            self._energy_j += drawn_j
            self._task_j[one.job.task] += drawn_j
            self._task_s[one.job.task] += step_s

    def _of(self, worker: int) -> int:
        return self._hz[self.of(worker)]
