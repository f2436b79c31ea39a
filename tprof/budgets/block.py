"""A budget of joules or watts for what runs inside a with-block."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from tprof import _core, membership
from tprof.errors import TprofError, UsageError
from tprof.limits import check_action, check_limit

from .response import Response
from .watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from tprof.live import Meter
    from tprof.recording import Recording

WINDOW_S = 0.5
EACH_S = 0.2
"""So often a look that costs more than a glance, though nothing asks for it: for the history."""
LAG_S = 1.0
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
        self._tasks = None if tasks is None else frozenset((tasks,) if isinstance(tasks, str) else tasks)
        self._window_s = check_limit("window_s", window_s)
        self.used_j = 0.0
        self.quality = "none"
        self.exceeded = False
        self.history: deque[Look] = deque(maxlen=LONGEST_HISTORY)
        self._near = self._told_lag = False
        self._window: deque[tuple[int, float]] = deque()
        self._lock = threading.Lock()
        self._private: tuple[Recording, Path] | None = None
        self._pid = 0

    def __enter__(self) -> Self:
        """Begin to watch, with a private recording where none runs."""
        if self._pid:
            message = "this budget's block has begun already: make one budget for each block"
            raise UsageError(message)
        self._pid = os.getpid()
        frame = sys._getframe(1)  # noqa: SLF001 - where warnings are to point to
        if membership.current() is None:
            self._private = _begin_private()
        try:
            self._begin((frame.f_code.co_filename, frame.f_lineno))
        except BaseException:
            self._end_private()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settle the account; raises `BudgetExceededError` where the action was to cancel and had to be taken."""
        if self._pid != os.getpid():
            return
        try:
            problem = self._watcher.stop() or self._look_last()
        finally:
            try:
                self._response.end()
            finally:
                self._end_private()
        exceeded = self._response.error
        if error is not None:
            if exceeded is not None and error is not exceeded:
                error.add_note(str(exceeded))
            return
        for raised in (exceeded, problem):
            if raised is not None:
                raise raised

    def _look_last(self) -> Exception | None:
        try:
            self._spent.settle()
            self._look()
        except (TprofError, Warning) as error:
            return error
        return None

    def _begin(self, place: tuple[str, int]) -> None:
        member = membership.current()
        if member is None:
            message = "the recording ended while a budget began: keep it running around the budget's block"
            raise UsageError(message)
        from tprof.live import Spent  # noqa: PLC0415 - NumPy's threads are none of a recorded program's

        self._meter: Meter = member.meter()
        self._begun = self._meter.energy()
        self.quality = self._begun.quality
        if self.quality == "none":
            message = (
                'a budget needs an energy sensor, and this recording has none: record with energy="auto" or "estimate"'
            )
            raise UsageError(message)
        self._spent = Spent(self._meter, self._tasks)
        self._begun_ns = self._spent.begun_ns
        self._begun = self._meter.figures()
        self._window.append((self._begun_ns, 0.0))
        self._place = place
        self._response = Response(self._action, *place)
        self._look()
        self._watcher = Watcher(self._look_on, self._glance)
        self._watcher.start()

    def _glance(self) -> bool:
        """Tell whether the budget may be exceeded, going by all that the machine drew; act where it is."""
        if self._response.error is not None:
            self._response.act(self._tell)  # tasks that were spawned meanwhile
        self._near = False
        if not self.exceeded:
            known = self._meter.readings.packages_only
            self._near = not known or self._is_near(_core.drawn_uj() * 1e-6 - self._looked_at_j)
        if self._near:
            with self._lock:
                if self._spent.glance():
                    self._compare()
        return self._near

    def _look_on(self) -> None:
        """Look where glances do not suffice, or it is time."""
        if (self._near and not self._spent.is_sure) or time.monotonic() - self._looked_s >= EACH_S:
            self._look()

    def _is_near(self, more_j: float) -> bool:
        """Tell whether the budget is exceeded if all that was drawn since the last look counts."""
        most_j = self.used_j + more_j
        return self._is_over(most_j, (most_j - self._window[0][1]) / self._window_s)

    def _look(self) -> None:
        """See what was used, and act on it as soon as it is known to be too much."""
        self._looked_s = time.monotonic()
        with self._lock:
            self._spent.glance()
            for _ in self._spent.look():
                self._compare()
            self._tell_lag()

    def _compare(self) -> None:
        self.used_j = self._spent.used_j()
        self._looked_at_j = self._spent.measured_j
        until_ns = self._spent.until_ns
        if until_ns == self._window[-1][0]:
            return
        power_w = self._slide(until_ns)
        self.history.append(Look((until_ns - self._begun_ns) * 1e-9, self.used_j, power_w))
        if self._is_over(self.used_j, power_w):
            try:
                self._response.act(self._tell)
            finally:
                self.exceeded = True  # whoever waits for it finds that something was done

    def _tell_lag(self) -> None:
        """Say once that the budget comes late, rather than let it be."""
        lag_s = self._spent.lag_s
        if lag_s > LAG_S and self._tasks is not None and not self._told_lag:
            self._told_lag = True
            message = (
                f"a budget of {', '.join(sorted(self._tasks))} is {lag_s:.1f} s behind: more tasks run than the "
                "thread that watches may look at; longer tasks, or a budget without tasks=, are known of in time"
            )
            warnings.warn_explicit(message, RuntimeWarning, *self._place)

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
        """Say what was exceeded, by how much, and who took most."""
        last = self.history[-1]
        how = "by an ESTIMATE" if self.quality == "estimated" else self.quality
        if self._joules is not None and last.used_j > self._joules:
            what = f"the budget of {self._joules:g} J is used up: {last.used_j:.4g} J, {how}, in {last.time_s:.3g} s"
        else:
            what = f"more than {self._watts:g} W: {last.power_w:.4g} W, {how}, over {self._window_s:g} s"
        return f"{what}; most went to {self._most()}"

    def _most(self) -> str:
        before = self._begun.tasks
        if self._meter.until_ns <= self._begun_ns:
            self._meter.step()
        now = self._meter.figures().tasks
        taken = {name: one.energy_j - (before[name].energy_j if name in before else 0.0) for name, one in now.items()}
        named = sorted((name for name in taken if taken[name] > 0), key=lambda name: -taken[name])[:NAMED]
        if self._tasks is not None:
            named = [name for name in named if name in self._tasks]
        return ", ".join(f"{name} ({taken[name]:.3g} J)" for name in named) or "no task"

    def _end_private(self) -> None:
        if self._private is not None:
            recording, place = self._private
            self._private = None
            recording.__exit__(None, None, None)
            shutil.rmtree(place, ignore_errors=True)


def _begin_private() -> tuple[Recording, Path]:
    from tprof.recording import record  # noqa: PLC0415 - kept off `import tprof`

    place = Path(tempfile.mkdtemp(prefix="tprof-budget-"))
    recording = record(place / "budget.tprof", counters="none", idle_s=0)
    try:
        recording.__enter__()
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return recording, place


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
        each half second as long as it is exceeded; ``"cancel"`` cancels what a runtime has not begun and raises at
        the end of the block and to whoever waits for the runtime.
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
