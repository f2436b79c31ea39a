"""Checks that a function for flops or bytes accepts the task's arguments."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from tprof.work import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from inspect import Signature
    from typing import Any

    from tprof.work import Work

P = inspect.Parameter
POSITIONAL = (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)
ANY_NUMBER = (P.VAR_POSITIONAL, P.VAR_KEYWORD)


def check_parameters(function: Callable[..., Any], work: Work) -> None:
    """Reject a function that fits no call; one that fits some calls is called, and its failures are counted.

    Raises
    ------
    TypeError
        If the function accepts none of the task's calls.
    """
    takes = _signature(function)
    if takes is None or any(one.kind in ANY_NUMBER for one in takes.parameters.values()):
        return
    for kind, ask in zip(KINDS, work, strict=True):
        asks = _signature(ask) if callable(ask) else None
        if asks is not None and not any(_fits(asks, *call) for call in _calls(takes, asks)):
            name = getattr(function, "__qualname__", repr(function))
            message = (
                f"{kind} of task {name} is asked with the task's arguments, and takes other ones: "
                f"{asks.replace(return_annotation=P.empty)} for {takes.replace(return_annotation=P.empty)}"
            )
            raise TypeError(message)


def _signature(function: Callable[..., Any]) -> Signature | None:
    try:
        return inspect.signature(function, follow_wrapped=False)
    except Exception:  # noqa: BLE001 - a callable without a signature cannot be checked before a call
        return None


def _calls(takes: Signature, asks: Signature) -> Iterator[tuple[int, list[str]]]:
    """Yield calls that the function accepts: the number of positional arguments, and the names of the others.

    Optional arguments are given by name if `asks` has a parameter for them.
    """
    parameters = list(takes.parameters.values())
    by_position = [one for one in parameters if one.kind in POSITIONAL]
    for count in range(len(by_position) + 1):
        others = [one for one in parameters if one not in by_position[:count]]
        given = [one for one in others if one.default is P.empty or one.name in asks.parameters]
        if all(one.kind is not P.POSITIONAL_ONLY or one.default is not P.empty for one in given):
            yield count, [one.name for one in given if one.kind is not P.POSITIONAL_ONLY]


def _fits(asks: Signature, count: int, names: list[str]) -> bool:
    try:
        asks.bind(*range(count), **dict.fromkeys(names))
    except TypeError:
        return False
    return True
