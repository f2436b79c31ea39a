"""A budget of joules or watts for what runs inside a with-block."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, Self

from tprof import _core, membership, running
from tprof.errors import TprofError, UsageError
from tprof.limits import check_action, check_limit, check_names

from . import private
from .response import Response
from .watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from tprof.live import Energy, Meter

WINDOW_S = 0.5
SETTLE_S, SETTLE_STEP_S = 0.06, 0.002
EACH_S = 0.2
"""So often a look that costs more than a glance, though nothing asks for it: for the history."""
LONGEST_HISTORY = 100_000
NAMED = 3


class Look(NamedTuple):
    """What was known at one look: seconds since the block began, joules since then, mean watts over the window."""

    time_s: float
    used_j: float
    power_w: float


class Budget:
    """Joules or watts that what runs inside the block may take; made by `tprof.budget`.

    Attributes
    ----------
    used_j : joules so far; after the block, all
    quality : ``"measured"``, ``"estimated"``, …: how these are known
    exceeded : whether the budget was exceeded
    history : a `Look` for each time the joules had moved on; the latest 100,000
    """

    def __init__(
        self,
        *,
        joules: float | None,
        watts: float | None,
        action: str,
        tasks: Sequence[str] | str | None,
        window_s: float,
    ) -> None:
        """Check what is asked; nothing happens before the block."""
        self._joules = None if joules is None else check_limit("joules", joules)
        self._watts = None if watts is None else check_limit("watts", watts)
        if joules is None and watts is None:
            message = "a budget needs a limit: give joules=, watts= or both"
            raise UsageError(message)
        self._action = check_action("action", action)
        self._tasks = None if tasks is None else check_names("tasks", tasks)
        self._window_s = check_limit("window_s", window_s)
        self.used_j = 0.0
        self.quality = "none"
        self.exceeded = False
        self.history: deque[Look] = deque(maxlen=LONGEST_HISTORY)
        self._window: deque[tuple[int, float]] = deque()
        self._lock = threading.Lock()
        self._held = ExitStack()
        self._pid = 0

    def __enter__(self) -> Self:
        """Begin to watch, with a private recording where none runs."""
        if self._pid:
            message = "this budget's block has begun already: make one budget for each block"
            raise UsageError(message)
        self._pid = os.getpid()
        frame = sys._getframe(1)  # noqa: SLF001 - where warnings are to point to
        self._place = (frame.f_code.co_filename, frame.f_lineno)
        if private.join():
            self._held.callback(private.leave)
        try:
            self._begin()
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settle the account; raises `BudgetExceededError` where the action was to cancel and had to be taken."""
        if self._pid != os.getpid():
            return
        try:
            problem = self._watcher.stop() or self._look_last(warns=error is None)
        finally:
            self._held.close()
        exceeded = self._response.error
        if error is not None:
            if exceeded is not None and error is not exceeded:
                error.add_note(str(exceeded))
            return
        for raised in (exceeded, problem):
            if raised is not None:
                raise raised

    def _look_last(self, *, warns: bool) -> Exception | None:
        try:
            self._settle()
            self._look()
            if warns:
                self._warn_of_absent()
        except (TprofError, Warning) as error:
            return error
        return None

    def _warn_of_absent(self) -> None:
        """Say which of the tasks that count did not run, since a name may be mistyped."""
        before, now = self._begun.tasks, self._meter.energy().tasks
        ran = {name for name in now if now[name] != before.get(name)}
        absent = sorted((self._tasks or frozenset()) - ran)
        if absent:
            there = ", ".join(sorted(ran)[:NAMED]) or "none"
            message = (
                f"the budget counts {', '.join(absent)}, but none of that name ran in its block (what ran: {there}); "
                "give names as a summary shows them"
            )
            warnings.warn_explicit(message, RuntimeWarning, *self._place)

    def _begin(self) -> None:
        member = membership.current()
        if member is None:
            message = "the recording ended while a budget began: keep it running around the budget's block"
            raise UsageError(message)
        self._meter: Meter = member.meter()
        self._settle()
        self.quality = self._meter.quality
        if self.quality == "none":
            message = (
                'a budget needs an energy sensor, and this recording has none: record with energy="auto" or "estimate"'
            )
            raise UsageError(message)
        self._hold_back()
        self._begun = self._meter.energy()
        self._begun_j = self._meter.used_j(self._tasks)
        self._begun_ns = self._meter.until_ns
        self._window.append((self._begun_ns, 0.0))
        self._look()
        self._watcher = Watcher(self._glance)
        self._watcher.start()

    def _hold_back(self) -> None:
        """Get ready to act, before the account begins: what that takes is not the block's."""
        block = running.Block(cancels=self._action == "cancel")
        self._held.callback(block.end)
        self._response = Response(self._action, self._place, block)
        self._held.callback(self._response.end)
        if self._action == "slow":
            self._response.get_ready()
            self._settle()

    def _settle(self) -> None:
        """Wait until what was drawn up to now is known, which takes an estimate 20 ms."""
        now_ns = _core.now_ns()
        deadline_s = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline_s:
            self._meter.used_j(self._tasks)
            if self._meter.until_ns >= now_ns:
                return
            time.sleep(SETTLE_STEP_S)

    def _glance(self) -> None:
        """Look only where the budget may be exceeded by now, going by all that the machine drew, or it is time."""
        if self._response.error is not None:
            self._response.act(self._tell)  # tasks that were spawned meanwhile
        near = False
        if not self.exceeded:
            known = self._meter.packages_only
            near = not known or self._is_near(_core.drawn_uj() * 1e-6 - self._looked_at_j)
        if near or time.monotonic() - self._looked_s >= EACH_S:
            self._look()

    def _is_near(self, more_j: float) -> bool:
        """Tell whether the budget is exceeded if all that was drawn since the last look counts."""
        most_j = self.used_j + more_j
        return self._is_over(most_j, (most_j - self._window[0][1]) / self._window_s)

    def _look(self) -> None:
        """See what was used, and act on it."""
        self._looked_s = time.monotonic()
        with self._lock:
            self.used_j = self._meter.used_j(self._tasks) - self._begun_j
            self._looked_at_j = self._meter.accounts.measured_j
            until_ns = self._meter.until_ns
            if until_ns == self._window[-1][0]:
                return
            power_w = self._slide(until_ns)
            self.history.append(Look((until_ns - self._begun_ns) * 1e-9, self.used_j, power_w))
            if self._is_over(self.used_j, power_w):
                try:
                    self._response.act(self._tell)
                finally:
                    self.exceeded = True  # whoever waits for it finds that something was done

    def _slide(self, until_ns: int) -> float:
        """Return the mean power over the window; what lies before the block counts as nothing."""
        window = self._window
        window.append((until_ns, self.used_j))
        since_ns = until_ns - round(self._window_s * 1e9)
        while len(window) > 2 and window[1][0] <= since_ns:
            window.popleft()
        return (self.used_j - window[0][1]) / max(self._window_s, (until_ns - window[0][0]) * 1e-9)

    def _is_over(self, used_j: float, power_w: float) -> bool:
        return (self._joules is not None and used_j > self._joules) or (
            self._watts is not None and power_w > self._watts
        )

    def _tell(self) -> str:
        """Say what was exceeded, by how much, and who took most, all as one look sees it."""
        now = self._meter.energy()
        used_j, who = self._since_begun(now)
        last = self.history[-1]
        how = "by an ESTIMATE" if self.quality == "estimated" else self.quality
        if self._joules is not None and last.used_j > self._joules:
            time_s = now.until_s - self._begun.until_s
            what = f"the budget of {self._joules:g} J is used up: {used_j:.4g} J, {how}, in {time_s:.3g} s"
        else:
            what = f"more than {self._watts:g} W: {last.power_w:.4g} W, {how}, over {self._window_s:g} s"
        return f"{what}; {who}"

    def _since_begun(self, now: Energy) -> tuple[float, str]:
        """Return the joules that count, and in words which tasks took most of them."""
        before, tasks = self._begun.tasks, now.tasks
        taken = {
            name: tasks[name].energy_j - (before[name].energy_j if name in before else 0.0)
            for name in tasks
            if self._tasks is None or name in self._tasks
        }
        named = sorted((name for name in taken if taken[name] > 0), key=lambda name: -taken[name])[:NAMED]
        who = "most went to " + (", ".join(f"{name} ({taken[name]:.3g} J)" for name in named) or "no task")
        if self._tasks is not None:
            return sum(taken.values()), who
        if self._is_alone():
            return now.tasks_j + now.runtime_j - self._begun.tasks_j - self._begun.runtime_j, who
        return self._meter.used_j(None) - self._begun_j, f"of all processes, {who}"

    def _is_alone(self) -> bool:
        """Tell whether no other process of the recording has run anything."""
        accounts, own = self._meter.accounts, membership.current()
        of_others = (
            joules
            for of_processes in (accounts.process_tasks_j, accounts.process_runtime_j)
            for process, joules in enumerate(of_processes.tolist())
            if own is None or process != own.process
        )
        return not any(of_others)


