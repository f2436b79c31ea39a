"""Replaces, on one worker, the methods through which tasks and actors' methods run, so that each is marked."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dask.utils import key_split
from distributed.utils import iscoroutinefunction

from tprof import _core
from tprof.task import is_task

from .marks import Mark, current, follow, run, run_named
from .names import name_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from distributed import Worker

ACTOR_HANDLER = "actor_execute"

_HOOKS = "_tprof_hooks"  # the attribute of a worker: a table of ours would keep the worker alive

_lock = threading.Lock()
_submits: WeakKeyDictionary[Executor, int] = WeakKeyDictionary()


def mark_tasks(worker: Worker) -> None:
    """Mark the tasks of a worker until `mark_no_more` was called as often as this."""
    with _lock:
        hooks = vars(worker).setdefault(_HOOKS, Hooks())
        hooks.users += 1
        if hooks.users == 1:
            hooks.replace(worker)


def mark_no_more(worker: Worker) -> None:
    """Undo one `mark_tasks`."""
    with _lock:
        hooks = vars(worker).get(_HOOKS)
        if hooks is None:
            return
        hooks.users -= 1
        if hooks.users == 0:
            del vars(worker)[_HOOKS]
            hooks.restore(worker)


class Hooks:
    """The replaced methods of a worker; those of the class stay as they are."""

    def __init__(self) -> None:
        """Begin without any."""
        self.users = 0
        self._executors: list[Executor] = []
        self._actor_execute: Callable[..., Any] | None = None

    def replace(self, worker: Worker) -> None:
        """Replace them; the executors' when these get their first task."""
        worker.execute = self._marked_execute(worker)
        self._actor_execute = worker.handlers.get(ACTOR_HANDLER)
        if self._actor_execute is not None:
            worker.handlers[ACTOR_HANDLER] = self._marked_actor_execute(worker, self._actor_execute)

    def restore(self, worker: Worker) -> None:
        """Restore them."""
        vars(worker).pop("execute", None)
        if self._actor_execute is not None:
            worker.handlers[ACTOR_HANDLER] = self._actor_execute
        for executor in self._executors:
            _release_submit(executor)

    def _marked_execute(self, worker: Worker) -> Callable[..., Any]:
        execute, state, executors = worker.execute, worker.state, worker.executors

        @functools.wraps(execute)
        async def marked(key: Any, **options: Any) -> Any:
            task = state.tasks.get(key) if _core.generation() else None
            if task is None or task.run_spec is None:
                return await execute(key, **options)
            is_own = is_task(_function_of(task.run_spec))
            mark = Mark(name_of(key, task.run_spec), key, [one.key for one in task.dependencies], is_task=is_own)
            if _is_coroutine(task.run_spec):
                called = execute(key, **options)
                return await (called if is_own else follow(mark, called))
            self._take_submit(executors.get((task.annotations or {}).get("executor", "default")))
            return await _with(mark, execute(key, **options))

        return marked

    def _marked_actor_execute(self, worker: Worker, actor_execute: Callable[..., Any]) -> Callable[..., Any]:
        state, executors = worker.state, worker.executors

        @functools.wraps(actor_execute)
        async def marked(*args: Any, actor: Any = None, function: str = "", **options: Any) -> Any:
            if not _core.generation():
                return await actor_execute(*args, actor=actor, function=function, **options)
            mark = Mark(f"{key_split(actor)}.{function}", actor, ())
            called = actor_execute(*args, actor=actor, function=function, **options)
            in_thread = (options.get("kwargs") or {}).get("separate_thread", True)
            if not in_thread or iscoroutinefunction(getattr(state.actors.get(actor), function, None)):
                return await follow(mark, called)
            self._take_submit(executors.get("actor"))
            return await _with(mark, called)

        return marked

    def _take_submit(self, executor: Executor | None) -> None:
        """Replace an executor's `submit` before its first task; users may add executors at any time."""
        if executor is None or executor in self._executors:
            return
        with _lock:
            _mark_submit(executor)
            self._executors.append(executor)


async def _with(mark: Mark, awaitable: Any) -> Any:
    token = current.set(mark)
    try:
        return await awaitable
    finally:
        current.reset(token)


def _mark_submit(executor: Executor) -> None:
    """Replace `submit` on the executor itself: dask recognises executors by their type. Workers may share one."""
    users = _submits.get(executor, 0)
    _submits[executor] = users + 1
    if users:
        return
    submit: Callable[..., Any] = executor.submit
    in_threads = "ThreadPoolExecutor" in str(type(executor))  # as dask distinguishes them

    @functools.wraps(submit)
    def marked(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        mark = current.get()
        if mark is None or mark.used:
            return submit(function, *args, **kwargs)
        mark.used = True
        if in_threads:
            return submit(run, mark, function, *args, **kwargs)
        return submit(run_named, mark.name, mark.key, mark.needs, mark.is_task, function, *args, **kwargs)

    executor.submit = marked  # type: ignore[method-assign]


def _release_submit(executor: Executor) -> None:
    users = _submits.get(executor, 0)
    if users > 1:
        _submits[executor] = users - 1
    elif users:
        del _submits[executor]
        vars(executor).pop("submit", None)


def _function_of(run_spec: Any) -> Any:
    """Return the function of a task; before 2024.12 a task was a tuple of function and arguments."""
    return run_spec[0] if isinstance(run_spec, tuple) and run_spec else getattr(run_spec, "func", None)


def _is_coroutine(run_spec: Any) -> bool:
    known = getattr(run_spec, "is_coro", None)
    return iscoroutinefunction(_function_of(run_spec)) if known is None else bool(known)
