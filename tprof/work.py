"""Declared work of tasks: flops and bytes, for the roofline.

Numbers are written to the table of tasks. Functions of the arguments are called at each recorded call, inside the
instance; each thread sums their results, and the sums are written when the process leaves the session. Tasks without
a declaration, or with numbers, have no additional cost per call.
"""

from __future__ import annotations

import functools
import math
import threading

TYPE_CHECKING = False  # `typing` takes longer to import than all of this package does
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from inspect import Signature
    from typing import Any, Protocol, TypeAlias

    Amount: TypeAlias = float | Callable[..., float] | None
    Work: TypeAlias = tuple[Amount, Amount]  # flops and bytes of an instance
    Failure: TypeAlias = tuple[str, str]  # of "flops" or "bytes", and what went wrong
    # Calls, their flops and bytes, calls without a number, the first of these.
    Sum: TypeAlias = tuple[int, float, float, int, Failure | None]

    class OwnsSums(Protocol):
        """The state of the process."""

        sums: Sums | None
        """Of the recording that runs."""


ATTRIBUTE = "__tprof_work__"
UNDECLARED: Work = (None, None)
KINDS = ("flops", "bytes")
LONGEST_FAILURE = 300


def check(flops: Amount, traffic: Amount) -> Work:
    """Check both and return them.

    Raises
    ------
    ValueError
        If one is neither a number of 0 or more nor a function.
    """
    for name, value in zip(KINDS, (flops, traffic), strict=True):
        if value is not None and not callable(value) and not _is_amount(value):
            raise ValueError(
                f"{name} must be a number of 0 or more, or a function of the arguments that gives one; got {value!r}"
            )
    return flops, traffic


def check_parameters(function: Callable[..., Any], work: Work) -> None:
    """Reject a function that fits no call; one that fits some calls is called, and its failures are counted.

    Raises
    ------
    TypeError
        If the function accepts none of the task's calls.
    """
    takes = _signature(function)
    if takes is None or any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in takes.parameters.values()):
        return
    for kind, ask in zip(KINDS, work, strict=True):
        asks = _signature(ask) if callable(ask) else None
        if asks is not None and not any(_fits(asks, *call) for call in _calls(takes, asks)):
            name = getattr(function, "__qualname__", repr(function))
            raise TypeError(
                f"{kind} of task {name} is asked with the task's arguments, and takes other ones: "
                f"{asks.replace(return_annotation=asks.empty)} for {takes.replace(return_annotation=takes.empty)}"
            )


def _signature(function: Callable[..., Any]) -> Signature | None:
    import inspect  # noqa: PLC0415 - slow, and few tasks declare a function

    try:
        return inspect.signature(function, follow_wrapped=False)
    except Exception:  # noqa: BLE001 - a callable without a signature cannot be checked before a call
        return None


def _calls(takes: Signature, asks: Signature) -> Iterator[tuple[int, list[str]]]:
    """Yield calls that the function accepts: the number of positional arguments, and the names of the others.

    Optional arguments are given by name if `asks` has a parameter for them.
    """
    parameters = list(takes.parameters.values())
    by_position = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    for count in range(len(by_position) + 1):
        others = [one for one in parameters if one not in by_position[:count]]
        given = [one for one in others if one.default is one.empty or one.name in asks.parameters]
        if all(one.kind is not one.POSITIONAL_ONLY or one.default is not one.empty for one in given):
            yield count, [one.name for one in given if one.kind is not one.POSITIONAL_ONLY]


def _fits(asks: Signature, count: int, names: list[str]) -> bool:
    try:
        asks.bind(*range(count), **dict.fromkeys(names))
    except TypeError:
        return False
    return True


def numbers(work: Work) -> dict[str, float]:
    """Return the constant amounts, as in the table of tasks."""
    pairs = zip(KINDS, work, strict=True)
    return {name: float(value) for name, value in pairs if value is not None and not callable(value)}


def summed(work: Work, sums: Sum) -> dict[str, float | str]:
    """Return the sums over calls, as in the table of tasks; only of declared functions."""
    calls, flops, traffic, failed, failure = sums
    amounts = {"flops_sum": flops} if callable(work[0]) else {}
    amounts |= {"bytes_sum": traffic} if callable(work[1]) else {}
    # A sum of finite numbers may still overflow, and JSON has no infinity.
    finite = {name: value for name, value in amounts.items() if math.isfinite(value)}
    first = {} if failure is None else {"failed": failure[0], "failure": failure[1]}
    return {"calls": calls, "calls_failed": failed, **finite, **first}


def count_calls(function: Callable[..., Any], number: int, work: Work, owner: OwnsSums) -> Callable[..., Any]:
    """Return a wrapper that adds up a call's flops and bytes before the call; the function itself without any."""
    flops, traffic = (value if callable(value) else None for value in work)
    if flops is None and traffic is None:
        return function

    @functools.wraps(function)
    def counting(*args: Any, **kwargs: Any) -> Any:
        sums = owner.sums
        if sums is not None:
            sums.add(number, (flops, traffic), args, kwargs)
        return function(*args, **kwargs)

    return counting


class Sums:
    """Flops and bytes of this process's calls: each thread has its own sums, without locks."""

    def __init__(self) -> None:
        """Begin without sums."""
        self._of_thread = threading.local()
        self._all: list[dict[int, list[float]]] = []
        self._failures: dict[int, Failure] = {}

    def add(
        self, number: int, asked: tuple[Callable[..., float] | None, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Add the work of a call of task `number`."""
        mine: dict[int, list[float]] | None = getattr(self._of_thread, "sums", None)
        if mine is None:
            mine = self._of_thread.sums = {}
            self._all.append(mine)
        calls = mine.setdefault(number, [0, 0.0, 0.0, 0])
        amounts = []
        for kind, ask in zip(KINDS, asked, strict=True):
            try:
                value: object = ask(*args, **kwargs) if ask is not None else 0.0
            except Exception as error:  # noqa: BLE001 - a wrong declaration must not end the program it describes
                value = error
            if not _is_amount(value):
                calls[3] += 1
                if number not in self._failures:
                    self._failures[number] = (kind, _failure(value))
                return
            amounts.append(float(value))  # type: ignore[arg-type]
        calls[0] += 1
        calls[1] += amounts[0]
        calls[2] += amounts[1]

    def total(self) -> dict[int, Sum]:
        """Return the sums by task."""
        total: dict[int, list[float]] = {}
        for mine in list(self._all):
            for number, calls in list(mine.items()):
                before = total.setdefault(number, [0, 0.0, 0.0, 0])
                total[number] = [a + b for a, b in zip(before, calls, strict=True)]
        return {
            number: (int(one[0]), one[1], one[2], int(one[3]), self._failures.get(number))
            for number, one in total.items()
        }


def _failure(value: object) -> str:
    """Describe the failure of a declared function."""
    kind = type(value).__name__
    if not isinstance(value, Exception):
        what = repr(value) if type(value) in (int, float) else f"an object of type {kind}"
        return f"it gave {what[:LONGEST_FAILURE]}, not a number of 0 or more"
    try:
        reason = str(value)
    except Exception:  # noqa: BLE001 - an error that cannot say what it is must not end the program either
        reason = "it does not say what"
    return f"{kind}: {reason}"[:LONGEST_FAILURE]


def _is_amount(value: object) -> bool:
    if isinstance(value, str | bytes):
        return False
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return number >= 0 and math.isfinite(number)
