"""Makes each dask task an instance of a tprof task, on the thread that runs it.

The key of a task is not among the arguments with which dask gives its function to an executor, and the names of these
functions changed between versions. So the worker's `execute` puts a mark into the context of its coroutine, and the
executor's `submit` takes it from there. Marks count once: `rejoin` submits again from within the task's own context.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from tprof import _core
from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

R = TypeVar("R")

MOST_NAMES = 4096
OTHER = "(other dask tasks)"
"""The task of all names beyond `MOST_NAMES` in a process: keys may be named by a number that `key_split` leaves."""

DASK = " (dask)"
"""Behind the name of a dask task if a function of the program that is a task has the same name and runs inside."""

_regions: dict[str, _core.Region] = {}


class Mark:
    """What runs next: the task's name, its key, the keys that it needs, and whether its function is a task already."""

    __slots__ = ("is_task", "key", "name", "needs", "used")

    def __init__(self, name: str, key: object, needs: Iterable[object], *, is_task: bool = False) -> None:
        """Make a mark that has not been used."""
        self.name, self.key, self.needs, self.used = name, str(key), [str(one) for one in needs], False
        self.is_task = is_task


current: ContextVar[Mark | None] = ContextVar("tprof_dask_mark", default=None)


def region_of(name: str) -> _core.Region:
    """Return the block of a task of this name."""
    region = _regions.get(name)
    if region is None:
        if len(_regions) >= MOST_NAMES:
            name = OTHER
        shown = name + DASK if this_process.tasks.names_function(name) else name
        number = this_process.tasks.define(shown, file=None, line=None, code=None)
        region = _regions.setdefault(name, _core.Region(number))
    return region


def run(mark: Mark, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
    """Call the function as an instance of the marked task, on this thread."""
    if not _core.generation():
        return function(*args, **kwargs)
    if mark.is_task:
        return note(mark, function, *args, **kwargs)
    region = region_of(mark.name)
    region.__enter__()
    instance = _core.running()[0]
    failed: type[BaseException] | None = None
    try:
        result = function(*args, **kwargs)
        failed = _error_in(result)
    except BaseException as error:
        failed = type(error)
        raise
    finally:
        region.__exit__(failed, None, None)
        _note(instance, mark)
    return result


def run_named(
    name: str,
    key: str,
    needs: list[str],
    is_task: bool,  # noqa: FBT001 - marks travel as plain values
    function: Callable[..., R],
    /,
    *args: Any,
) -> R:
    """Do as `run` in a process that an executor started, to which marks travel as their parts."""
    return run(Mark(name, key, needs, is_task=is_task), function, *args)


def note(mark: Mark, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
    """Call what calls a task of the program at once, whose instance gets the key."""
    instance = _core.next_instance()
    try:
        return function(*args, **kwargs)
    finally:
        if _core.next_instance() > instance:
            _note(instance, mark)


async def follow(mark: Mark, awaitable: Awaitable[R]) -> R:
    """Await as an instance of the marked task: it runs while a step of the awaited one runs."""
    if not _core.generation():
        return await awaitable
    number = region_of(mark.name).number
    try:
        return await _core.drive(_noted(mark, awaitable), number)
    except _Failed as failed:
        result: R = failed.args[0]
        return result


class _Failed(Exception):  # noqa: N818 - it carries a result that says so
    """Tells the core that a task failed whose error dask returns instead of raising it."""


async def _noted(mark: Mark, awaitable: Awaitable[R]) -> R:
    instance = _core.running()[0]
    try:
        result = await awaitable
    finally:
        _note(instance, mark)
    if _error_in(result) is not None:
        raise _Failed(result)
    return result


def _error_in(result: object) -> type[BaseException] | None:
    """Return the kind of the error that dask caught in a task or an actor, and returned."""
    if type(result) is dict:
        erred = result.get("op") == "task-erred" or result.get("status") == "error"
        return RuntimeError if erred else None
    return RuntimeError if type(result).__name__ == "ExecuteFailureEvent" else None


def _note(instance: int, mark: Mark) -> None:
    member = this_process.membership
    if instance and member is not None:
        member.note_key(instance, mark.key, mark.needs)
