"""The runtime's public interface: a program enters it, spawns tasks, and waits for them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from tprof.runtime import _scheduler
from tprof.runtime.declared_call import declared_call
from tprof.runtime.entered import Enterable, receiver, set_default
from tprof.runtime.future import Task, name_of
from tprof.runtime.group import GROUP, Group, Part, raise_first, raise_refusal
from tprof.runtime.kept_graph import Graph
from tprof.runtime.workers import Workers, usable_cpus

from tprof.errors import UsageError
from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tprof.runtime._scheduler import Work
    from tprof.runtime.policy import Policy
    from tprof.runtime.policy.operator import Operator

    from tprof.declarations import Names, Priority

MAX_PENDING = 100_000
ENDED = "this runtime has ended"


class Runtime(Enterable):
    """Runs tasks on a pool of workers, in an order that the data they declare allows.

    Inside its with-block a call of a `tprof.task` spawns a task and returns its future. A task that reads data waits
    for the tasks spawned before it that write it; one that writes data waits for those that read or write it. Data
    are arrays, identified by the bytes they cover (two views are the same data where they overlap), lists of arrays,
    or any hashable handle. The end of the block waits for all tasks and raises the first exception. Tasks that depend
    on a failed one are cancelled.

    Tasks that a task spawns are its children: their data orders them among each other, and the task ends when they
    have ended. A task that waits lends its core to another meanwhile.

    Parameters
    ----------
    workers
        How many tasks run at a time; by default the number of processors for this process.
    pin
        Whether each worker is pinned to a core of its own; by default if there are no more workers than
        processors. Processes that a task starts inherit its core.
    library_threads
        How many threads BLAS and OpenMP may use inside a task, in this whole process while the runtime runs;
        None does not limit them.
    max_pending
        The most unfinished tasks, or unfinished children of one task: with as many a spawn waits until a quarter
        has ended. None: no limit.
    keep_graph
        Whether to keep the dependences, for `graph`.
    policy
        How the processor's frequency and the number of active workers are chosen: a name such as ``"edp"`` or
        ``"max_slowdown(5%)"``, or an object of `tprof.runtime.policy`. None changes neither.
    name
        The beginning of the workers' names.
    cluster
        A `distributed.Client`: the workers of its cluster run the tasks (`tprof.runtime.cluster`), with threads of
        their own, so that `workers` and `pin` do not apply. What tasks write arrives in the program's arrays when it
        waits. A policy works on each host, and a cap is for all hosts together.

    Raises
    ------
    UsageError
        If an argument is out of range.

    Examples
    --------
    >>> import numpy as np, tprof
    >>> from tprof.runtime import Runtime
    >>> @tprof.task(updates="tile")
    ... def add(tile, number):
    ...     tile += number
    >>> ones = np.zeros(8)
    >>> with Runtime(workers=2) as runtime:
    ...     _ = add(ones[:4], 1), add(ones[4:], 2), add(ones, 3)
    >>> ones
    array([4., 4., 4., 4., 5., 5., 5., 5.])
    """

    def __new__(cls, *args: Any, cluster: Any = None, **kwargs: Any) -> Self:
        """Make a runtime of this process, or one of a cluster."""
        del args, kwargs
        if cluster is None or cls is not Runtime:
            return super().__new__(cls)
        from tprof.runtime.cluster import ClusterRuntime  # noqa: PLC0415 - few programs have a cluster

        return super().__new__(ClusterRuntime)  # type: ignore[return-value]

    def __init__(
        self,
        workers: int | None = None,
        *,
        cluster: Any = None,
        pin: bool | None = None,
        library_threads: int | None = 1,
        max_pending: int | None = MAX_PENDING,
        keep_graph: bool = False,
        policy: str | Policy | None = None,
        name: str = "worker",
    ) -> None:
        """Check the arguments; threads start with the with-block."""
        if cluster is not None:
            raise UsageError(f"{type(self).__name__} has no cluster: make a Runtime(cluster=client)")
        cpus = usable_cpus()
        self.workers = whole("workers", len(cpus) if workers is None else workers, 4096)
        if pin is None:
            pin = self.workers <= len(cpus)
        if library_threads is not None:
            library_threads = whole("library_threads", library_threads, 4096)
        limit = 0 if max_pending is None else whole("max_pending", max_pending, 2**40)
        self._nodes: list[tuple[int, Callable[..., Any], int, tuple[int, ...]]] | None = [] if keep_graph else None
        self._workers = Workers(name, cpus=cpus if pin else None, library_threads=library_threads)
        self._operator = None if policy is None else _operator(policy, self.workers, cpus if pin else None)
        self._scheduler = _scheduler.Scheduler(
            slot_count=self.workers,
            future_type=Task,
            start_thread=self._start_thread,
            on_slot_taken=self._workers.pin,
            group_variable=GROUP,
            note=_note,
            most_unfinished=limit,
            graph=self._nodes,
        )
        self._begun = self._ended = False
        self._refusals: dict[Exception, bool] = {}

    def __enter__(self) -> Self:
        """Start the workers; from here on calls of tasks spawn."""
        if self._begun:
            raise UsageError("a runtime runs once: make another")
        self._begun = True
        try:
            if self._operator is not None:
                self._scheduler.operate(self._operator.start(self._scheduler.set_active))
            self._workers.limit_libraries()
            for _ in range(self.workers):
                self._start_thread()
        except BaseException:
            self._end()
            raise
        this_process.runtimes.enter(self)
        if self.takes_calls:
            _scheduler.enter_scheduler(self._scheduler)
        set_default()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for all tasks, after an exception only for those that run, and end the workers."""
        if self not in this_process.runtimes.entered:
            self._workers.release_thread()  # another thread has ended the runtime, and cannot release this one
            return
        try:
            self._wait_for_all(cancelled=error is not None)
        except BaseException:
            self._leave()
            raise
        failures = self._scheduler.take_failures()
        self._leave()
        self._workers.join()
        raise_first(failures, error)
        if error is None:
            self._raise_refusal()

    def _wait_for_all(self, *, cancelled: bool) -> None:
        """Wait for all tasks; after one interruption only for running ones, after a second for none."""
        if cancelled:
            self._scheduler.cancel()
        try:
            self._scheduler.wait()
        except BaseException:
            self._scheduler.cancel()
            if not cancelled:
                self._scheduler.wait()
            raise

    def submit(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        reads: Names = (),
        writes: Names = (),
        updates: Names = (),
        priority: Priority = 0,
        **kwargs: Any,
    ) -> Task:
        """Spawn a call of any function.

        Parameters
        ----------
        function
            A task, or a plain function, which becomes one.
        reads, writes, updates, priority
            As for `tprof.task`; if any is given, they replace those of the task's decorator.
        *args, **kwargs
            Passed on.

        Raises
        ------
        UsageError
            If the runtime does not run.
        TypeError, ValueError
            As in `tprof.task` and in spawning a task; TypeError if the function returns a coroutine or a generator.
        """
        self._check_running()
        called, access, given = declared_call(
            function, args, reads=reads, writes=writes, updates=updates, priority=priority
        )
        task: Task | None = self._scheduler.submit(called, access, *given, **kwargs)
        if task is None:
            raise UsageError(ENDED)
        return task

    def wait(self, *data: object) -> None:
        """Wait for all tasks, or for those that touch the data; inside a task only for its children.

        Parameters
        ----------
        *data
            Arrays, lists of arrays, handles or futures.

        Raises
        ------
        Exception
            The first that the program has not taken from a task's future yet, with a note on the task. With data: that
            of the task that left it unwritten.
        TaskCancelledError
            If a future among the data, or the task that should have written it, was cancelled.
        """
        self._check_running()
        if not data:
            self._scheduler.wait()
            raise_first(self._scheduler.take_failures())
        self._raise_refusal()
        for item in data:
            if isinstance(item, Task):
                item.result()
                continue
            failed = self._wait_on(item)
            if failed is not None:
                failed.result()

    def _wait_on(self, data: object) -> Work | None:
        try:
            return self._scheduler.wait_on(data)
        except TypeError:
            kind = type(data).__name__
            raise TypeError(
                f"wait() takes arrays, lists of arrays, hashable handles and futures, got a {kind}"
            ) from None

    def group(self) -> Group:
        """Return a with-block that waits for the tasks it spawns."""
        self._check_running()
        return Group(self._scheduler)

    def cancel(self) -> None:
        """Cancel all tasks that have not begun."""
        self._check_running()
        self._scheduler.cancel()

    def part(self) -> Part:
        """Return a part: once it begins, it collects the tasks that the running code spawns, to be cancelled alone."""
        return Part(self._scheduler)

    def refuse(self, error: Exception, *, once: bool = False) -> None:
        """Cancel the tasks that have not begun, and raise the error where the program waits; once, or until `accept`.

        Tasks that are spawned later are not cancelled: call it again.
        """
        self._refusals[error] = once
        self._scheduler.cancel()

    def accept(self, error: Exception) -> None:
        """Raise the error of `refuse` no longer."""
        self._refusals.pop(error, None)

    def counts(self) -> dict[str, int]:
        """Return the numbers of tasks spawned, executed, stolen, unfinished and most unfinished, and of threads."""
        return self._scheduler.counts()

    @property
    def active_workers(self) -> int:
        """How many workers take tasks, from 1 to `workers`; a policy or the program may set it."""
        return self._scheduler.active()

    @active_workers.setter
    def active_workers(self, number: int) -> None:
        self._check_running()
        self._scheduler.set_active(whole("active_workers", number, self.workers))
        if self._operator is not None:
            self._operator.on_workers_set(number)

    def graph(self) -> Graph:
        """Return the graph of dependences so far.

        Raises
        ------
        UsageError
            If the runtime was made without ``keep_graph=True``.
        """
        if self._nodes is None:
            raise UsageError("the graph was not kept: make the runtime with keep_graph=True")
        nodes = [
            (number, name_of(task), parent, predecessors) for number, task, parent, predecessors in self._nodes.copy()
        ]
        return Graph.of(nodes)

    @property
    def native(self) -> _scheduler.Scheduler | None:
        """The native scheduler; None for a runtime of a cluster."""
        return self._scheduler

    @property
    def spawner(self) -> Callable[..., Any]:
        """What takes a task and its arguments over, outside tasks."""
        return _scheduler.spawn

    def _raise_refusal(self) -> None:
        raise_refusal(self._scheduler)
        for error, once in self._refusals.copy().items():
            if once:
                self.accept(error)
            raise error

    def _start_thread(self) -> None:
        self._workers.start(self._scheduler)

    def _check_running(self) -> None:
        if self not in this_process.runtimes.entered:
            raise UsageError(ENDED if self._ended else "this runtime has not begun: enter it with a with-block")

    def _leave(self) -> None:
        this_process.runtimes.entered.remove(self)
        _scheduler.leave_scheduler(self._scheduler)
        set_default()
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._scheduler.stop()
        if self._scheduler.counts()["unfinished"] == 0:
            self._workers.release_libraries()
        else:
            # Tasks still run, and a library that starts threads for them while the program ends may hang.
            self._workers.release_thread()
        if self._operator is not None:
            self._operator.stop()

    def end_with_program(self, deadline_s: float) -> None:
        """Cancel tasks that have not begun, and give running ones some time."""
        self._scheduler.cancel()
        try:
            self._scheduler.wait(max(0.0, deadline_s - time.monotonic()))
        finally:
            self._leave()

    def abandon(self) -> None:
        """Forget the threads, in a forked child."""
        self._ended = True
        self._scheduler.abandon()
        if self._operator is not None:
            self._operator.forget()


def current() -> Runtime:
    """Return the runtime that would receive a call of a task here.

    Raises
    ------
    UsageError
        If there is none.
    """
    runtime = _current_or_none()
    if runtime is None:
        raise UsageError("no runtime runs here: enter one with a with-block")
    return runtime


def _current_or_none() -> Runtime | None:
    found = receiver()
    return found if isinstance(found, Runtime) else None


def _operator(policy: str | Policy, workers: int, cpus: list[int] | None) -> Operator:
    from tprof.runtime.policy import policy_of  # noqa: PLC0415 - few programs have a policy
    from tprof.runtime.policy.operator import Operator  # noqa: PLC0415

    return Operator(policy_of(policy), workers, cpus)


def _note(error: BaseException, task: Task) -> None:
    error.add_note(f"raised in task {task.name} (#{task.number})")


def whole(name: str, value: int, most: int) -> int:
    """Return a whole number from 1 to `most`. Raises UsageError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise UsageError(f"{name} is a whole number from 1 to {most}, got {value!r}")
    return value


this_process.runtimes.current = _current_or_none
