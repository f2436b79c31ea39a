"""A call as `submit` takes it: its function as a task, what it accesses, and its arguments."""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any, cast

from tprof import _core
from tprof.declarations import NOTHING, pack
from tprof.task import innermost, make_task

if TYPE_CHECKING:
    from collections.abc import Callable

    from tprof.declarations import Access, Names, Priority

_numbers: dict[object, int] = {}


def _as_task(function: Callable[..., Any]) -> _core.Task:
    """Return the function as a task; functions of the same code, as made in a loop, share one, and so do builtins."""
    if isinstance(function, _core.Task):
        return _plain(function)
    plain = innermost(function)
    key = getattr(plain, "__code__", None) or (type(plain), getattr(plain, "__qualname__", None))
    number = _numbers.get(key)
    if number is not None:
        return _core.Task(function, number, NOTHING)
    task = _plain(cast("_core.Task", make_task(function, None, NOTHING)))
    _numbers[key] = task.number
    return task


def _plain(task: _core.Task) -> _core.Task:
    if task.resumed:
        raise TypeError(f"a runtime runs plain functions: {task!r} gives back a coroutine or generator")
    return task


def declared_call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    reads: Names,
    writes: Names,
    updates: Names,
    priority: Priority,
) -> tuple[_core.Task, Access, tuple[Any, ...]]:
    """Return the task, its declaration and its positional arguments; what is given replaces the decorator's.

    Of a method the object is the first argument, which `reads` and the others may name.

    Raises
    ------
    TypeError, ValueError
        As in `tprof.task`; TypeError if the function returns a coroutine or a generator.
    """
    if isinstance(function, MethodType):
        args = (function.__self__, *args)
        function = function.__func__
    access = getattr(function, "access", None) or NOTHING
    if reads or writes or updates or priority != 0:
        plain = getattr(function, "__wrapped__", function)
        access = pack(plain, reads=reads, writes=writes, updates=updates, priority=priority)
    return _as_task(function), access, args
