"""The control loop: sets the frequency that the policy's strategy requests whenever a task begins or ends.

All that it uses of a machine is passed in (the frequency's controls, a clock), so it runs the same in simulated time
and on a processor. Threads report to a gate in C (csrc/gate.h), which knows what runs and asks the loop only where
something may change. One lock guards the loop and the strategy: a change of the frequency is short, and tasks that
share a control have to agree on it anyway. What takes longer, a strategy's review, is made without the lock.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tprof.runtime._scheduler import Gate

from tprof import _core

from .strategy import Present, Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from .controls import Controls
    from .power_limiter import PowerLimiter
    from .strategy import Change, Entry, Strategy

    Log = Callable[[dict[str, Any]], object]
    OnEvent = Callable[[int, int, int, int], object]

BEGINS, ENDS, PAUSES, RESUMES, UNDECIDED = range(5)
"""What the gate asks about: an event of a task, which is not applied yet, or only the frequency for what runs."""
UNSEEN, SETTLED, IGNORED, WATCHED = range(4)
"""Kinds of tasks: the gate asks about each event of a watched one, and of all others while it runs."""


@dataclass(frozen=True)
class MachineInterface:
    """The machine as the loop sees it.

    Attributes
    ----------
    controls, clock_ns : of the machine.
    log : called with every decision.
    set_active : sets the number of active workers.
    name_of : returns the name of a task by its number.
    """

    controls: Controls
    clock_ns: Callable[[], int]
    log: Log
    set_active: Callable[[int], object]
    name_of: Callable[[int], str]


class Control:
    """Sets operating points; threads that run tasks report to `gate`.

    Attributes
    ----------
    gate : asks the loop; a thread needs a place there.
    """

    def __init__(
        self, strategy: Strategy, machine: MachineInterface, workers: int, *, on_event: OnEvent | None = None
    ) -> None:
        """Begin with the highest frequency everywhere and the strategy's first decision.

        The gate calls `on_event`, which has to call this object's, by default at once.
        """
        self._strategy, self._machine, self._workers = strategy, machine, workers
        self._active = workers
        self._lock = threading.Lock()
        self._names: dict[int, str] = {}
        self._watched: dict[tuple[int, int], Run] = {}
        """Instances of watched tasks, by the place of their thread and their depth there."""
        self._ended: dict[int, int] = {}
        self._due_ns = 0
        controls = machine.controls
        self._held_hz = [controls.nearest_hz(control, controls.frequencies_hz[-1]) for control in range(controls.count)]
        self._closed = False
        self.gate = Gate(
            on_event or self.on_event,
            [controls.of(slot) for slot in range(workers)],
            times=strategy.times_tasks,
            clock_ns=None if machine.clock_ns is _core.now_ns else machine.clock_ns,
        )
        for control, hz in enumerate(self._held_hz):
            self.gate.hold(control, hz)
        self._take(strategy.begin())

    @property
    def limiter(self) -> PowerLimiter | None:
        """What keeps a cap on the power, if the policy has one."""
        return self._strategy.limiter

    def on_event(self, moment: int, place: int, task: int, slot: int) -> None:
        """Answer the gate: apply an event of a task, or find the frequency for what a thread runs."""
        if moment == BEGINS:
            self._begin(place, task, slot)
        elif moment == ENDS:
            self._end(place, task)
        elif moment == PAUSES:
            self._pause(place)
        elif moment == RESUMES:
            self._resume(place, slot)
        else:
            with self._lock:
                self._set_again(place)

    def _begin(self, place: int, task: int, slot: int) -> None:
        with self._lock:
            name = self._name(task)
            self._poll()
            depth = self.gate.begin(place, task, slot)
            if depth < 0 or name in self._strategy.ignored:
                return
            if depth > 0:
                self._interrupt(place)
            run = Run(name, self._machine.controls.of(slot), task, watched=self._strategy.watches(name))
            if run.watched:
                self._watched[place, depth] = run
            is_review_due = self._strategy.is_review_due
            if not is_review_due:
                self._start(place, run)
        if is_review_due:
            self._review()
            with self._lock:
                self._start(place, run)

    def _start(self, place: int, run: Run) -> None:
        self._set_again(place)
        run.clean, run.explored = True, self._strategy.explores(run.task)
        run.hz, run.begin_ns = self._held_hz[run.control], self._machine.clock_ns()

    def _end(self, place: int, task: int) -> None:
        """Learn from a task that ends, and set the frequency for the enclosing one."""
        end_ns = self._machine.clock_ns()  # before the sensor is read
        with self._lock:
            self._poll()
            depth = self.gate.end(place, task)
            if depth < 0:
                return
            run = self._watched.pop((place, depth), None)
            if run is not None:
                self._strategy.on_end(run, end_ns)
            is_review_due = self._strategy.is_review_due
            if depth > 0 and not is_review_due:
                self._set_again(place)
        if is_review_due:
            self._review()
            with self._lock:
                self._set_again(place)

    def _review(self) -> None:
        """Let the strategy find out what takes long; other threads that come meanwhile go by what was known before."""
        while True:
            with self._lock:
                self._count()
                review = None if self._closed else self._strategy.review()
            if review is None:
                return
            answer = None
            try:
                answer = review()
            finally:
                with self._lock:
                    self._take(self._strategy.apply(answer))
                    for number, name in self._names.items():
                        self.gate.set_kind(number, self._kind(name))

    def _pause(self, place: int) -> None:
        """Suspend a task whose thread waits: another may run on its core."""
        with self._lock:
            self._poll()
            if self.gate.pause(place):
                self._interrupt(place)

    def _resume(self, place: int, slot: int) -> None:
        """Set the frequency for a suspended task that continues."""
        with self._lock:
            self._poll()
            if self.gate.resume(place, slot):
                for run in self._watched_on(place):
                    run.control = self._machine.controls.of(slot)
                self._set_again(place)

    def _interrupt(self, place: int) -> None:
        """Learn nothing from the instances that are under way on a thread."""
        for run in self._watched_on(place):
            run.clean = False

    def _watched_on(self, place: int) -> list[Run]:
        return [run for (where, _), run in self._watched.items() if where == place]

    def close(self) -> None:
        """Set nothing any more; the former frequencies are restored elsewhere."""
        self.gate.close()
        with self._lock:
            self._closed = True
            self._log({"kind": "released"})

    def on_workers_set(self, workers: int) -> None:
        """Take over the number of active workers that the program itself has set."""
        with self._lock:
            self._strategy.keep_workers(workers)
            self._active = workers
            self._log({"kind": "workers", "workers": workers, "why": "program"})

    def reapply(self) -> bool:
        """Restore frequencies that another program has changed; returns whether any was. Raises SensorError."""
        with self._lock:
            changed = () if self._closed else self._machine.controls.changed_elsewhere()
            for control in changed:
                self._machine.controls.hold(control, self._held_hz[control])
                self._log_set(control, self._held_hz[control], "somebody else had changed it")
            self.gate.renew()  # how long a change takes has been measured anew
            return bool(changed)

    def log_all(self) -> None:
        """Log the present state again, for a recording that begins."""
        with self._lock:
            for control, hz in enumerate(self._held_hz):
                self._log_set(control, hz, "held")
            for entry in self._strategy.state():
                self._log(entry)
            if self._active != self._workers:
                self._log({"kind": "workers", "workers": self._active, "why": "held"})

    def ran(self) -> set[str]:
        """Return the names of the tasks of which an instance has ended."""
        return {self._machine.name_of(number) for number in self.gate.ended()}

    def _name(self, number: int) -> str:
        name = self._names.get(number)
        if name is None:
            name = self._names[number] = self._machine.name_of(number)
            self.gate.set_kind(number, self._kind(name))
        return name

    def _kind(self, task: str) -> int:
        if task in self._strategy.ignored:
            return IGNORED
        return WATCHED if self._strategy.watches(task) else SETTLED

    def _runs(self, entries: list[tuple[int, int, int, int]]) -> dict[int, Run]:
        """Return the instances of what the gate says that runs, by the place of their thread."""
        watched = self._watched
        return {
            place: watched.get((place, depth)) or Run(self._name(number), control, number)
            for place, depth, number, control in entries
        }

    def _poll(self) -> None:
        """Let the strategy read sensors; if its limits have changed, they hold at once for the tasks that run."""
        if self._closed:
            return
        strategy, now_ns = self._strategy, self._machine.clock_ns()
        if strategy.reads_sensor:
            running = self._runs(self.gate.running())
            busy_ns = self.gate.busy_ns() if strategy.times_tasks else 0
            change = strategy.poll(Present(now_ns, tuple(running.values()), self._held_hz, busy_ns))
            if change is not None:
                self._take(change)
                for place in running:
                    self._set(place)
        if now_ns >= self._due_ns:
            self._count()
            self._due_ns = now_ns + strategy.period_ns
        self.gate.set_due(self._due_ns)

    def _count(self) -> None:
        """Let a strategy that learns know how many instances of each task have ended."""
        if not self._strategy.learns:
            return
        ended: dict[str, int] = {}
        for number, instances in self.gate.ended().items():
            name = self._name(number)
            ended[name] = ended.get(name, 0) + instances - self._ended.get(number, 0)
            self._ended[number] = instances
        self._take(self._strategy.on_ended(ended, self._machine.clock_ns()))

    def _set_again(self, place: int) -> None:
        """Set the frequency after a task has begun or continued on a thread."""
        running = () if self._closed else self._set(place)
        if running and self._strategy.learns:
            self._strategy.on_set(self._machine.clock_ns(), running)

    def _set(self, place: int) -> tuple[Run, ...]:
        """Set the frequency that the tasks which share the control of a thread agree on.

        Returns all that runs, nothing if that thread runs nothing. From the call of `unsettle` on, the gate asks about
        each event on that control, until it knows the frequency.
        """
        runs = self._runs(self.gate.unsettle(place))
        run, running = runs.get(place), tuple(runs.values())
        if run is None:
            return ()
        control, controls = run.control, self._machine.controls
        sharing = [one for one in running if one.control == control]
        former_hz = self._held_hz[control]
        requested_hz, why = self._strategy.request(run, sharing, running, former_hz)
        # The log and the comparison use what the processor can be set to.
        hz = former_hz if requested_hz is None else controls.nearest_hz(control, requested_hz)
        if hz != former_hz:
            self._held_hz[control] = hz
            controls.hold(control, hz)
            for one in sharing:
                one.clean = False
            self._log_set(control, former_hz, why, task=run.task)
        self.gate.hold(control, hz)
        if hz == former_hz and not any(one.watched for one in running):
            self.gate.remember(control, [one.number for one in sharing])
        return running

    def _take(self, change: Change | None) -> None:
        """Log a strategy's change, and set the number of workers that it asks for."""
        if change is None or self._closed:
            return
        self.gate.renew()
        for entry in change.entries:
            self._log(entry)
        workers = self._strategy.workers
        if workers != self._active:
            self._active = workers
            self._machine.set_active(workers)
            self._log({"kind": "workers", "workers": workers, "why": change.why})

    def _log_set(self, control: int, former_hz: int, why: str, **more: str) -> None:
        cpus = list(self._machine.controls.cpus(control))
        entry = {"frequency_hz": self._held_hz[control], "former_hz": former_hz, "cpus": cpus, "why": why, **more}
        self._log({"kind": "set", **entry})

    def _log(self, entry: Entry) -> None:
        self._machine.log(
            {"t_ns": self._machine.clock_ns(), "kind": entry["kind"], "policy": self._strategy.name, **entry}
        )
