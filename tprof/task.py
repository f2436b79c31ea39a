"""Makes a function or a block of code a task: the decorator, the region, and the pickling of tasks."""

from __future__ import annotations

import functools
import sys

from tprof import _core, work
from tprof.declarations import NOTHING, check_budget, pack
from tprof.distribution import refuse_damage
from tprof.session.process_state import this_process

refuse_damage()

# `typing` and `inspect` take longer to import than all of this package does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, SupportsIndex, TypeVar, cast, overload

    from tprof.declarations import Access, Budget, Names, Priority
    from tprof.work import Amount, Work

    F = TypeVar("F")
else:

    def cast(_kind, value):
        """Replace `typing.overload` at run time."""
        return value


COROUTINE = 0x80
RESUMED = 0x20 | COROUTINE | 0x200
"""Bits of a code object's co_flags: of generators, coroutines and asynchronous generators."""

NUMBER_ATTRIBUTE = "__tprof_task__"
GPU_ATTRIBUTE = "__tprof_gpu__"


if TYPE_CHECKING:

    @overload
    def task(function: F, /) -> F: ...
    @overload
    def task(
        *,
        name: str | None = None,
        reads: Names = (),
        writes: Names = (),
        updates: Names = (),
        priority: Priority = 0,
        flops: Amount = None,
        bytes: Amount = None,
        budget_j: float | None = None,
        over_budget: str = "warn",
        gpu: bool = False,
    ) -> Callable[[F], F]: ...


def task(  # noqa: PLR0913 - one parameter per option
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    reads: Names = (),
    writes: Names = (),
    updates: Names = (),
    priority: Priority = 0,
    flops: Amount = None,
    bytes: Amount = None,  # noqa: A002 - what it is
    budget_j: float | None = None,
    over_budget: str = "warn",
    gpu: bool = False,
) -> F | Callable[[F], F]:
    """Make a function a task: while a recording runs, each call is an instance with its own joules.

    Works on functions, methods, static and class methods, ``async def``, generators and asynchronous
    generators. Signature, docstring, pickling and exceptions stay the same. Without a recording the
    call goes straight to the function. In a recording, what stands for a generator or coroutine has
    its attributes and class; one that was made before the recording is not an instance.

    Parameters
    ----------
    function
        The function; also a `staticmethod` or `classmethod` object.
    name
        Name of the task in tables; by default its qualified name within the module.
    reads, writes, updates
        Names of the parameters whose data the task reads, overwrites completely, or reads and changes: one name or
        several. Inside a `tprof.runtime.Runtime` a call becomes a task that waits for the data; without one
        they have no effect.
    priority
        Inside a runtime, -32 to 31: of the tasks that could run, the highest goes first. Also a function of the
        task's arguments.
    flops, bytes
        Floating-point operations of an instance, and its bytes between memory and caches, for `tprof roofline`: a
        number, or a function of the task's arguments, which is called before each recorded call, inside the instance
        (before that of a generator or coroutine).
        A failure of it does not affect the call; the profile warns of the number of failures.
    budget_j
        Joules that each instance may use while a recording runs.
    over_budget
        Action if an instance uses more: ``"warn"``; ``"slow"``, which throttles by one step as `tprof.budget` does,
        until the instance has ended; ``"cancel"``, which cancels pending tasks of this process's runtimes and raises in
        the next wait for each of them, and at the end of the recording.

    Returns
    -------
    callable
        The replacement of the function: a callable object with the function as ``__wrapped__``.

    Raises
    ------
    TypeError
        If what is decorated is not a function, or has no parameter of such a name, or an amount is a function that
        no call's arguments fit.
    ValueError
        If the priority is out of range, or an amount of work is neither a number of 0 or more nor a function.
    UsageError
        If the budget is out of range, or what happens is none of these or has no budget.

    Examples
    --------
    >>> import tprof
    >>> @tprof.task
    ... def double(x):
    ...     return 2 * x
    >>> double(21)
    42
    """
    budget = check_budget(budget_j, over_budget)

    def decorate(function: F) -> F:
        inner = cast("Callable[..., Any]", getattr(function, "__func__", function))
        declared = reads or writes or updates or priority != 0
        access = NOTHING
        if callable(flops) or callable(bytes):
            work.check_parameters(inner, does)
        if declared:
            access = pack(inner, reads=reads, writes=writes, updates=updates, priority=priority)
        return make_task(function, name, access, does, budget, on_gpu=gpu)

    does = work.check(flops, bytes)
    return decorate if function is None else decorate(function)


