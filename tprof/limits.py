"""Checks a budget's arguments; used by the decorator of tasks, so it imports nothing slow."""

from __future__ import annotations

from tprof.errors import UsageError

# `typing` takes longer to import than all of this package does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    # Joules of each instance, and the action if one takes more.
    Budget: TypeAlias = tuple[float, str]

    from collections.abc import Iterable

ACTIONS = ("warn", "slow", "cancel")
MOST = 1e15


def check_limit(name: str, limit: float) -> float:
    """Return a limit as a float. Raises UsageError."""
    if not _is_number(limit) or not 0 < limit < MOST:
        message = f"{name} must be a number above 0, got {limit!r}"
        raise UsageError(message)
    return float(limit)


def check_action(name: str, action: str) -> str:
    """Return the action. Raises UsageError."""
    if action not in ACTIONS:
        message = f"{name} must be one of {', '.join(ACTIONS)}, got {action!r}"
        raise UsageError(message)
    return action


def check_budget(budget_j: float | None, over_budget: str) -> Budget | None:
    """Return the budget of a task's instances, None without one. Raises UsageError."""
    check_action("over_budget", over_budget)
    if budget_j is not None:
        return check_limit("budget_j", budget_j), over_budget
    if over_budget != ACTIONS[0]:
        message = f"over_budget={over_budget!r} needs a budget to be over: give budget_j= too"
        raise UsageError(message)
    return None


def check_names(name: str, names: Iterable[str] | str) -> frozenset[str]:
    """Return names of tasks, one or several. Raises UsageError."""
    given = (names,) if isinstance(names, str) else tuple(names) if hasattr(names, "__iter__") else ()
    if not given or not all(isinstance(one, str) and one for one in given):
        message = f"{name} must be the name of a task or several such names, got {names!r}"
        raise UsageError(message)
    return frozenset(given)


def _is_number(value: object) -> bool:
    if isinstance(value, int | float):
        return not isinstance(value, bool)
    from numbers import Real  # noqa: PLC0415 - most limits are plain numbers

    return isinstance(value, Real)
