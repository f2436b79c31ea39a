"""The control loop: sets the frequency for the policy's goal whenever a task begins or ends.

All that it uses of a machine is passed in (the frequency's controls, a power estimator, a clock), so it runs the same
in simulated time and on a processor. One lock guards it: a change of the frequency is short, and tasks that share a
control have to agree on it anyway.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tprof.runtime.operating.decision import Decision, Thresholds
from tprof.runtime.operating.exploring import MAX_UNCERTAINTY, Exploration, ExplorationBudget
from tprof.runtime.operating.goals import FORBIDDEN, Choice, Fixed, Goal
from tprof.runtime.operating.worker_search import WorkerSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tprof.runtime.operating.controls import Controls
    from tprof.runtime.operating.points import Knowledge
    from tprof.runtime.operating.power_estimator import PowerEstimator
    from tprof.runtime.operating.power_limiter import PowerLimiter

    Log = Callable[[dict[str, Any]], object]


@dataclass(eq=False)
class _Run:
    task: str
    control: int
    begin_ns: int = 0
    hz: int = 0
    clean: bool = True  # at one frequency and without interruption
    explored: bool = False  # it began while its task was explored


@dataclass(frozen=True)
class MachineInterface:
    """The machine as the loop sees it.

    Attributes
    ----------
    controls, clock_ns : of the machine.
    log : called with every decision.
    set_active : sets the number of active workers.
    estimator : of the tasks' power, for learning; None with a table.
    explored_hz : the frequencies that learning tries.
    limiter : keeps the cap on the power; None without a cap or a sensor.
    """

    controls: Controls
    clock_ns: Callable[[], int]
    log: Log
    set_active: Callable[[int], object]
    estimator: PowerEstimator | None = None
    explored_hz: tuple[int, ...] = ()
    limiter: PowerLimiter | None = None


class Control:
    """Chooses operating points; the caller that runs tasks calls `begin`, `end`, `pause` and `resume`."""

    def __init__(
        self,
        goal: Goal | Fixed,
        machine: MachineInterface,
        workers: int,
        *,
        budget: ExplorationBudget | None = None,
        thresholds: Thresholds | None = None,
        adapt_workers: bool = True,
    ) -> None:
        """Begin with the highest frequency everywhere, until there is a table or tasks have run."""
        self._goal, self._machine, self._workers = goal, machine, workers
        self._active = self._requested_workers = workers
        self._exploration = None
        self._search: WorkerSearch | None = None
        if machine.estimator is not None and adapt_workers and workers > 1 and not isinstance(goal, Fixed):
            gain = (thresholds or Thresholds()).learnt_gain
            self._search = WorkerSearch(workers, goal.span_cost, machine.estimator.drawn_j, gain)
        if machine.estimator is not None:
            at_once = -(-workers // machine.controls.count)
            self._exploration = Exploration(
                machine.explored_hz,
                budget or ExplorationBudget(),
                machine.controls.transition_s,
                at_once=at_once,
                all_hz=machine.controls.frequencies_hz,
                uncertainties=machine.estimator.uncertainties,
            )
        self._decision = Decision(thresholds or Thresholds())
        self._undecided: set[str] = set()
        self._ignored: frozenset[str] = frozenset()  # tasks that change nothing
        self._review_at = 0
        self._instances = 0
        self._lock = threading.Lock()
        self._stacks: dict[object, list[_Run]] = {}
        self._paused: dict[object, list[list[_Run]]] = {}
        self._highest_hz = machine.controls.frequencies_hz[-1]
        self._held_hz = [
            machine.controls.nearest_hz(control, self._highest_hz) for control in range(machine.controls.count)
        ]
        self._closed = False

    def use_table(self, known: Mapping[int, Knowledge]) -> None:
        """Decide from a table, by the number of workers."""
        with self._lock:
            choice = self._choose(known)
            self._apply(choice, known[choice.workers], "table")

    def begin(self, thread: object, task: str, slot: int) -> None:
        """Set the frequency for a task that a thread begins."""
        if task in self._ignored:
            return
        with self._lock:
            if self._closed:
                return
            self._poll()
            stack = self._stacks.setdefault(thread, [])
            if stack:
                stack[-1].clean = False
            run = _Run(task, self._machine.controls.of(slot))
            stack.append(run)
            self._count(task)
            self._set(run, run.control)
            self._resume_estimator()
            run.clean, run.explored = True, self._explores(task)
            run.hz, run.begin_ns = self._held_hz[run.control], self._machine.clock_ns()

    def end(self, thread: object, task: str) -> None:
        """Learn from a task that ends, and set the frequency for the enclosing one."""
        if task in self._ignored and thread not in self._stacks:
            return
        with self._lock:
            stack = self._stacks.get(thread)
            if self._closed or not stack or stack[-1].task != task:
                return
            self._poll()
            run = stack.pop()
            self._learn(run)
            self._try_workers(run.task)
            if stack:
                self._set(stack[-1], stack[-1].control)
            else:
                del self._stacks[thread]

    def pause(self, thread: object) -> None:
        """Suspend a task whose thread waits: another may run on its core."""
        with self._lock:
            stack = self._stacks.get(thread)
            if not self._closed and stack:
                self._poll()
                stack[-1].clean = False
                self._paused.setdefault(thread, []).append(self._stacks.pop(thread))

    def resume(self, thread: object, slot: int) -> None:
        """Set the frequency for a suspended task that continues."""
        with self._lock:
            paused = self._paused.get(thread)
            if self._closed or not paused:
                return
            self._poll()
            stack = self._stacks[thread] = paused.pop()
            stack[-1].control = self._machine.controls.of(slot)
            self._set(stack[-1], stack[-1].control)
            self._resume_estimator()

    def close(self) -> None:
        """Set nothing any more; the former frequencies are restored elsewhere."""
        with self._lock:
            self._closed = True
            self._log("released")

    def on_workers_set(self, workers: int) -> None:
        """Take over the number of active workers that the program itself has set."""
        with self._lock:
            self._search = None  # the program's choice has priority
            self._active = self._requested_workers = workers
            self._log("workers", workers=workers, why="program")

    def reapply(self) -> bool:
        """Restore frequencies that another program has changed; returns whether any was. Raises SensorError."""
        with self._lock:
            changed = () if self._closed else self._machine.controls.changed_elsewhere()
            for control in changed:
                self._machine.controls.hold(control, self._held_hz[control])
                self._log_set(control, self._held_hz[control], "somebody else had changed it")
            return bool(changed)

    def log_all(self) -> None:
        """Log the present state again, for a recording that begins."""
        with self._lock:
            for control, hz in enumerate(self._held_hz):
                self._log_set(control, hz, "held")
            limiter = self._machine.limiter
            if limiter is not None:
                self._log("allowed", frequency_hz=limiter.highest_hz, former_hz=limiter.highest_hz, why="held")
            for task in self._decision.best:
                self._log_chosen(task, "held")
            if self._active != self._workers:
                self._log("workers", workers=self._active, why="held")

    def _running(self) -> list[_Run]:
        return [stack[-1] for stack in self._stacks.values() if stack]

    def _poll(self) -> None:
        self._apply_power_cap()
        if self._machine.estimator is None:
            return
        running = self._running()
        if any(self._explores(run.task) for run in running):
            kinds = [(run.task, self._held_hz[run.control]) for run in running]
            self._machine.estimator.poll(self._machine.clock_ns(), kinds)
        else:
            self._machine.estimator.pause()

    def _apply_power_cap(self) -> None:
        """Set the frequencies of running tasks at once if the power limiter allows others than before."""
        limiter = self._machine.limiter
        if limiter is None:
            return
        running, former_hz = self._running(), limiter.highest_hz
        if not limiter.poll(self._machine.clock_ns(), busy=bool(running)):
            return
        why = f"{limiter.drawn_w:.4g} W drawn, {limiter.quality}"
        self._log("allowed", frequency_hz=limiter.highest_hz, former_hz=former_hz, why=why)
        self._activate(self._requested_workers, why)
        for run in running:
            self._set(run, run.control)

    def _resume_estimator(self) -> None:
        estimator = self._machine.estimator
        if estimator is not None and estimator.is_paused and any(self._explores(run.task) for run in self._running()):
            estimator.poll(self._machine.clock_ns(), ())

    def _explores(self, task: str) -> bool:
        return self._exploration is not None and self._exploration.explores(task)

    def _set(self, run: _Run, control: int) -> None:
        """Set the frequency that the tasks which share the control agree on."""
        sharing = [one for one in self._running() if one.control == control]
        hz, why = self._capped(*self._requested(run, control, sharing), control)
        # The log and the comparison use what the processor can be set to.
        hz = None if hz is None else self._machine.controls.nearest_hz(control, hz)
        if hz is None or hz == self._held_hz[control]:
            return
        former_hz, self._held_hz[control] = self._held_hz[control], hz
        self._machine.controls.hold(control, hz)
        for one in sharing:
            one.clean = False
        self._log_set(control, former_hz, why, task=run.task)

    def _requested(self, run: _Run, control: int, sharing: list[_Run]) -> tuple[int | None, str]:
        if isinstance(self._goal, Fixed):
            return self._fixed_hz(self._goal, sharing), "fixed"
        if self._exploration is not None:
            probe_hz = self._probe(run)
            if probe_hz is not None:
                return probe_hz, "explore"
        return self._voted(control, sharing)

    def _capped(self, hz: int | None, why: str, control: int) -> tuple[int | None, str]:
        limiter = self._machine.limiter
        if limiter is None or (self._held_hz[control] if hz is None else hz) <= limiter.highest_hz:
            return hz, why
        return limiter.highest_hz, "cap"

    def _fixed_hz(self, goal: Fixed, sharing: list[_Run]) -> int | None:
        """Return the highest frequency given for the tasks that share the control."""
        given = [hz for one in sharing if (hz := goal.given_hz(one.task)) is not None]
        return max(given, default=None)

    def _probe(self, run: _Run) -> int | None:
        """Return the frequency that is explored now, the same on all controls, since they share the sensor.

        It stays until it is due for no running task. Then the task that begins chooses the next.
        """
        assert self._exploration is not None  # noqa: S101 - the only caller has checked it
        exploring = [one for one in self._running() if self._exploration.explores(one.task)]
        if not exploring:
            return None
        for one in exploring:
            if one is not run and one.clean and self._exploration.is_due(one.task, one.hz):
                return one.hz
        if self._exploration.explores(run.task):
            held_hz = self._held_hz[run.control]
            return held_hz if self._exploration.is_due(run.task, held_hz) else self._exploration.next_hz(run.task)
        return exploring[0].hz or None

    def _voted(self, control: int, sharing: list[_Run]) -> tuple[int | None, str]:
        tasks = [one.task for one in sharing]
        requested_hz, why = self._decision.frequency_for(
            tasks, self._held_hz[control], self._machine.controls.transition_s
        )
        learns = self._exploration is not None and not any(task in self._undecided for task in tasks)
        if why == "unknown" and not learns:
            return self._highest_hz, why
        return requested_hz, why

    def _count(self, task: str) -> None:
        self._instances += 1
        if self._exploration is not None:
            self._exploration.count(task)
            # The weights of the tasks become known as the run goes on.
            if self._review_at and self._instances >= self._review_at:
                self._review()

    def _learn(self, run: _Run) -> None:
        if self._exploration is None or not run.clean or run.explored != self._explores(run.task):
            return
        lasted_s = (self._machine.clock_ns() - run.begin_ns) * 1e-9
        if self._exploration.add(run.task, run.hz, lasted_s):
            self._review()

    def _review(self) -> None:
        """Decide again from all that was learnt."""
        assert self._exploration is not None  # noqa: S101 - only learning comes here
        assert self._machine.estimator is not None  # noqa: S101 - as above
        self._review_at = 2 * self._instances
        estimator, uncertainties = self._machine.estimator, self._exploration.uncertainties()
        known = replace(self._exploration.knowledge(estimator.powers_w(), uncertainties), quality=estimator.quality)
        self._apply(self._choose({self._workers: known}), known, "learnt", uncertainties)
        for task, uncertainty in uncertainties.items():
            if uncertainty > MAX_UNCERTAINTY and task not in self._undecided:
                self._undecided.add(task)
                why = f"not learnt: known to {uncertainty:.0%} only"
                self._log("chosen", task=task, frequency_hz=self._highest_hz, why=why)

    def _choose(self, known: Mapping[int, Knowledge]) -> Choice:
        assert not isinstance(self._goal, Fixed)  # noqa: S101 - nothing is learnt or read for it
        return self._goal.choose(known)

    def _apply(
        self, choice: Choice, known: Knowledge, why: str, uncertainties: Mapping[str, float] | None = None
    ) -> None:
        if choice.score >= FORBIDDEN:
            why = f"{why}; the bound cannot be kept"
        short = frozenset(() if self._exploration is None else self._exploration.short)
        changed = self._decision.update(choice.costs, known, self._machine.controls.transition_s, short)
        self._ignored = self._decision.short if self._machine.limiter is None else frozenset()
        for task in changed:
            self._log_chosen(task, why if uncertainties is None else f"{why}, to {uncertainties[task]:.0%}")
        self._activate(choice.workers if self._search is None else self._search.workers, why)

    def _try_workers(self, task: str) -> None:
        """Try fewer workers, unless a task is explored: the two would disturb each other."""
        search, means_s = self._search, self._decision.means_s
        if search is None or not means_s:
            return
        if any(self._explores(run.task) for run in self._running()):
            changed = search.interrupt()
        else:
            search.on_end(means_s.get(task, 0.0))
            changed = search.poll(self._machine.clock_ns(), max(means_s.values()))
        if changed:
            self._activate(search.workers, "explore" if search.is_trying else "learnt")

    def _activate(self, workers: int, why: str) -> None:
        self._requested_workers = workers
        if self._machine.limiter is not None:
            workers = min(workers, self._machine.limiter.workers)
        if workers != self._active:
            self._active = workers
            self._machine.set_active(workers)
            self._log("workers", workers=workers, why=why)

    def _log_set(self, control: int, former_hz: int, why: str, **more: Any) -> None:
        cpus = list(self._machine.controls.cpus(control))
        self._log("set", frequency_hz=self._held_hz[control], former_hz=former_hz, cpus=cpus, why=why, **more)

    def _log_chosen(self, task: str, why: str) -> None:
        hz, known = self._decision.best[task], self._decision.known
        point = known.curves.get(task, {}).get(hz)
        if point is not None:
            figures = {"energy_j": point.energy_j, "time_s": point.time_s, "quality": known.quality}
            self._log("chosen", task=task, frequency_hz=hz, why=why, **figures)

    def _log(self, kind: str, **what: Any) -> None:
        self._machine.log({"t_ns": self._machine.clock_ns(), "kind": kind, "policy": self._goal.name, **what})
