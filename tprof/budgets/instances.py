"""Budgets of single instances, `tprof.task(budget_j=…)`, checked while a recording runs."""

from __future__ import annotations

import time
import warnings
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tprof import _core
from tprof.errors import SensorError, TraceError
from tprof.session.process_state import this_process

from .monitor import Monitor
from .response import Response

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tprof.live import Block, Meter
    from tprof.session.membership import Membership

EACH_S = 0.2
"""Longest time between reads: they also release throttles and find tasks that other processes define."""


class InstanceBudgets:
    """Tracks the joules of instances of tasks with a budget, in all processes of the recording."""

    def __init__(self, member: Membership) -> None:
        """Start the monitor. Raises TraceError."""
        self._meter: Meter = member.meter()
        self._process = member.process
        self._exceeding: dict[int, int] = {}
        """By instance the task, of those over their budget that have not ended."""
        self._excesses: deque[tuple[int, int, float]] = deque()
        """Task, instance and joules of excesses without a response yet."""
        self._limits: NDArray[np.float64] = np.empty(0)
        self._over: dict[int, int] = {}
        self._worst_j: dict[int, float] = {}
        self._responses: dict[int, Response] = {}
        self._meter.listeners.append(self._add)
        self._left: dict[int, float] = {}
        """Joules left to each instance that has not ended."""
        self._near = True
        self._read_at_s = 0.0
        self._monitor = Monitor(self._read, self._poll)
        self._monitor.start()

    def stop(self) -> Exception | None:
        """Read once more, release throttles, and warn of the number of excesses; returns an exception or None.

        Call it after the last sensor reading was written, since it reads all that was recorded.
        """
        problem = self._monitor.stop()
        if problem is None:
            try:
                self._meter.energy()
                self._act()
            except TraceError as error:
                problem = error
        self._warn_of_excesses()
        for response in self._responses.values():
            try:
                response.end()
            except SensorError as error:
                problem = problem or error
        errors = (response.error for response in self._responses.values() if response.error is not None)
        return problem or next(errors, None)

    def _warn_of_excesses(self) -> None:
        for index, count in self._over.items():
            entry, started = self._meter.table.entries[index], int(self._meter.accounts.starts[index])
            message = (
                f"task {entry.name}: {count} of {started} instances were over their budget of {entry.budget_j:g} J "
                f"({self._how()}); the most took {self._worst_j[index]:.4g} J"
            )
            warnings.warn_explicit(message, RuntimeWarning, entry.file or "<unknown>", entry.line or 0)

    def _poll(self) -> bool:
        """Return whether any instance may be over its budget, if it had drawn all of the machine's energy."""
        new_j = _core.drawn_uj() * 1e-6 - self._meter.read_j
        known_j = float(self._limits_now().min())
        # Tasks of other processes are in the table only, tasks defined just now only in the registry.
        least_j = min([*self._left.values(), known_j, this_process.tasks.least_budget_j()])
        self._near = not self._meter.domains.packages_only or new_j > least_j
        return self._near

    def _read(self) -> None:
        """Read samples if a limit is near, or the last read is long ago."""
        if not self._near and time.monotonic() - self._read_at_s < EACH_S:
            return
        self._read_at_s = time.monotonic()
        for _ in self._meter.read(self._monitor.saved_s):
            self._act()

    def _act(self) -> None:
        over = set(self._exceeding.copy().values())
        for task, response in self._responses.items():
            if task not in over:
                response.ease_later()
        while self._excesses:
            self._respond(*self._excesses.popleft())

    def _respond(self, task: int, instance: int, energy_j: float) -> None:
        """Respond to the excess of one instance, once."""
        action = self._action(task)
        if task not in self._responses:
            entry = self._meter.table.entries[task]
            place = (entry.file or "<unknown>", entry.line or 0)
            self._responses[task] = Response(action, place, this_process.runtimes)
        response, describe = self._responses[task], partial(self._describe, task, energy_j)
        if action == "cancel":
            response.cancel(describe, again=True)
        elif action == "slow" and instance in self._exceeding:
            response.slow_once(describe)
        else:
            response.warn(describe)

    def _describe(self, index: int, energy_j: float) -> str:
        entry = self._meter.table.entries[index]
        return (
            f"an instance of task {entry.name} took {energy_j:.4g} J ({self._how()}), "
            f"more than its budget of {entry.budget_j:g} J; others are counted at the end of the recording"
        )

    def _how(self) -> str:
        return "by an ESTIMATE" if self._meter.quality == "estimated" else self._meter.quality

    def _add(self, block: Block) -> None:
        """Take the joules of instances of tasks with a budget; called by the meter, under its lock."""
        limits, records = self._limits_now(), block.records
        at = np.flatnonzero(np.isfinite(limits[np.minimum(records["task"].astype(np.int64), len(limits) - 1)]))
        for row in at.tolist():
            instance, task = int(records["instance"][row]), int(records["task"][row])
            energy_j = float(records["dynamic_j"][row] + records["static_j"][row])
            if energy_j > limits[task]:
                self._count(instance, task, energy_j)
            self._left.pop(instance, None)
            if block.over[row]:
                self._exceeding.pop(instance, None)
            elif energy_j <= limits[task]:
                self._left[instance] = float(limits[task]) - energy_j

    def _count(self, instance: int, task: int, energy_j: float) -> None:
        self._worst_j[task] = max(self._worst_j.get(task, 0.0), energy_j)
        if instance not in self._exceeding:
            self._exceeding[instance] = task
            self._excesses.append((task, instance, energy_j))
            self._over[task] = self._over.get(task, 0) + 1

    def _limits_now(self) -> NDArray[np.float64]:
        """Return the budget of each task in the table, infinite without one; the last entry stands for no task."""
        entries = self._meter.table.entries
        if len(self._limits) != len(entries) + 1:
            budgets_j = [np.inf if entry.budget_j is None else entry.budget_j for entry in entries]
            self._limits = np.array([*budgets_j, np.inf])
        return self._limits

    def _action(self, task: int) -> str:
        """Return the action of the task's decorator; tasks of other processes only warn."""
        for number, index in reversed(self._meter.table.numbers(self._process).items()):
            if index == task:
                budget = this_process.tasks.budget_of(number)
                return "warn" if budget is None else budget[1]
        return "warn"
