"""Policies in simulated time: task graphs on a simulated processor, beside every fixed assignment of frequencies.

The graphs are those of the paper's programs, as far as operating points see them: tasks, lengths, who waits for whom.
The lengths at the highest frequency are invented: the paper prints how tasks respond to the frequency, not how long
each instance takes.

The processor goes from one event to the next, exactly, and reads no clock of this machine. The work of a running task
goes on at the rate that its response gives at its core's frequency, and draws the watts that this gives; the package
draws `static_w` beside. The energy counter that the loop sees is updated each millisecond, as RAPL's is.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tprof.analysis.operating_points.curves import Knowledge, Point
from tprof.analysis.operating_points.goals import PowerCap
from tprof.runtime.policy.control import BEGINS, ENDS, Control, MachineInterface
from tprof.runtime.policy.controls import spread
from tprof.runtime.policy.decision import Decision, Thresholds
from tprof.runtime.policy.learning import Learning
from tprof.runtime.policy.power_estimator import PowerEstimator
from tprof.runtime.policy.power_limiter import Capped, PowerLimiter
from tprof.runtime.policy.shared_cap import share_cap
from tprof.runtime.policy.strategy import FixedFrequencies, FromTable, Voting

from .simulated_machine import FREQUENCIES_HZ, RESPONSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tprof.analysis.operating_points.goals import Goal
    from tprof.runtime.policy.strategy import Strategy

    Log = Callable[[dict[str, Any]], object]

EXPLORED = 3
CHUNKS = 64
SORT_S, MERGE_S = 0.080, 0.008
TRANSITION_S = 10e-6
UPDATE_S = 1e-3
DONE_S = 1e-12


def discard(decision: dict[str, Any]) -> None:
    """Discard a decision."""


@dataclass(frozen=True)
class Trial:
    """A mix on a processor.

    Attributes
    ----------
    mix, workers, shared, static_w : as `Processor` takes them.
    """

    mix: Mix
    workers: int = 4
    shared: bool = False
    static_w: float = 0.0

    def fixed(self, tasks_hz: Mapping[str, int]) -> Outcome:
        """Run with these frequencies."""
        return self._run(lambda _: FixedFrequencies(None, tasks_hz, self.workers))

    def from_table(self, goal: Goal, log: Log = discard) -> Outcome:
        """Run under a policy that is given the sweep."""
        return self._run(lambda processor: self._from_table(goal, processor), log)

    def learning(self, goal: Goal, log: Log = discard) -> Outcome:
        """Run under a policy that is given nothing; the outcome includes the cost of exploring."""

        def strategy(processor: Processor) -> Strategy:
            explored_hz = spread(FREQUENCIES_HZ, EXPLORED)
            return Learning(goal, processor, explored_hz, PowerEstimator(processor.read), workers=self.workers)

        return self._run(strategy, log)

    @cached_property
    def single(self) -> dict[int, Outcome]:
        """Every frequency for all tasks."""
        return {hz: self.fixed(dict.fromkeys(self.mix.tasks, hz)) for hz in FREQUENCIES_HZ}

    @cached_property
    def sweep(self) -> Knowledge:
        """What a sweep over all frequencies finds, without error."""
        counts = Counter(job.task for job in self.mix.jobs)
        curves = {
            task: {hz: Point(one.task_j[task] / count, one.task_s[task] / count) for hz, one in self.single.items()}
            for task, count in counts.items()
        }
        return Knowledge(curves, dict(counts), self.static_w)

    def every_assignment(self, frequencies_hz: tuple[int, ...] = FREQUENCIES_HZ) -> dict[tuple[int, ...], Outcome]:
        """Run every assignment of these frequencies to tasks, in the tasks' order: exponentially many."""
        tasks = self.mix.tasks
        assignments = itertools.product(frequencies_hz, repeat=len(tasks))
        return {chosen: self.fixed(dict(zip(tasks, chosen, strict=True))) for chosen in assignments}

    def capped(self, watts: float, log: Log = discard, *, knows: bool = False) -> Outcome:
        """Run under a cap on the power that the sensor keeps, with the sweep or without data on the tasks."""

        def strategy(processor: Processor) -> Strategy:
            begins_hz = FREQUENCIES_HZ[-1 if knows else 0]
            limiter = PowerLimiter(FREQUENCIES_HZ, watts, self.workers, processor.read, begins_hz)
            goal, nothing = PowerCap(watts), Decision(Thresholds())
            if knows:
                return Capped(limiter, self._from_table(goal, processor))
            return Capped(limiter, Voting(goal.name, processor, nothing, self.workers))

        return self._run(strategy, log)

    def _from_table(self, goal: Goal, processor: Processor) -> Strategy:
        return FromTable(goal, {self.workers: self.sweep}, processor, Thresholds())

    def _run(self, strategy: Callable[[Processor], Strategy], log: Log = discard) -> Outcome:
        def make(processor: Processor) -> Control:
            return Control(strategy(processor), processor.interface(log), self.workers)

        return Processor(self.mix, self.workers, shared=self.shared, static_w=self.static_w).run(make)


