"""What a budget may be: checked where tasks are decorated, which must bring nothing along."""

from __future__ import annotations

from tprof.errors import UsageError

# `typing` takes longer to import than all of this package does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    # Joules of each instance, and what happens to one that takes more.
    Budget: TypeAlias = tuple[float, str]

ACTIONS = ("warn", "slow", "cancel")
MOST = 1e15


def check_limit(name: str, limit: float) -> float:
    """Return a limit as a float. Raises UsageError."""
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < MOST:
        message = f"{name} must be a number above 0, got {limit!r}"
        raise UsageError(message)
    return float(limit)


def check_action(name: str, action: str) -> str:
    """Return what is to happen. Raises UsageError."""
    if action not in ACTIONS:
        message = f"{name} must be one of {', '.join(ACTIONS)}, got {action!r}"
        raise UsageError(message)
    return action


def check_budget(budget_j: float, over_budget: str) -> Budget:
    """Return the budget of a task's instances. Raises UsageError."""
    return check_limit("budget_j", budget_j), check_action("over_budget", over_budget)
