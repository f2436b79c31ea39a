"""What a task declares: the data that it reads and writes, packed for a runtime, and the joules of an instance.

Every task's decorator needs this, so it imports nothing slow. tprof itself only stores the accesses.
"""

from __future__ import annotations

from tprof.errors import UsageError

# `typing` takes longer to import than all of this package does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType
    from typing import Any, TypeAlias

    Names: TypeAlias = str | Sequence[str]
    Priority: TypeAlias = int | Callable[..., int]
    # Modes of the parameters, their names, their defaults (Ellipsis: none), how many may be positional, the mode of
    # *args, the priority.
    Access: TypeAlias = tuple[bytes, tuple[str, ...], tuple[object, ...], int, int, Priority]
    # Joules of each instance, and the action if one takes more.
    Budget: TypeAlias = tuple[float, str]

READS, WRITES, UPDATES = 1, 2, 3
LOWEST_PRIORITY, HIGHEST_PRIORITY = -32, 31
VARIADIC = 0x04  # the bit of a code object's co_flags that says that it takes *args

NOTHING: Access = (b"", (), (), 0, 0, 0)
"""Of a task without a declaration: it has no dependences."""

ACTIONS = ("warn", "slow", "cancel")
"""What a budget does once it is exceeded."""
HIGHEST_LIMIT = 1e15


def pack(function: Callable[..., Any], *, reads: Names, writes: Names, updates: Names, priority: Priority) -> Access:
    """Return the declaration by parameter; a parameter that is both read and written is updated.

    Raises
    ------
    TypeError
        If a name is not that of a parameter, or the function has no signature.
    ValueError
        If the priority is out of range.
    """
    _check_priority(priority)
    clauses = [("reads", reads, READS), ("writes", writes, WRITES), ("updates", updates, UPDATES)]
    named = [(name, mode) for clause, names, mode in clauses for name in _names(clause, names)]
    if not named:
        return (*NOTHING[:-1], priority)
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        raise TypeError(f"what {function!r} does with its arguments cannot be declared: their names are not known")
    count = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[:count]
    rest = code.co_varnames[count] if code.co_flags & VARIADIC else None
    modes = dict.fromkeys((*names, *([rest] if rest else ())), 0)
    for name, mode in named:
        if name not in modes:
            known = ", ".join(modes) or "none"
            raise TypeError(f"task {code.co_name} has no parameter {name!r} to read or write: it has {known}")
        modes[name] |= mode
    return (
        bytes(modes[name] for name in names),
        names,
        _defaults(function, code),
        code.co_argcount,
        modes.get(rest or "", 0),
        priority,
    )


def _names(clause: str, given: Names) -> tuple[str, ...]:
    names: tuple[object, ...] = (given,) if isinstance(given, str) or not hasattr(given, "__iter__") else tuple(given)
    strings = tuple(name for name in names if isinstance(name, str))
    if len(strings) < len(names):
        raise TypeError(f"{clause} says which parameters by name: one name or several, got {given!r}")
    return strings


def _check_priority(priority: Priority) -> None:
    if callable(priority):
        return
    if not isinstance(priority, int) or not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise ValueError(
            f"a priority is a whole number from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}, "
            f"or a function of the arguments that gives one; got {priority!r}"
        )


def _defaults(function: Callable[..., Any], code: CodeType) -> tuple[object, ...]:
    positional: tuple[object, ...] = getattr(function, "__defaults__", None) or ()
    named: dict[str, object] = getattr(function, "__kwdefaults__", None) or {}
    first = code.co_argcount - len(positional)
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return (*(...,) * first, *positional, *(named.get(name, ...) for name in keyword_only))


def check_limit(name: str, limit: float) -> float:
    """Return a limit as a float. Raises UsageError."""
    if not _is_number(limit) or not 0 < limit < HIGHEST_LIMIT:
        raise UsageError(f"{name} must be a number above 0, got {limit!r}")
    return float(limit)


def check_action(name: str, action: str) -> str:
    """Return the action. Raises UsageError."""
    if action not in ACTIONS:
        raise UsageError(f"{name} must be one of {', '.join(ACTIONS)}, got {action!r}")
    return action


def check_budget(budget_j: float | None, over_budget: str) -> Budget | None:
    """Return the budget of a task's instances, None without one. Raises UsageError."""
    check_action("over_budget", over_budget)
    if budget_j is not None:
        return check_limit("budget_j", budget_j), over_budget
    if over_budget != ACTIONS[0]:
        raise UsageError(f"over_budget={over_budget!r} needs a budget to be over: give budget_j= too")
    return None


def _is_number(value: object) -> bool:
    if isinstance(value, int | float):
        return not isinstance(value, bool)
    from numbers import Real  # noqa: PLC0415 - most limits are plain numbers

    return isinstance(value, Real)
