"""The loop: hears when tasks begin and end, and sets the frequency between them as the policy's goal has it.

Everything that it needs of a machine is handed in (the controls of the frequency, a ledger of joules, a clock), so
that it runs in simulated time as it runs on a processor. One lock guards it: a change of the frequency is short, and
those who share a control have to agree on it anyway.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tprof.runtime.operating.exploring import UNSURE, Effort, Exploration
from tprof.runtime.operating.goals import FORBIDDEN, Choice, Fixed, Goal
from tprof.runtime.operating.verdict import Caution, Verdict
from tprof.runtime.operating.worker_search import WorkerSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tprof.runtime.operating.ceiling import Ceiling
    from tprof.runtime.operating.controls import Controls
    from tprof.runtime.operating.ledger import Ledger
    from tprof.runtime.operating.points import Knowledge

    Say = Callable[[dict[str, Any]], object]


@dataclass(eq=False)
class _Run:
    task: str
    control: int
    begin_ns: int = 0
    hz: int = 0
    clean: bool = True  # at one frequency, and never interrupted
    tried: bool = False  # it began while its task was explored


@dataclass(frozen=True)
class Means:
    """What the loop works with.

    Attributes
    ----------
    controls, clock_ns : of the machine.
    say : told of every decision.
    set_active : sets the number of active workers.
    ledger : of the package's joules, for learning; None where a table is given.
    explored_hz : what learning tries.
    ceiling : what a cap on the power allows; None without one, or without a sensor.
    """

    controls: Controls
    clock_ns: Callable[[], int]
    say: Say
    set_active: Callable[[int], object]
    ledger: Ledger | None = None
    explored_hz: tuple[int, ...] = ()
    ceiling: Ceiling | None = None


class Control:
    """Chooses operating points; `begin`, `end`, `pause` and `resume` are called by whoever runs tasks."""

    def __init__(
        self,
        goal: Goal | Fixed,
        means: Means,
        workers: int,
        *,
        effort: Effort | None = None,
        caution: Caution | None = None,
        adapt_workers: bool = True,
    ) -> None:
        """Begin with the highest frequency everywhere; `know` or tasks that run bring more."""
        self._goal, self._means, self._workers = goal, means, workers
        self._active = self._wanted_workers = workers
        self._exploration = None
        self._search: WorkerSearch | None = None
        if means.ledger is not None and adapt_workers and workers > 1 and not isinstance(goal, Fixed):
            gain = (caution or Caution()).learnt_gain
            self._search = WorkerSearch(workers, goal.judge, means.ledger.drawn_j, gain)
        if means.ledger is not None:
            at_once = -(-workers // means.controls.count)
            self._exploration = Exploration(
                means.explored_hz,
                effort or Effort(),
                means.controls.transition_s,
                at_once=at_once,
                all_hz=means.controls.frequencies_hz,
                doubts=means.ledger.doubts,
            )
        self._verdict = Verdict(caution or Caution())
        self._undecided: set[str] = set()
        self._passed: frozenset[str] = frozenset()  # of these nothing is to be heard
        self._review_at = 0
        self._instances = 0
        self._lock = threading.Lock()
        self._stacks: dict[object, list[_Run]] = {}
        self._paused: dict[object, list[list[_Run]]] = {}
        self._highest_hz = means.controls.frequencies_hz[-1]
        self._held = [means.controls.nearest_hz(control, self._highest_hz) for control in range(means.controls.count)]
        self._closed = False

    def know(self, known: Mapping[int, Knowledge]) -> None:
        """Decide from a table, by the number of workers."""
        with self._lock:
            choice = self._choose(known)
            self._take(choice, known[choice.workers], "table")

    def begin(self, who: object, task: str, seat: int) -> None:
        """Hear that a thread begins a task, and set its frequency."""
        if task in self._passed:
            return
        with self._lock:
            if self._closed:
                return
            self._look()
            stack = self._stacks.setdefault(who, [])
            if stack:
                stack[-1].clean = False
            run = _Run(task, self._means.controls.of(seat))
            stack.append(run)
            self._count(task)
            self._set(run, run.control)
            self._look_from_now()
            run.clean, run.tried = True, self._explores(task)
            run.hz, run.begin_ns = self._held[run.control], self._means.clock_ns()

    def end(self, who: object, task: str) -> None:
        """Hear that it ends."""
        if task in self._passed and who not in self._stacks:
            return
        with self._lock:
            stack = self._stacks.get(who)
            if self._closed or not stack or stack[-1].task != task:
                return
            self._look()
            run = stack.pop()
            self._learn(run)
            self._try_workers(run.task)
            if stack:
                self._set(stack[-1], stack[-1].control)
            else:
                del self._stacks[who]

    def pause(self, who: object) -> None:
        """Hear that a thread waits in the midst of its task, and that another may run on its core."""
        with self._lock:
            stack = self._stacks.get(who)
            if not self._closed and stack:
                self._look()
                stack[-1].clean = False
                self._paused.setdefault(who, []).append(self._stacks.pop(who))

    def resume(self, who: object, seat: int) -> None:
        """Hear that it goes on."""
        with self._lock:
            paused = self._paused.get(who)
            if self._closed or not paused:
                return
            self._look()
            stack = self._stacks[who] = paused.pop()
            stack[-1].control = self._means.controls.of(seat)
            self._set(stack[-1], stack[-1].control)
            self._look_from_now()

    def close(self) -> None:
        """Do nothing any more: whoever held the frequencies before gets them back."""
        with self._lock:
            self._closed = True
            self._say("released")

    def activated(self, workers: int) -> None:
        """Hear that the program itself has set the number of active workers."""
        with self._lock:
            self._search = None  # the program knows better
            self._active = self._wanted_workers = workers
            self._say("workers", workers=workers, why="program")

    def hold_again(self) -> bool:
        """Set again what somebody else has changed; returns whether anything was. Raises SensorError."""
        with self._lock:
            changed = () if self._closed else self._means.controls.taken_away()
            for control in changed:
                self._means.controls.hold(control, self._held[control])
                self._say_set(control, self._held[control], "somebody else had changed it")
            return bool(changed)

    def tell_all(self) -> None:
        """Say again what holds now, to a recording that begins."""
        with self._lock:
            for control, hz in enumerate(self._held):
                self._say_set(control, hz, "held")
            ceiling = self._means.ceiling
            if ceiling is not None:
                self._say("allowed", frequency_hz=ceiling.highest_hz, former_hz=ceiling.highest_hz, why="held")
            for task in self._verdict.best:
                self._say_chosen(task, "held")
            if self._active != self._workers:
                self._say("workers", workers=self._active, why="held")

    def _running(self) -> list[_Run]:
        return [stack[-1] for stack in self._stacks.values() if stack]

    def _look(self) -> None:
        self._keep_below_the_ceiling()
        if self._means.ledger is None:
            return
        running = self._running()
        if any(self._explores(run.task) for run in running):
            kinds = [(run.task, self._held[run.control]) for run in running]
            self._means.ledger.look(self._means.clock_ns(), kinds)
        else:
            self._means.ledger.rest()

    def _keep_below_the_ceiling(self) -> None:
        """Set all that run as the cap on the power allows from now on, without waiting for the next task."""
        ceiling = self._means.ceiling
        if ceiling is None:
            return
        running, former_hz = self._running(), ceiling.highest_hz
        if not ceiling.look(self._means.clock_ns(), works=bool(running)):
            return
        why = f"{ceiling.drawn_w:.4g} W drawn, {ceiling.quality}"
        self._say("allowed", frequency_hz=ceiling.highest_hz, former_hz=former_hz, why=why)
        self._activate(self._wanted_workers, why)
        for run in running:
            self._set(run, run.control)

    def _look_from_now(self) -> None:
        ledger = self._means.ledger
        if ledger is not None and ledger.rests and any(self._explores(run.task) for run in self._running()):
            ledger.look(self._means.clock_ns(), ())

    def _explores(self, task: str) -> bool:
        return self._exploration is not None and self._exploration.explores(task)

    def _set(self, run: _Run, control: int) -> None:
        """Agree with those that share the control, and hold what they agree on."""
        sharing = [one for one in self._running() if one.control == control]
        hz, why = self._allowed(*self._wanted(run, control, sharing), control)
        # What is told, and compared, is what the processor can be set to.
        hz = None if hz is None else self._means.controls.nearest_hz(control, hz)
        if hz is None or hz == self._held[control]:
            return
        former_hz, self._held[control] = self._held[control], hz
        self._means.controls.hold(control, hz)
        for one in sharing:
            one.clean = False
        self._say_set(control, former_hz, why, task=run.task)

    def _wanted(self, run: _Run, control: int, sharing: list[_Run]) -> tuple[int | None, str]:
        if isinstance(self._goal, Fixed):
            return self._given(self._goal, sharing), "fixed"
        if self._exploration is not None:
            probe_hz = self._probe(run)
            if probe_hz is not None:
                return probe_hz, "explore"
        return self._voted(control, sharing)

    def _allowed(self, hz: int | None, why: str, control: int) -> tuple[int | None, str]:
        ceiling = self._means.ceiling
        if ceiling is None or (self._held[control] if hz is None else hz) <= ceiling.highest_hz:
            return hz, why
        return ceiling.highest_hz, "cap"

    def _given(self, goal: Fixed, sharing: list[_Run]) -> int | None:
        """Return the highest that those who share the control are given."""
        given = [hz for one in sharing if (hz := goal.wanted_hz(one.task)) is not None]
        return max(given, default=None)

    def _probe(self, run: _Run) -> int | None:
        """Return the frequency that is tried now, the same on all controls: they share the sensor.

        It is held until no running task lacks it any more, then the task that begins chooses the next.
        """
        assert self._exploration is not None  # noqa: S101 - looked at by the only caller
        exploring = [one for one in self._running() if self._exploration.explores(one.task)]
        if not exploring:
            return None
        for one in exploring:
            if one is not run and one.clean and self._exploration.lacks(one.task, one.hz):
                return one.hz
        if self._exploration.explores(run.task):
            held_hz = self._held[run.control]
            return held_hz if self._exploration.lacks(run.task, held_hz) else self._exploration.next_hz(run.task)
        return exploring[0].hz or None

    def _voted(self, control: int, sharing: list[_Run]) -> tuple[int | None, str]:
        tasks = [one.task for one in sharing]
        wanted_hz, why = self._verdict.wanted(tasks, self._held[control], self._means.controls.transition_s)
        learns = self._exploration is not None and not any(task in self._undecided for task in tasks)
        if why == "unknown" and not learns:
            return self._highest_hz, why
        return wanted_hz, why

    def _count(self, task: str) -> None:
        self._instances += 1
        if self._exploration is not None:
            self._exploration.count(task)
            # What each task weighs in the whole shows as the run goes on.
            if self._review_at and self._instances >= self._review_at:
                self._review()

    def _learn(self, run: _Run) -> None:
        if self._exploration is None or not run.clean or run.tried != self._explores(run.task):
            return
        lasted_s = (self._means.clock_ns() - run.begin_ns) * 1e-9
        if self._exploration.add(run.task, run.hz, lasted_s):
            self._review()

    def _review(self) -> None:
        """Decide anew from all that was learnt."""
        assert self._exploration is not None  # noqa: S101 - only learning comes here
        assert self._means.ledger is not None  # noqa: S101 - as above
        self._review_at = 2 * self._instances
        ledger, doubts = self._means.ledger, self._exploration.doubts()
        known = replace(self._exploration.knowledge(ledger.powers_w(), doubts), quality=ledger.quality)
        self._take(self._choose({self._workers: known}), known, "learnt", doubts)
        for task, doubt in doubts.items():
            if doubt > UNSURE and task not in self._undecided:
                self._undecided.add(task)
                why = f"not learnt: known to {doubt:.0%} only"
                self._say("chosen", task=task, frequency_hz=self._highest_hz, why=why)

    def _choose(self, known: Mapping[int, Knowledge]) -> Choice:
        assert not isinstance(self._goal, Fixed)  # noqa: S101 - nothing is learnt or read for it
        return self._goal.choose(known)

    def _take(self, choice: Choice, known: Knowledge, why: str, doubts: Mapping[str, float] | None = None) -> None:
        if choice.score >= FORBIDDEN:
            why = f"{why}; the bound cannot be kept"
        short = frozenset(() if self._exploration is None else self._exploration.short)
        changed = self._verdict.take(choice.costs, known, self._means.controls.transition_s, short)
        self._passed = self._verdict.short if self._means.ceiling is None else frozenset()
        for task in changed:
            self._say_chosen(task, why if doubts is None else f"{why}, to {doubts[task]:.0%}")
        self._activate(choice.workers if self._search is None else self._search.workers, why)

    def _try_workers(self, task: str) -> None:
        """See whether fewer workers would do, unless a task is explored: that is a question at a time."""
        search, means_s = self._search, self._verdict.means_s
        if search is None or not means_s:
            return
        if any(self._explores(run.task) for run in self._running()):
            changed = search.interrupt()
        else:
            search.ended(means_s.get(task, 0.0))
            changed = search.look(self._means.clock_ns(), max(means_s.values()))
        if changed:
            self._activate(search.workers, "explore" if search.tries else "learnt")

    def _activate(self, workers: int, why: str) -> None:
        self._wanted_workers = workers
        if self._means.ceiling is not None:
            workers = min(workers, self._means.ceiling.workers)
        if workers != self._active:
            self._active = workers
            self._means.set_active(workers)
            self._say("workers", workers=workers, why=why)

    def _say_set(self, control: int, former_hz: int, why: str, **more: Any) -> None:
        cpus = list(self._means.controls.cpus(control))
        self._say("set", frequency_hz=self._held[control], former_hz=former_hz, cpus=cpus, why=why, **more)

    def _say_chosen(self, task: str, why: str) -> None:
        hz, known = self._verdict.best[task], self._verdict.known
        point = known.curves.get(task, {}).get(hz)
        if point is not None:
            figures = {"energy_j": point.energy_j, "time_s": point.time_s, "quality": known.quality}
            self._say("chosen", task=task, frequency_hz=hz, why=why, **figures)

    def _say(self, kind: str, **what: Any) -> None:
        self._means.say({"t_ns": self._means.clock_ns(), "kind": kind, "policy": self._goal.name, **what})
