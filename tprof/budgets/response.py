"""What happens once a budget is exceeded: a warning, a brake, or the end of what has not begun."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

from tprof import _core, membership
from tprof.errors import BudgetExceededError, SensorError

from .brakes import frequency_brake, other_brake

if TYPE_CHECKING:
    from collections.abc import Callable

    from tprof.running import Block, Everything

    from .brakes import Brake

NOTCH_S = 0.5
"""A brake shows in the watts only after a while."""


class Response:
    """One action and what it has done so far; asked again at each look while the budget is exceeded.

    Attributes
    ----------
    error : raised at the end of the block, None unless the action is to cancel and was taken.
    """

    def __init__(self, action: str, place: tuple[str, int], reach: Block | Everything) -> None:
        """Get ready: `place` is the file and line that warnings point to, `reach` what may be held back."""
        self.error: BudgetExceededError | None = None
        self._action = action
        self._place = place
        self._reach = reach
        self._told = self._slowed = False
        self._refusals: list[BudgetExceededError] = []
        self._brakes: list[Brake] = []
        self._why_not = ""
        self._last_notch_s = 0.0

    def get_ready(self) -> None:
        """Have the frequency's brake at hand: its guard starts slower than a budget may react."""
        if self._action == "slow" and not self._brakes:
            frequency, self._why_not = frequency_brake()
            self._brakes = [] if frequency is None else [frequency]

    def act(self, tell: Callable[[], str]) -> None:
        """Do what is to be done; `tell` says what was exceeded."""
        if self._action == "slow":
            now_s = time.monotonic()
            if now_s - self._last_notch_s >= NOTCH_S:
                self._last_notch_s = now_s
                self.slow(tell)
        elif self._action == "cancel":
            self.cancel(tell, again=False)
        else:
            self.warn(tell)

    def end(self) -> None:
        """Let brakes go and runtimes accept tasks again. Raises SensorError."""
        for error in self._refusals:
            self._reach.accept(error)
        self.ease()

    def ease(self) -> None:
        """Let brakes go, each of them. Raises SensorError."""
        problem = None
        if self._slowed:
            self._slowed = False
            _note("no longer slowed down")
        for brake in self._brakes:
            try:
                brake.let_go()
            except SensorError as error:
                problem = error
        self._brakes = []
        if problem is not None:
            raise problem

    def warn(self, tell: Callable[[], str], done: str = "") -> None:
        """Say it, once."""
        if not self._told:
            self._told = True
            said = tell() + done
            try:
                warnings.warn_explicit(said, RuntimeWarning, *self._place)
            finally:
                if not done:
                    _note(f"warned: {said}")

    def slow(self, tell: Callable[[], str]) -> None:
        """Brake one notch further; a brake that fails makes way for the next."""
        try:
            done = self._brake().pull()
        except SensorError as error:
            self._why_not = str(error)
            self._brakes.append(other_brake(self._reach.runtimes))
            done = self._brakes[-1].pull()
        if done is not None:
            self._slowed = True
            _note(f"slowed down: {done}")
        why = f" (the frequency stays: {self._why_not})" if self._why_not else ""
        self.warn(tell, f"; {done or 'nothing could be slowed down'}{why}")

    def slow_once(self, tell: Callable[[], str]) -> None:
        """Brake one notch, unless that is done and still holds."""
        self._last_notch_s = time.monotonic()
        if not self._brakes:
            self.get_ready()
            self.slow(tell)

    def relent(self) -> None:
        """Let brakes go, not at once: the next excess may follow soon, and a guard takes long to start."""
        if time.monotonic() - self._last_notch_s >= NOTCH_S:
            self.ease()

    def _brake(self) -> Brake:
        if not self._brakes:
            self._brakes = [other_brake(self._reach.runtimes)]
        return self._brakes[-1]

    def cancel(self, tell: Callable[[], str], *, again: bool) -> None:
        """Cancel what has not begun; `again`: for a reason of its own, with an error of its own."""
        if again or not self._refusals:
            self._refusals.append(BudgetExceededError(tell()))
            self.error = self.error or self._refusals[0]
            self._reach.refuse(self._refusals[-1])
            _note(f"cancelled: {self._refusals[-1]}")
            return
        self._reach.refuse(self._refusals[-1])


def _note(why: str) -> None:
    """Write down in the recording's decisions what a budget did."""
    member = membership.current()
    if member is not None:
        member.decide({"t_ns": _core.now_ns(), "kind": "acted", "policy": "budget", "why": why})