def is_task(function: object) -> bool:
    """Return whether calls of a function are instances: it is a task, or a pattern of `tprof run` matches it."""
    selects = this_process.selects
    return hasattr(function, NUMBER_ATTRIBUTE) or (selects is not None and selects(function))


def make_task(
    function: F,
    name: str | None = None,
    access: Access | None = None,
    does: Work = work.UNDECLARED,
    budget: Budget | None = None,
    *,
    on_gpu: bool = False,
    within: Callable[..., Any] | None = None,
    library: str | None = None,
) -> F:
    """Return the function as a task; a task is returned unchanged.

    Parameters
    ----------
    function
        As for `task`.
    name
        As for `task`.
    access
        Its declaration of data accesses; None: a runtime does not spawn its calls, since it was made a task from
        outside and its callers expect its result.
    does
        Declared flops and bytes of an instance.
    budget
        Joules of each instance, and the action if one takes more.
    on_gpu
        Whether what it launches on the GPU counts for the task.
    within
        The program's function, if `function` only calls it: the task has its place, and is of its kind.
    library
        On whose behalf it is a task, if the program does not say so itself.

    Raises
    ------
    TypeError
        If it is a class or not callable.
    """
    if isinstance(function, staticmethod | classmethod):
        return cast("F", type(function)(make_task(function.__func__, name, access, does, budget, on_gpu=on_gpu)))
    if isinstance(function, type) or not callable(function):
        what = "a name goes into task(name=...)"
        if isinstance(function, type):
            what = "decorate its methods instead"
        elif hasattr(function, "__get__"):
            what = f"put @tprof.task below @{type(function).__name__}, next to the function"
        raise TypeError(f"tprof.task goes on a function or method, got {function!r}: {what}")
    declares_nothing = (
        (access is None or access is NOTHING) and does == work.UNDECLARED and budget is None and not on_gpu
    )
    if hasattr(function, NUMBER_ATTRIBUTE) and name is None and declares_nothing:
        return function
    number = _Number(_define(within or function, name, does, budget, library))
    wrapped = _wrap(function, number, access, does, on_gpu=on_gpu, flags=_flags(within or function))
    setattr(wrapped, NUMBER_ATTRIBUTE, number)
    setattr(wrapped, GPU_ATTRIBUTE, on_gpu)
    setattr(wrapped, work.ATTRIBUTE, does)
    return cast("F", wrapped)


def _define(
    function: Callable[..., Any], name: str | None, does: Work, budget: Budget | None, library: str | None
) -> int:
    plain = innermost(function)
    code: CodeType | None = getattr(plain, "__code__", None)
    if code is not None:
        _undo_selection(code)
    known: str = getattr(plain, "__qualname__", None) or type(plain).__qualname__
    return this_process.tasks.define(
        name or known.rpartition("<locals>.")[2],
        file=code.co_filename if code is not None else None,
        line=code.co_firstlineno if code is not None else None,
        code=code,
        work=does,
        budget=budget,
        library=library,
    )


def _undo_selection(code: CodeType) -> None:
    """Undo the selection of code by `--task`: a decorator makes its function a task instead."""
    if this_process.monitored is not None:
        this_process.monitored.release(code)
    for constant in code.co_consts:
        if type(constant) is _core.Region:  # launch/hook.py put it there
            constant.silence()


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside decorators and partials."""
    seen = set()
    while id(function) not in seen:
        seen.add(id(function))
        if isinstance(function, functools.partial):
            function = function.func
        else:
            function = getattr(function, "__wrapped__", function)
    return function


def _flags(function: Callable[..., Any]) -> int:
    """Return the flags for the kind of a call's result: those of the function itself, not of a wrapped one."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    flags: int = getattr(getattr(function, "__code__", None), "co_flags", 0)
    # inspect.markcoroutinefunction marks a plain function that returns a coroutine.
    return flags | COROUTINE if hasattr(function, "_is_coroutine_mark") else flags


