"""The response to an exceeded budget: a warning, throttling, or the cancellation of pending tasks."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

from tprof import _core
from tprof.errors import BudgetExceededError, SensorError
from tprof.session.process_state import this_process

from .throttling import frequency_throttle, other_throttle

if TYPE_CHECKING:
    from collections.abc import Callable

    from tprof.session.runtimes import Block, Runtimes

    from .throttling import Throttle

STEP_S = 0.5
"""Throttling affects the power only after a while."""


class Response:
    """One action and what it has done so far; called again at each reading while the budget is exceeded.

    Attributes
    ----------
    error : to be raised at the end of the block; None unless tasks were cancelled.
    """

    def __init__(self, action: str, place: tuple[str, int], reach: Block | Runtimes) -> None:
        """Create a response; `place`: file and line that warnings point to, `reach`: the runtimes it may act on."""
        self.error: BudgetExceededError | None = None
        self._action = action
        self._place = place
        self._reach = reach
        self._warned = self._slowed = False
        self._refusals: list[BudgetExceededError] = []
        self._throttles: list[Throttle] = []
        self._why_not = ""
        self._last_step_s = 0.0

    def get_ready(self) -> None:
        """Prepare the frequency's throttle: its guard starts more slowly than a budget may react."""
        if self._action == "slow" and not self._throttles:
            frequency, self._why_not = frequency_throttle()
            self._throttles = [] if frequency is None else [frequency]

    def act(self, describe: Callable[[], str]) -> None:
        """Take the action; `describe` returns a sentence about the excess."""
        if self._action == "slow":
            now_s = time.monotonic()
            if now_s - self._last_step_s >= STEP_S:
                self._last_step_s = now_s
                self.slow(describe)
        elif self._action == "cancel":
            self.cancel(describe, again=False)
        else:
            self.warn(describe)

    def end(self) -> None:
        """Release all throttles and let runtimes accept tasks again. Raises SensorError."""
        for error in self._refusals:
            self._reach.accept(error)
        self.ease()

    def ease(self) -> None:
        """Release all throttles. Raises SensorError."""
        problem = None
        if self._slowed:
            self._slowed = False
            _note("no longer slowed down")
        for throttle in self._throttles:
            try:
                throttle.release()
            except SensorError as error:
                problem = error
        self._throttles = []
        if problem is not None:
            raise problem

    def warn(self, describe: Callable[[], str], done: str = "") -> None:
        """Issue the warning, once."""
        if not self._warned:
            self._warned = True
            message = describe() + done
            try:
                warnings.warn_explicit(message, RuntimeWarning, *self._place)
            finally:
                if not done:
                    _note(f"warned: {message}")

    def slow(self, describe: Callable[[], str]) -> None:
        """Throttle one step further; use the next throttle if one fails."""
        try:
            done = self._throttle().tighten()
        except SensorError as error:
            self._why_not = str(error)
            self._throttles.append(other_throttle(self._reach.runtimes))
            done = self._throttles[-1].tighten()
        if done is not None:
            self._slowed = True
            _note(f"slowed down: {done}")
        why = f" (the frequency stays: {self._why_not})" if self._why_not else ""
        self.warn(describe, f"; {done or 'nothing could be slowed down'}{why}")

    def slow_once(self, describe: Callable[[], str]) -> None:
        """Throttle one step, unless it is throttled already."""
        self._last_step_s = time.monotonic()
        if not self._throttles:
            self.get_ready()
            self.slow(describe)

    def ease_later(self) -> None:
        """Release the throttles after a while: the next excess may follow soon, and a guard starts slowly."""
        if time.monotonic() - self._last_step_s >= STEP_S:
            self.ease()

    def _throttle(self) -> Throttle:
        if not self._throttles:
            self._throttles = [other_throttle(self._reach.runtimes)]
        return self._throttles[-1]

    def cancel(self, describe: Callable[[], str], *, again: bool) -> None:
        """Cancel pending tasks; `again`: even after an earlier cancellation, with a new error."""
        if again or not self._refusals:
            self._refusals.append(BudgetExceededError(describe()))
            self.error = self.error or self._refusals[0]
            self._reach.refuse(self._refusals[-1])
            _note(f"cancelled: {self._refusals[-1]}")
            return
        self._reach.refuse(self._refusals[-1])


def _note(why: str) -> None:
    """Add an action of a budget to the recording's decisions."""
    member = this_process.membership
    if member is not None:
        member.decide({"t_ns": _core.now_ns(), "kind": "acted", "policy": "budget", "why": why})
