"""What happens once a budget is exceeded: a warning, a brake, or the end of what has not begun."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

from tprof import running
from tprof.errors import BudgetExceededError

from .brakes import frequency_brake, other_brake

if TYPE_CHECKING:
    from collections.abc import Callable

    from tprof.running import Runs

    from .brakes import Brake

NOTCH_S = 0.5
"""A brake shows in the watts only after a while."""


class Response:
    """One action and what it has done so far; asked again at each look while the budget is exceeded.

    Attributes
    ----------
    error : raised at the end of the block, None unless the action is to cancel and was taken.
    """

    def __init__(self, action: str, file: str, line: int) -> None:
        """Get ready: `file` and `line` are where warnings point to. Raises SensorError."""
        self.error: BudgetExceededError | None = None
        self._action = action
        self._place = (file, line)
        self._told = False
        self._refused: list[Runs] = []
        self._brakes: list[Brake] = []
        self._why_not = ""
        self._last_notch_s = 0.0
        if action == "slow":
            frequency, self._why_not = frequency_brake()
            self._brakes = [] if frequency is None else [frequency]

    def act(self, tell: Callable[[], str]) -> None:
        """Do what is to be done; `tell` says what was exceeded."""
        if self._action == "slow":
            self._slow(tell)
        elif self._action == "cancel":
            self._cancel(tell)
        else:
            self._warn(tell)

    def end(self) -> None:
        """Let brakes go and runtimes accept tasks again. Raises SensorError."""
        for runtime in self._refused:
            runtime.refuse(None)
        for brake in self._brakes:
            brake.let_go()

    def _warn(self, tell: Callable[[], str], done: str = "") -> None:
        if not self._told:
            self._told = True
            warnings.warn_explicit(tell() + done, RuntimeWarning, *self._place)

    def _slow(self, tell: Callable[[], str]) -> None:
        now_s = time.monotonic()
        if now_s - self._last_notch_s < NOTCH_S:
            return
        self._last_notch_s = now_s
        if not self._brakes:
            self._brakes = [other_brake()]
        done = self._brakes[0].pull()
        why = f" (the frequency stays: {self._why_not})" if self._why_not else ""
        self._warn(tell, f"; {done or 'nothing could be slowed down'}{why}")

    def _cancel(self, tell: Callable[[], str]) -> None:
        if self.error is None:
            self.error = BudgetExceededError(tell())
        for runtime in running.runtimes[-1:]:
            runtime.refuse(self.error)
            if runtime not in self._refused:
                self._refused.append(runtime)