_OWN_ATTRIBUTES = tuple(name for name in functools.WRAPPER_ASSIGNMENTS if name not in {"__name__", "__qualname__"})
"""Attributes of a task; of the others it has those of its function."""


def _wrap(
    function: Callable[..., Any], number: int, access: Access | None, does: Work, *, on_gpu: bool, flags: int
) -> Callable[..., Any]:
    if on_gpu and flags & RESUMED:
        raise TypeError(
            f"gpu=True goes on a plain function: {function!r} gives back a coroutine or generator, "
            "so put `with tprof.gpu():` around what it launches"
        )
    if access is not None and access is not NOTHING and flags & RESUMED:
        raise TypeError(
            f"a runtime runs plain functions: {function!r} gives back a coroutine or generator, "
            "so it cannot say what it reads or writes"
        )
    called = work.count_calls(function, number, does, this_process)
    if on_gpu:
        from tprof.cuda import launching  # noqa: PLC0415 - kept off `import tprof`

        called = launching(called)
    resumed = bool(flags & RESUMED)
    task = _core.Task(called, number, None if resumed else access, original=function, resumed=resumed)
    return functools.update_wrapper(task, function, _OWN_ATTRIBUTES)


_regions: dict[tuple[str, CodeType, int], int] = {}


def region(name: str) -> _core.Region:
    """Make a block of code a task: ``with tprof.region("load"): ...``.

    It must end on the thread that entered it. A region around an ``await`` stops counting during suspension only
    inside a task, which suspends the region with itself.

    Parameters
    ----------
    name
        Name of the task in tables.

    Examples
    --------
    >>> import tprof
    >>> with tprof.region("add"):
    ...     total = 1 + 1
    """
    frame = sys._getframe(1)  # noqa: SLF001 - the only cheap way to the caller's line
    key = (name, frame.f_code, frame.f_lineno)
    number = _regions.get(key)
    if number is None:
        if not isinstance(name, str):
            raise TypeError(f"a region is named by a string, got {name!r}")
        number = this_process.tasks.define(name, file=frame.f_code.co_filename, line=frame.f_lineno, code=None)
        _regions[key] = number
    return _core.Region(number)


class _Number(int):
    """The number of a task; pickled as its place in the program, since numbers differ between processes."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        definition = this_process.tasks.definition_of(self)
        return _number_at, (definition.name, definition.file, definition.line)


_NO_TASK = 2**32 - 1  # of a block in a function that is a task by `tprof.task` already, as in csrc/layout.h
_travelled: dict[tuple[str, str | None, int | None], _Number] = {}


def _number_at(name: str, file: str | None, line: int | None) -> _Number:
    number = _travelled.get((name, file, line))
    if number is None:
        number = _Number(this_process.tasks.define(name, file=file, line=line, code=None))
        number = _travelled.setdefault((name, file, line), number)
    return number


def reduce_region(block: _core.Region) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Define the pickling of the block of a function that is sent by value."""
    number = block.number
    return _core.Region, (number if number == _NO_TASK else _Number(number),)


def reduce_task(wrapped: Any) -> str | tuple[Callable[..., Any], tuple[Any, ...]]:
    """Define the pickling of a task: like a function, by its qualified name.

    cloudpickle (joblib, dask) sends a function of ``__main__`` by value instead, since its workers have
    another ``__main__``. It does not recognise a task as a function, so we detect its frame.
    """
    asking = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001 - see above
    module, name = wrapped.__module__, wrapped.__qualname__
    if asking.rpartition(".")[2] == "cloudpickle" and (module == "__main__" or "<locals>" in name):
        return functools.partial(make_task, on_gpu=getattr(wrapped, GPU_ATTRIBUTE, False)), (
            wrapped.__wrapped__,
            _name_of(wrapped),
            getattr(wrapped, "access", None),
            getattr(wrapped, work.ATTRIBUTE, work.UNDECLARED),
            this_process.tasks.budget_of(getattr(wrapped, NUMBER_ATTRIBUTE)),
        )
    return cast("str", name)


def _name_of(wrapped: Any) -> str:
    return this_process.tasks.name_of(getattr(wrapped, NUMBER_ATTRIBUTE))