def capped_together(
    trials: Sequence[Trial], watts: float, *, period_s: float | None, log: Log = discard
) -> list[Outcome]:
    """Run a mix on each of several hosts under a cap on their sum.

    Parameters
    ----------
    trials
        A mix and a processor for each host.
    watts
        The cap on all together. When a host has ended, the others share it.
    period_s
        Simulated seconds between two divisions of the cap; None: each host keeps an equal part.
    """
    processors = [Processor(one.mix, one.workers, shared=one.shared, static_w=one.static_w) for one in trials]
    limiters = [
        PowerLimiter(FREQUENCIES_HZ, watts / len(trials), one.workers, processor.read, FREQUENCIES_HZ[0])
        for one, processor in zip(trials, processors, strict=True)
    ]
    runs = {
        place: processor.steps(partial(_capped_control, limiters[place], trials[place].workers, log))
        for place, processor in enumerate(processors)
    }
    now_s = dict.fromkeys(runs, 0.0)
    busy_s, next_s = [0.0] * len(trials), period_s
    while runs:
        place = min(runs, key=now_s.__getitem__)
        if next_s is not None and period_s is not None and now_s[place] >= next_s:
            next_s += period_s
            _divide(watts, limiters, busy_s, sorted(runs))
        step_s = next(runs[place], None)
        if step_s is None:
            del runs[place]
        else:
            now_s[place] = step_s
    return [processor.outcome() for processor in processors]


def _capped_control(limiter: PowerLimiter, workers: int, log: Log, processor: Processor) -> Control:
    inner = Voting("power_cap", processor, Decision(Thresholds()), workers)
    return Control(Capped(limiter, inner), processor.interface(log), workers)


def _divide(watts: float, limiters: Sequence[PowerLimiter], busy_s: list[float], running: Sequence[int]) -> None:
    """Divide the cap among the hosts that still run, as the runtime on a cluster does."""
    states = {place: limiters[place].state() for place in running}
    busy = [states[place].busy_s > busy_s[place] for place in running]
    for place, part_w in zip(running, share_cap(watts, list(states.values()), busy), strict=True):
        limiters[place].keep(part_w)
        busy_s[place] = states[place].busy_s


@dataclass(frozen=True)
class Job:
    """An instance: seconds at the highest frequency, and the jobs before it by their places."""

    task: str
    seconds: float
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class Mix:
    """A program.

    Attributes
    ----------
    name, description : what it is.
    jobs : in the order of spawning; each waits for earlier ones only.
    """

    name: str
    description: str
    jobs: tuple[Job, ...] = field(repr=False)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Return the tasks' names."""
        return tuple(dict.fromkeys(job.task for job in self.jobs))


def multisort(chunks: int = CHUNKS, sort_s: float = SORT_S, merge_s: float = MERGE_S) -> Mix:
    """Return the paper's multisort: chunks are sorted, then merged in pairs until one is left."""
    jobs = [Job("sort", sort_s) for _ in range(chunks)]
    level = list(range(chunks))
    while len(level) > 1:
        merge_s, pairs = merge_s * (2 if len(level) < chunks else 1), list(zip(level[::2], level[1::2], strict=True))
        level = list(range(len(jobs), len(jobs) + len(pairs)))
        jobs += [Job("merge", merge_s, pair) for pair in pairs]
    return Mix("multisort", f"{chunks} sorts of {sort_s * 1e3:g} ms, merged in pairs", tuple(jobs))


