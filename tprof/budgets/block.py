"""A budget of joules or watts for the code inside a with-block."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, Self

from tprof import _core
from tprof.declarations import check_action, check_limit
from tprof.errors import TprofError, UsageError
from tprof.session.process_state import Uninterrupted, this_process
from tprof.session.runtimes import Block

from . import private
from .monitor import Monitor
from .response import Response

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from tprof.live import Meter

WINDOW_S = 0.5
EACH_S = 0.2
"""Longest time between reads of samples, for the history."""
LAG_S = 1.0
LONGEST_HISTORY = 100_000
NAMED, NOBODY = 3, "no task"
CATCH_UP_S = 0.5
"""Longest time to read samples until a warning can name a task."""


class BudgetReading(NamedTuple):
    """One entry of the history: seconds and joules since the block began, mean watts over the window."""

    time_s: float
    used_j: float
    power_w: float


class Budget:
    """A budget of joules or watts for a block; made by `tprof.budget`.

    Attributes
    ----------
    used_j : joules so far; after the block, all
    quality : ``"measured"``, ``"estimated"``, …: of these joules
    exceeded : whether the budget was exceeded
    history : a `BudgetReading` for each change of the joules; the latest 100,000
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
        """Check the arguments; nothing happens before the block."""
        self._joules = None if joules is None else check_limit("joules", joules)
        self._watts = None if watts is None else check_limit("watts", watts)
        if joules is None and watts is None:
            raise UsageError("a budget needs a limit: give joules=, watts= or both")
        self._action = check_action("action", action)
        self._tasks = None if tasks is None else _check_names("tasks", tasks)
        self._window_s = check_limit("window_s", window_s)
        self.used_j = 0.0
        self.quality = "none"
        self.exceeded = False
        self.history: deque[BudgetReading] = deque(maxlen=LONGEST_HISTORY)
        self._near = self._lag_reported = False
        self._begun_ns = 0
        self._read_at_s = self._read_j = 0.0
        self._window: deque[tuple[int, float]] = deque()
        self._lock = threading.Lock()
        self._resources = ExitStack()
        self._monitor = Monitor(self._read_if_needed, self._poll)
        self._pid = 0

    def __enter__(self) -> Self:
        """Start the monitor, with a private recording if none runs."""
        if self._pid:
            raise UsageError("this budget's block has begun already: make one budget for each block")
        self._pid = os.getpid()
        frame = sys._getframe(1)  # noqa: SLF001 - the place that warnings point to
        self._place = (frame.f_code.co_filename, frame.f_lineno)
        if private.join():
            self._resources.callback(private.leave)
        try:
            self._begin()
        except BaseException:
            with Uninterrupted():
                self._monitor.stop()
            self._resources.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Read the last joules; raises `BudgetExceededError` if the budget cancelled tasks."""
        if self._pid != os.getpid():
            return
        try:
            with Uninterrupted():
                problem = self._monitor.stop()
            problem = problem or self._read_last(warns=error is None)
        finally:
            self._resources.close()
        exceeded = self._response.error
        if error is not None:
            if exceeded is not None and error is not exceeded:
                error.add_note(str(exceeded))
            return
        for raised in (exceeded, problem):
            if raised is not None:
                raise raised

    def _read_last(self, *, warns: bool) -> Exception | None:
        try:
            self._usage.settle()
            self._read()
            if warns:
                self._warn_of_absent()
        except (TprofError, Warning) as error:
            return error
        return None

    def _warn_of_absent(self) -> None:
        """Warn of counted tasks that did not run, since a name may be mistyped."""
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
        member = this_process.membership
        if member is None:
            raise UsageError("the recording ended while a budget began: keep it running around the budget's block")
        from tprof.live import Usage  # noqa: PLC0415 - NumPy's threads are not the recorded program's

        self._meter: Meter = member.meter()
        self._begun = self._meter.energy()
        self.quality = self._begun.quality
        if self.quality == "none":
            raise UsageError(
                'a budget needs an energy sensor, and this recording has none: record with energy="auto" or "estimate"'
            )
        self._prepare_response()
        self._usage = Usage(self._meter, self._tasks)
        self._begun_ns = self._usage.begun_ns
        self._begun = self._meter.figures()
        self._window.append((self._begun_ns, 0.0))
        self._read()
        self._monitor.start()

    def _prepare_response(self) -> None:
        """Prepare the response before the account begins: the block must not pay for it."""
        block = Block(this_process.runtimes, cancels=self._action == "cancel")
        self._resources.callback(block.end)
        self._response = Response(self._action, self._place, block)
        self._resources.callback(self._response.end)
        self._response.get_ready()

    def _poll(self) -> bool:
        """Return whether the budget may be exceeded, judged by all of the machine's energy; act if it is."""
        if self._response.error is not None:
            self._response.act(self._describe)  # for tasks spawned meanwhile
        self._near = False
        if not self.exceeded:
            known = self._meter.domains.packages_only
            self._near = not known or self._is_near(_core.drawn_uj() * 1e-6 - self._read_j)
        if self._near:
            with self._lock:
                if self._usage.poll():
                    self._compare()
        return self._near

    def _read_if_needed(self) -> None:
        """Read samples if polling does not suffice, or the last read is long ago."""
        if (self._near and not self._usage.is_sure) or time.monotonic() - self._read_at_s >= EACH_S:
            self._read()

    def _is_near(self, more_j: float) -> bool:
        """Return whether the budget would be exceeded if all joules since the last read counted."""
        most_j = self.used_j + more_j
        return self._is_over(most_j, (most_j - self._window[0][1]) / self._window_s)

    def _read(self) -> None:
        """Read the joules used, and act as soon as they exceed the budget."""
        self._read_at_s = time.monotonic()
        with self._lock:
            self._usage.poll()
            for _ in self._meter.read(self._monitor.saved_s):
                self._compare()
            self._warn_of_lag()

    def _compare(self) -> None:
        self.used_j = self._usage.used_j()
        self._read_j = self._usage.read_j
        until_ns = self._usage.until_ns
        if (until_ns, self.used_j) == self._window[-1]:  # samples also change the joules of a time that was known
            return
        power_w = self._slide(until_ns)
        self.history.append(BudgetReading((until_ns - self._begun_ns) * 1e-9, self.used_j, power_w))
        if self._is_over(self.used_j, power_w):
            try:
                self._response.act(self._describe)
            finally:
                self.exceeded = True  # set last: who waits for it finds the action done

    def _warn_of_lag(self) -> None:
        """Warn once if the budget lags behind."""
        lag_s = self._meter.lag_s
        if lag_s > LAG_S and self._tasks is not None and not self._lag_reported:
            self._lag_reported = True
            message = (
                f"a budget of {', '.join(sorted(self._tasks))} is {lag_s:.1f} s behind: more tasks run than the "
                "thread that watches may look at; longer tasks, or a budget without tasks=, are known of in time"
            )
            warnings.warn_explicit(message, RuntimeWarning, *self._place)

    def _slide(self, until_ns: int) -> float:
        """Return the mean power over the window; time before the block counts as 0 W."""
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

    def _describe(self) -> str:
        """Return a sentence: the limit, the excess, and the tasks that took most of it."""
        # The tasks' joules first, so that they never exceed the total that is read after them.
        who, named_j = self._most()
        # The total may be known before the samples that show whose joules these are, on a busy machine long before.
        until_ns, deadline_s = self._usage.until_ns, time.monotonic() + CATCH_UP_S
        while who.endswith(NOBODY) and self._meter.until_ns < until_ns and time.monotonic() < deadline_s:
            for _ in self._meter.read():
                pass
            who, named_j = self._most()
        used_j = self._usage.used_j() if named_j is None else named_j
        last = self.history[-1]
        how = "by an ESTIMATE" if self.quality == "estimated" else self.quality
        if self._joules is not None and last.used_j > self._joules:
            what = f"the budget of {self._joules:g} J is used up: {used_j:.4g} J, {how}, in {last.time_s:.3g} s"
        else:
            what = f"more than {self._watts:g} W: {last.power_w:.4g} W, {how}, over {self._window_s:g} s"
        return f"{what}; {who}"

    def _most(self) -> tuple[str, float | None]:
        """Return a text of the tasks that took most, and the joules of the counted tasks if only some count."""
        before, now = self._begun.tasks, self._meter.figures().tasks
        taken = {
            name: now[name].energy_j - (before[name].energy_j if name in before else 0.0)
            for name in now
            if self._tasks is None or name in self._tasks
        }
        named = sorted((name for name in taken if taken[name] > 0), key=lambda name: -taken[name])[:NAMED]
        who = "most went to " + (", ".join(f"{name} ({taken[name]:.3g} J)" for name in named) or NOBODY)
        if self._tasks is not None:
            return who, sum(taken.values())
        return who if self._is_alone() else f"of all processes, {who}", None

    def _is_alone(self) -> bool:
        """Return whether no other process of the recording has run anything."""
        return self._meter.is_alone


def _check_names(name: str, names: Iterable[str] | str) -> frozenset[str]:
    """Return names of tasks, one or several. Raises UsageError."""
    given = (names,) if isinstance(names, str) else tuple(names) if hasattr(names, "__iter__") else ()
    if not given or not all(isinstance(one, str) and one for one in given):
        raise UsageError(f"{name} must be the name of a task or several such names, got {names!r}")
    return frozenset(given)


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
