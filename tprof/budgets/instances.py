"""Budgets of single instances: `tprof.task(budget_j=…)`, looked at while a recording runs."""

from __future__ import annotations

import time
import warnings
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tprof import _core, registry, running
from tprof.errors import SensorError, TraceError

from .response import Response
from .watcher import Watcher

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tprof.live import Meter
    from tprof.live.thread import Stretch
    from tprof.membership import Membership

EACH_S = 0.2
"""So often a look though no glance asks for it: brakes are let go, and other processes' tasks become known."""


class InstanceBudgets:
    """Follows the joules of instances of tasks that have a budget, of all processes of the recording."""

    def __init__(self, member: Membership) -> None:
        """Begin to watch. Raises TraceError."""
        self._meter: Meter = member.meter()
        self._process = member.process
        self._open: dict[int, float] = {}
        self._told: dict[int, int] = {}
        """The task of each instance that is over its budget and has not ended."""
        self._excesses: deque[tuple[int, int, float]] = deque()
        """Task, instance and joules of those that are, still to be responded to."""
        self._limits: NDArray[np.float64] = np.empty(0)
        self._over: dict[int, int] = {}
        self._worst_j: dict[int, float] = {}
        self._responses: dict[int, Response] = {}
        self._meter.listeners.append(self._add)
        self._left: dict[int, float] = {}
        """What each instance that has not ended may still take."""
        self._near = True
        self._looked_s = 0.0
        self._watcher = Watcher(self._look, self._glance)
        self._watcher.start()

    def stop(self) -> Exception | None:
        """Look once more, let brakes go, and say how many instances of each task were over; returns what was raised.

        All that was recorded is read, so it is called when the last sensor reading was written.
        """
        problem = self._watcher.stop()
        if problem is None:
            try:
                self._meter.energy()
                self._act()
            except TraceError as error:
                problem = error
        self._tell_counts()
        for response in self._responses.values():
            try:
                response.end()
            except SensorError as error:
                problem = problem or error
        errors = (response.error for response in self._responses.values() if response.error is not None)
        return problem or next(errors, None)

    def _tell_counts(self) -> None:
        for index, count in self._over.items():
            entry, started = self._meter.table.entries[index], int(self._meter.accounts.starts[index])
            message = (
                f"task {entry.name}: {count} of {started} instances were over their budget of {entry.budget_j:g} J "
                f"({self._how()}); the most took {self._worst_j[index]:.4g} J"
            )
            warnings.warn_explicit(message, RuntimeWarning, entry.file or "<unknown>", entry.line or 0)

    def _glance(self) -> bool:
        """Tell whether any instance may be over its budget, going by all that the machine drew."""
        readings = self._meter.readings
        new_j = _core.drawn_uj() * 1e-6 - self._meter.read_j
        known_j = float(self._limits_now().min())
        # What another process defined is in the table only, what was defined just now only here.
        least_j = min([*self._left.values(), known_j, registry.least_budget_j()])
        self._near = not readings.packages_only or new_j > least_j
        return self._near

    def _look(self) -> None:
        """Look where a glance does not suffice, or it is time."""
        if not self._near and time.monotonic() - self._looked_s < EACH_S:
            return
        self._looked_s = time.monotonic()
        for _ in self._meter.look():
            self._act()

    def _act(self) -> None:
        over = set(self._told.copy().values())
        for task, response in self._responses.items():
            if task not in over:
                response.relent()
        while self._excesses:
            self._respond(*self._excesses.popleft())

    def _respond(self, task: int, instance: int, energy_j: float) -> None:
        """Do what is to be done about one instance, once."""
        action = self._action(task)
        if task not in self._responses:
            entry = self._meter.table.entries[task]
            place = (entry.file or "<unknown>", entry.line or 0)
            self._responses[task] = Response(action, place, running.Everything())
        response, tell = self._responses[task], partial(self._tell, task, energy_j)
        if action == "cancel":
            response.cancel(tell, again=True)
        elif action == "slow" and instance in self._told:
            response.slow_once(tell)
        else:
            response.warn(tell)

    def _tell(self, index: int, energy_j: float) -> str:
        entry = self._meter.table.entries[index]
        return (
            f"an instance of task {entry.name} took {energy_j:.4g} J ({self._how()}), "
            f"more than its budget of {entry.budget_j:g} J; others are counted at the end of the recording"
        )

    def _how(self) -> str:
        return "by an ESTIMATE" if self._meter.quality == "estimated" else self._meter.quality

    def _add(self, ran: Stretch, segment_j: NDArray[np.float64]) -> None:
        """Add what the instances of tasks with a budget took; called by the meter, under its lock."""
        limits = self._limits_now()
        of_ours = np.flatnonzero(np.isfinite(limits[ran.task]) & (ran.task >= 0))
        if not len(of_ours):
            return
        ids, row = np.unique(ran.instance[of_ours], return_inverse=True)
        task = np.zeros(len(ids), np.int64)
        task[row] = ran.task[of_ours]
        energy_j = np.bincount(row, segment_j[of_ours], len(ids))
        for instance, before_j in self._open.items():
            place = int(np.searchsorted(ids, instance))
            if place < len(ids) and ids[place] == instance:
                energy_j[place] += before_j
        ended = np.zeros(len(ids), bool)
        ended[row[ran.ends[of_ours]]] = True
        for place in np.flatnonzero(energy_j > limits[task]).tolist():
            self._count(int(ids[place]), int(task[place]), float(energy_j[place]))
        for instance in ids[ended].tolist():
            for known in (self._open, self._told, self._left):
                known.pop(instance, None)
        ids, task, energy_j = ids[~ended], task[~ended], energy_j[~ended]
        self._open.update(zip(ids.tolist(), energy_j.tolist(), strict=True))
        left_j = limits[task] - energy_j
        self._left.update(zip(ids[left_j >= 0].tolist(), left_j[left_j >= 0].tolist(), strict=True))
        for instance in ids[left_j < 0].tolist():
            self._left.pop(instance, None)

    def _count(self, instance: int, task: int, energy_j: float) -> None:
        self._worst_j[task] = max(self._worst_j.get(task, 0.0), energy_j)
        if instance not in self._told:
            self._told[instance] = task
            self._excesses.append((task, instance, energy_j))
            self._over[task] = self._over.get(task, 0) + 1

    def _limits_now(self) -> NDArray[np.float64]:
        """Return the budget of each task in the table, infinite without one; the last stands for nobody."""
        entries = self._meter.table.entries
        if len(self._limits) != len(entries) + 1:
            said = [np.inf if entry.budget_j is None else entry.budget_j for entry in entries]
            self._limits = np.array([*said, np.inf])
        return self._limits

    def _action(self, task: int) -> str:
        """Return what the decorator asks for; another process's tasks only warn."""
        for number, index in reversed(self._meter.table.numbers(self._process).items()):
            if index == task:
                budget = registry.budget_of(number)
                return "warn" if budget is None else budget[1]
        return "warn"