def side_by_side(tasks: tuple[str, ...], instances: int = 60, seconds: float = 0.03) -> Mix:
    """Return independent tasks, in turn, so that different ones run at the same time."""
    jobs = tuple(Job(task, seconds) for _ in range(instances) for task in tasks)
    return Mix(" and ".join(tasks) if len(tasks) < 4 else "all tasks", f"{instances} of each, in turn", jobs)


MIXES = (multisort(), side_by_side(("sort", "merge")), side_by_side(tuple(RESPONSES)))


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
        """Begin idle, at the highest frequency."""
        self._mix, self._workers, self._shared, self._static_w = mix, workers, shared, static_w
        self.active = workers
        self.frequencies_hz = FREQUENCIES_HZ
        self.count = 1 if shared else workers
        self.transition_s = TRANSITION_S
        self._hz = [FREQUENCIES_HZ[-1]] * self.count
        self._now_s = self._energy_j = self._updated_j = 0.0
        self._running: dict[int, _Running] = {}
        self.changes = 0
        self._numbers = {task: number for number, task in enumerate(mix.tasks)}
        self._task_s = dict.fromkeys(mix.tasks, 0.0)
        self._task_j = dict.fromkeys(mix.tasks, 0.0)

    def of(self, slot: int) -> int:
        """Return the control of a worker."""
        return 0 if self._shared else slot

    def cpus(self, control: int) -> tuple[int, ...]:
        """Return the processors of a control."""
        return tuple(range(self._workers)) if self._shared else (control,)

    def nearest_hz(self, control: int, hz: int) -> int:  # noqa: ARG002 - all cores are equal
        """Return a frequency as it is: it takes any."""
        return hz

    def hold(self, control: int, hz: int) -> None:
        """Set a frequency; the cores stop for the time that it takes."""
        self._hz[control] = hz
        self.changes += 1
        for worker in self._running:
            if self.of(worker) == control:
                self._running[worker].stall_s += TRANSITION_S

    def changed_elsewhere(self) -> tuple[int, ...]:
        """Return nothing: no other program sets frequencies."""
        return ()

    def now_ns(self) -> int:
        """Return the simulated time."""
        return round(self._now_s * 1e9)

    def read(self) -> tuple[int, float]:
        """Return the simulated time and what the energy counter shows."""
        return self.now_ns(), self._updated_j

    def set_active(self, workers: int) -> None:
        """Let so many workers take tasks."""
        self.active = workers

    def interface(self, log: Log) -> MachineInterface:
        """Return the machine as a loop sees it; a task's number is its place among the mix's."""
        return MachineInterface(self, self.now_ns, log, self.set_active, self._mix.tasks.__getitem__)

    def run(self, make: Callable[[Processor], Control]) -> Outcome:
        """Run the program under a loop."""
        for _ in self.steps(make):
            pass
        return self.outcome()

    def outcome(self) -> Outcome:
        """Return what the run has cost so far."""
        return Outcome(self._energy_j, self._now_s, self.changes, self._task_s, self._task_j)

    def steps(self, make: Callable[[Processor], Control]) -> Iterator[float]:
        """Run the program under a loop, from one event to the next; yields the simulated seconds."""
        gate, jobs = make(self).gate, self._mix.jobs
        places = [gate.place() for _ in range(self._workers)]
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
                    place = heapq.heappop(ready)
                    self._running[worker] = _Running(jobs[place], place, jobs[place].seconds, 0.0)
                    gate.report(BEGINS, places[worker], self._numbers[jobs[place].task], worker)
            for worker in self._advance():
                place = self._running[worker].place
                gate.report(ENDS, places[worker], self._numbers[jobs[place].task])
                del self._running[worker]
                for follower in followers[place]:
                    unmet[follower] -= 1
                    if unmet[follower] == 0:
                        heapq.heappush(ready, follower)
            yield self._now_s

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
