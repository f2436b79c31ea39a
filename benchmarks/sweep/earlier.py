"""Whether a folder's sweep is this one, to go on with, and if not, what sets them apart."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tprof.errors import SensorError, UsageError

from .folder import FILES, POINTS
from .frequencies import named
from .identity import changed
from .plan_file import FILE, load_plan

if TYPE_CHECKING:
    from .order import Order
    from .plan import Plan

ELSEWHERE = "choose another folder with -o DIR, or replace it with --overwrite"


def earlier(order: Order, plan: Plan, *, refused: str | None) -> Plan | None:
    """Return the plan that is gone on with, None where there is none.

    Parameters
    ----------
    order, plan
        What is asked for now.
    refused
        Why no frequency can be set.

    Raises
    ------
    UsageError
        If the folder holds what must not be replaced or mixed.
    SensorError
        If it is this sweep, whose frequencies cannot be set any more.
    """
    existing = load_plan(order.folder)
    if existing is None:
        _check_empty(order)
        return None
    _check_same(order, existing, plan, refused)
    if len(existing.done) < len(existing.points):
        _take_over(order, existing, plan)
    elif existing.written and not order.resume and all((order.folder / name).exists() for name in FILES):
        message = f"{order.folder} holds this sweep, finished: write its tables again with --resume, {ELSEWHERE}"
        raise UsageError(message)
    existing.try_again()
    existing.written = False
    return existing


def _check_empty(order: Order) -> None:
    if order.resume:
        message = (
            f"{order.folder} holds no sweep to go on with ({FILE}): leave --resume out, or name its folder with -o"
        )
        raise UsageError(message)
    taken = next((name for name in (*FILES, POINTS) if os.path.exists(order.folder / name)), None)
    if taken is not None:
        message = f"{order.folder / taken} exists: {ELSEWHERE}"
        raise UsageError(message)


def _check_same(order: Order, existing: Plan, plan: Plan, refused: str | None) -> None:
    apart = _apart(existing, plan)
    if order.frequencies is None and list(apart) == ["frequencies"]:
        _check_right(order, existing, plan, refused)
    if order.seed is not None and order.seed != existing.seed:
        apart["seed"] = f"seed {existing.seed}, now {order.seed}"
    if apart:
        runs = "1 run" if len(existing.points) == 1 else f"{len(existing.points)} runs"
        message = f"{order.folder} holds another sweep ({runs} of {existing.what.title}; {'; '.join(apart.values())})"
        raise UsageError(f"{message}: {ELSEWHERE}")


def _apart(existing: Plan, plan: Plan) -> dict[str, str]:
    """Return in words what differs between two plans, whatever their order of points."""
    options = [name for name, value in plan.what.as_plain().items() if existing.what.as_plain()[name] != value]
    apart = {"options": f"other {', '.join(options)}"} if options else {}
    if existing.frequencies_hz != plan.frequencies_hz:
        apart["frequencies"] = f"{_frequencies(existing)}, now {_frequencies(plan)}"
    if existing.workers != plan.workers:
        apart["workers"] = f"workers {_numbers(existing)}, now {_numbers(plan)}"
    if existing.repeats != plan.repeats:
        apart["repeats"] = f"{existing.repeats} repeats, now {plan.repeats}"
    return apart


def _check_right(order: Order, existing: Plan, plan: Plan, refused: str | None) -> None:
    """Tell a sweep whose frequencies came or went with the right to set them from another one."""
    if plan.frequencies_hz is None:
        message = f"{order.folder} holds this sweep, and its frequencies cannot be set any more: {refused}"
        raise SensorError(f"{message}; then the same command goes on")
    if existing.frequencies_hz is None:
        message = f"{order.folder} holds this sweep over workers only, since no frequency could be set when it began"
        raise UsageError(f"{message}: go on so with --frequencies none, or choose another folder with -o DIR")


def _take_over(order: Order, existing: Plan, plan: Plan) -> None:
    """Let what is left belong to the program and machine of now, if that is the same or wanted."""
    changes = changed(existing.identity, plan.identity, order.what.title) if existing.done else []
    if changes and not order.accept_changes:
        message = f"{order.folder} holds this sweep, but {' and '.join(changes)} since it began"
        raise UsageError(f"{message}: mix both with --accept-changes, {ELSEWHERE}")
    if changes:
        existing.changes.append(f"after {len(existing.done)} of {len(existing.points)} runs: {' and '.join(changes)}")
    existing.identity = plan.identity


def _frequencies(plan: Plan) -> str:
    return "no frequencies" if plan.frequencies_hz is None else named(plan.frequencies_hz)


def _numbers(plan: Plan) -> str:
    return ",".join(map(str, plan.workers))
