"""The control loop: sets the frequency that the policy's strategy requests whenever a task begins or ends.

All that it uses of a machine is passed in (the frequency's controls, a clock), so it runs the same in simulated time
and on a processor. One lock guards it and the strategy: a change of the frequency is short, and tasks that share a
control have to agree on it anyway. What takes longer, a strategy's review, is made without the lock.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .strategy import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from .controls import Controls
    from .power_limiter import PowerLimiter
    from .strategy import Change, Entry, Strategy

    Log = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class MachineInterface:
    """The machine as the loop sees it.

    Attributes
    ----------
    controls, clock_ns : of the machine.
    log : called with every decision.
    set_active : sets the number of active workers.
    """

    controls: Controls
    clock_ns: Callable[[], int]
    log: Log
    set_active: Callable[[int], object]


class Control:
    """Sets operating points; the caller that runs tasks calls `begin`, `end`, `pause` and `resume`."""

    def __init__(self, strategy: Strategy, machine: MachineInterface, workers: int) -> None:
        """Begin with the highest frequency everywhere and the strategy's first decision."""
        self._strategy, self._machine, self._workers = strategy, machine, workers
        self._reads_sensor, self._learns = strategy.reads_sensor, strategy.learns
        self._active = workers
        self._lock = threading.Lock()
        self._stacks: dict[object, list[Run]] = {}
        self._paused: dict[object, list[list[Run]]] = {}
        controls = machine.controls
        self._held_hz = [controls.nearest_hz(control, controls.frequencies_hz[-1]) for control in range(controls.count)]
        self._closed = False
        self._take(strategy.begin())

    @property
    def limiter(self) -> PowerLimiter | None:
        """What keeps a cap on the power, if the policy has one."""
        return self._strategy.limiter

    def begin(self, thread: object, task: str, slot: int) -> None:
        """Set the frequency for a task that a thread begins."""
        if task in self._strategy.ignored:
            return
        with self._lock:
            if self._closed:
                return
            self._poll()
            stack = self._stacks.setdefault(thread, [])
            if stack:
                stack[-1].clean = False
            run = Run(task, self._machine.controls.of(slot))
            stack.append(run)
            is_review_due = self._learns and self._strategy.on_begin(run)
            if not is_review_due:
                self._start(run)
        if is_review_due:
            self._review()
            with self._lock:
                if not self._closed:
                    self._start(run)

    def _start(self, run: Run) -> None:
        self._set_again(run)
        run.clean = True
        if self._learns:
            run.explored = self._strategy.explores(run.task)
            run.hz, run.begin_ns = self._held_hz[run.control], self._machine.clock_ns()

    def end(self, thread: object, task: str) -> None:
        """Learn from a task that ends, and set the frequency for the enclosing one."""
        if task in self._strategy.ignored and thread not in self._stacks:
            return
        with self._lock:
            stack = self._stacks.get(thread)
            if self._closed or not stack or stack[-1].task != task:
                return
            self._poll()
            run = stack.pop()
            is_review_due = self._learns and self._strategy.on_end(run, self._machine.clock_ns())
            if not is_review_due:
                self._finish(thread, run)
        if is_review_due:
            self._review()
            with self._lock:
                if not self._closed:
                    self._finish(thread, run)

    def _finish(self, thread: object, run: Run) -> None:
        if self._learns:
            self._take(self._strategy.adapt_workers(run.task, self._machine.clock_ns(), self._running()))
        stack = self._stacks[thread]
        if stack:
            self._set(stack[-1])
        else:
            del self._stacks[thread]

    def _review(self) -> None:
        """Let the strategy find out what takes long; other threads that come meanwhile go by what was known before."""
        while True:
            with self._lock:
                review = None if self._closed else self._strategy.review()
            if review is None:
                return
            answer = None
            try:
                answer = review()
            finally:
                with self._lock:
                    self._take(self._strategy.apply(answer))

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
            self._set_again(stack[-1])

    def close(self) -> None:
        """Set nothing any more; the former frequencies are restored elsewhere."""
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

    def _running(self) -> list[Run]:
        return [stack[-1] for stack in self._stacks.values() if stack]

    def _poll(self) -> None:
        """Let the strategy read sensors; if its limits have changed, they hold at once for the tasks that run."""
        if not self._reads_sensor:
            return
        running = self._running()
        change = self._strategy.poll(self._machine.clock_ns(), running, self._held_hz)
        if change is not None:
            self._take(change)
            for run in running:
                self._set(run)

    def _set_again(self, run: Run) -> None:
        self._set(run)
        if self._learns:
            self._strategy.on_set(self._machine.clock_ns(), self._running())

    def _set(self, run: Run) -> None:
        """Set the frequency that the tasks which share the run's control agree on."""
        control, controls, running = run.control, self._machine.controls, self._running()
        sharing = [one for one in running if one.control == control]
        former_hz = self._held_hz[control]
        requested_hz, why = self._strategy.request(run, sharing, running, former_hz)
        # The log and the comparison use what the processor can be set to.
        hz = former_hz if requested_hz is None else controls.nearest_hz(control, requested_hz)
        if hz == former_hz:
            return
        self._held_hz[control] = hz
        controls.hold(control, hz)
        for one in sharing:
            one.clean = False
        self._log_set(control, former_hz, why, task=run.task)

    def _take(self, change: Change | None) -> None:
        """Log a strategy's change, and set the number of workers that it asks for."""
        if change is None or self._closed:
            return
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
