"""A sweep's folder: held by one sweep at a time, emptied of an earlier one only, and resumed if it is the same.

The same is a sweep of the same points, program text and machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tprof import __version__
from tprof.errors import SensorError, TprofError, UsageError
from tprof.sensors.topology import describe_host
from tprof.trace.plain_values import counted

from .frequencies import named
from .plan import FILE, load_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from .order import Order
    from .plan import Plan


FILES = ("sweep.csv", "sweep-points.csv", "sweep.json", "sweep.html")
POINTS = "points"
WARM_UP = "warm-up"
_OF_A_RUN = re.compile(rf"(?:(?:\d+[kM]Hz-)?\d+w-\d+|{WARM_UP})\.(?:tprof|json|log)|\..*\.json\.new")
ELSEWHERE = "choose another folder with -o DIR, or replace it with --overwrite"
Identity = dict[str, str | int | None]
PROGRAM = "program"
"""The digest of its file; of a benchmark the version of tprof, and None for what is no file."""


def make(folder: Path) -> None:
    """Make the folder and its parents. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError(f"{folder} is a file: name a folder with -o DIR") from None
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}; choose another folder with -o DIR") from error


@contextmanager
def claimed(folder: Path) -> Iterator[str | None]:
    """Hold the folder against other sweeps; the kernel releases it however this process ends.

    Yields why it is not held if its file system locks no folders (NFS), else None. Raises UsageError if another sweep
    holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another sweep is running in {folder}: wait for it, or choose another folder with -o DIR"
            ) from None
        except OSError as error:
            yield f"{folder} cannot be locked ({error.strerror}): start no other sweep in it"
        else:
            yield None
    finally:
        os.close(descriptor)


def clear(folder: Path) -> None:
    """Remove an earlier sweep: its tables first, so that none is ever read beside another's plan.

    Raises
    ------
    TprofError
        If something cannot be removed.
    """
    points = folder / POINTS
    runs = sorted(points.iterdir()) if points.is_dir() else []
    ours = [path for path in runs if _OF_A_RUN.fullmatch(path.name)]
    for path in [*(folder / name for name in FILES), folder / FILE, *ours]:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise TprofError(
                f"cannot remove {path} of the earlier sweep: {error.strerror}; choose another folder with -o DIR"
            ) from error


def earlier(order: Order, plan: Plan, *, refused: str | None) -> Plan | None:
    """Return the plan to resume, None if there is none.

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
        raise UsageError(
            f"{order.folder} holds this sweep, finished: write its tables again with --resume, {ELSEWHERE}"
        )
    existing.try_again()
    existing.written = False
    return existing


def _check_empty(order: Order) -> None:
    if order.resume:
        raise UsageError(
            f"{order.folder} holds no sweep to go on with ({FILE}): leave --resume out, or name its folder with -o"
        )
    taken = next((name for name in (*FILES, POINTS) if os.path.exists(order.folder / name)), None)
    if taken is not None:
        raise UsageError(f"{order.folder / taken} exists: {ELSEWHERE}")


def _check_same(order: Order, existing: Plan, plan: Plan, refused: str | None) -> None:
    apart = _apart(existing, plan)
    if order.frequencies is None and list(apart) == ["frequencies"]:
        _check_right(order, existing, plan, refused)
    if order.seed is not None and order.seed != existing.seed:
        apart["seed"] = f"seed {existing.seed}, now {order.seed}"
    if apart:
        runs = counted(len(existing.points), "run")
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
    """Raises SensorError or UsageError if the right to set frequencies came or went since the sweep began."""
    if plan.frequencies_hz is None:
        message = f"{order.folder} holds this sweep, and its frequencies cannot be set any more: {refused}"
        raise SensorError(f"{message}; then the same command goes on")
    if existing.frequencies_hz is None:
        message = f"{order.folder} holds this sweep over workers only, since no frequency could be set when it began"
        raise UsageError(f"{message}: go on so with --frequencies none, or choose another folder with -o DIR")


def _take_over(order: Order, existing: Plan, plan: Plan) -> None:
    """Assign the remaining runs to the present program and machine, if these are the same or accepted."""
    changes = changed(existing.identity, plan.identity, order.what.title) if existing.done else []
    if changes and not order.accept_changes:
        message = f"{order.folder} holds this sweep, but {' and '.join(changes)} since it began"
        raise UsageError(f"{message}: mix both with --accept-changes, {ELSEWHERE}")
    if changes:
        existing.changes.append(
            f"after {len(existing.done)} of {counted(len(existing.points), 'run')}: {' and '.join(changes)}"
        )
    existing.identity = plan.identity


def _frequencies(plan: Plan) -> str:
    return "no frequencies" if plan.frequencies_hz is None else named(plan.frequencies_hz)


def _numbers(plan: Plan) -> str:
    return ",".join(map(str, plan.workers))


def identity_of(file: Path | None, *, benchmark: bool) -> Identity:
    """Return what the sweep's figures belong to."""
    program = f"tprof {__version__}" if benchmark else digest(file)
    return {PROGRAM: program, **describe_host()}


def digest(file: Path | None) -> str | None:
    """Return a digest of a file, None where there is none to read."""
    try:
        return None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def changed(before: Mapping[str, str | int | None], now: Mapping[str, str | int | None], program: str) -> list[str]:
    """Return what differs from before."""
    names = [name for name in now if name in before and before[name] != now[name]]
    return [f"{program} was edited" if name == PROGRAM else _now(name, before, now) for name in names]


def _now(name: str, before: Mapping[str, str | int | None], now: Mapping[str, str | int | None]) -> str:
    return f"{name} was {before[name]} and is {now[name]}"