def budget(
    *,
    joules: float | None = None,
    watts: float | None = None,
    action: str = "warn",
    tasks: Sequence[str] | str | None = None,
    window_s: float = WINDOW_S,
) -> Budget:
    """Give what runs inside a with-block a budget.

    Parameters
    ----------
    joules
        That it may take in all.
    watts
        That it may draw in the mean over the last `window_s` seconds.
    action
        Once more is taken: ``"warn"`` says so once; ``"slow"`` lowers the processor's frequency where that is
        permitted, else lets fewer workers of the runtime take tasks, else lets threads pause after tasks, further
        each half second as long as it is exceeded; ``"cancel"`` cancels what the block spawned into a runtime
        that has not begun, and raises at the end of the block and to whoever waits for the runtime inside it.
    tasks
        Names of the tasks that count, in all processes of the recording; by default all that this process runs,
        between tasks too.
    window_s
        Over which watts are taken.

    Returns
    -------
    Budget
        A context manager with `used_j`, `quality`, `exceeded` and `history`.

    Raises
    ------
    UsageError
        If a limit or an action is wrong, or the recording has no energy sensor.
    BudgetExceededError
        At the end of the block, where ``action="cancel"``.

    Examples
    --------
    >>> import tprof
    >>> @tprof.task
    ... def add(numbers):
    ...     return sum(numbers)
    >>> with tprof.budget(joules=1000) as budget:
    ...     total = add(range(1000))
    >>> budget.exceeded
    False
    """
    return Budget(joules=joules, watts=watts, action=action, tasks=tasks, window_s=window_s)
