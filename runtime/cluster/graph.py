"""Submits a program's tasks to dask in the order of their data, and follows their ends.

The program's thread only notes a task. A thread of its own sends the arrays that tasks need for the first time, many at
once, and submits the tasks to dask, which takes a fraction of a millisecond each. dask's thread for callbacks notes the
ends.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import CancelledError
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from tprof.errors import TprofError

from . import remote
from .binding import Binding
from .cluster_task import ClusterTask
from .data import Data, Datum, Outcome, Version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tprof.declarations import Access

PORTION_BYTES = 64 << 20
"""Arrays are sent to workers, and fetched from them, in portions of about so many bytes."""
MAX_BATCH = 256
"""The most tasks that are submitted before the ends of others are looked at again."""


class _Spawned(NamedTuple):
    """A task that was not submitted yet."""

    call: remote.Call
    binding: Binding
    priority: int


class TaskGraph:
    """The tasks of one runtime, on dask.

    Parameters
    ----------
    client
        The `distributed.Client`.
    library_threads
        How many threads BLAS and OpenMP may use in a task; None: any number.
    max_pending
        The most unfinished tasks; with as many, `spawn` waits until a quarter has ended. 0: no limit.
    nodes
        Gets number, function, 0 and the predecessors' numbers of each task; None keeps nothing.

    Attributes
    ----------
    identity : of this graph, in dask's keys and on the workers.
    spawned, peak : how many tasks were spawned, and the most that were unfinished at a time.
    """

    def __init__(self, client: Any, *, library_threads: int | None, max_pending: int, nodes: list[Any] | None) -> None:
        """Start the thread that submits."""
        self.spawned = self.peak = 0
        self._client = client
        self.identity = uuid4().hex
        self._library_threads = library_threads
        self._max_pending = max_pending
        self._nodes = nodes
        self._data = Data()
        self._queue: deque[_Spawned] = deque()
        self._unfinished: dict[ClusterTask, Binding] = {}
        self._most_submitted: int | None = None
        self._failures: list[ClusterTask] = []
        # Re-entrant, since the end of a task calls what the program added to its future.
        self._changed = threading.Condition(threading.RLock())
        self._stopping = False
        self._thread = threading.Thread(target=self._submit_all, name="tprof-cluster", daemon=True)
        self._thread.start()

    @property
    def unfinished(self) -> int:
        """How many tasks have not ended."""
        return len(self._unfinished)

    def spawn(
        self, function: Callable[..., Any], access: Access, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ClusterTask:
        """Note a call of a task.

        Raises
        ------
        TypeError, UsageError
            For data that a cluster cannot have, and for what cannot be pickled.
        """
        with self._changed:
            if self._max_pending and len(self._unfinished) >= self._max_pending:
                self._changed.wait_for(lambda: len(self._unfinished) <= self._max_pending * 3 // 4)
            args = tuple(_known(value) for value in args)
            kwargs = {name: _known(value) for name, value in kwargs.items()}
            task = ClusterTask(self.spawned + 1, function, self.cancel)
            binding = Binding(task, self._data)
            binding.bind(access, args, kwargs)
            priority = access[5](*args, **kwargs) if callable(access[5]) else access[5]
            call = self._call(function, binding, args, kwargs)
            call.check_sendable(task.name)
            task.outcome = binding.outcome
            binding.complete()
            self.spawned += 1
            self._unfinished[task] = binding
            self.peak = max(self.peak, len(self._unfinished))
            if self._nodes is not None:
                before = sorted(other.number for other in binding.predecessors() if not other.done())
                self._nodes.append((task.number, function, 0, tuple(before)))
            self._queue.append(_Spawned(call, binding, priority))
            self._changed.notify_all()
        return task

    def _call(
        self, function: Callable[..., Any], binding: Binding, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> remote.Call:
        return remote.Call(
            runtime=self.identity,
            library_threads=self._library_threads,
            function=function,
            args=tuple(_without(value, (at,), binding) for at, value in enumerate(args)),
            kwargs={name: _without(value, (name,), binding) for name, value in kwargs.items()},
            sources=tuple(binding.sources),
            places=binding.places,
        )

    def limit(self, most: int | None) -> None:
        """Have at most so many tasks on the cluster at a time; None: any number."""
        with self._changed:
            self._most_submitted = most
            self._changed.notify_all()

    def _submit_all(self) -> None:
        """Submit what is spawned until the runtime ends: the main function of the thread."""
        while batch := self._next_batch():
            try:
                self._send(batch)
                for spawned in batch:
                    self._submit(spawned)
            except Exception as error:  # noqa: BLE001 - no thread of the program would see it: the tasks have it
                for spawned in batch:
                    self._fail(spawned.binding.outcome.task, error)

    def _next_batch(self) -> list[_Spawned]:
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._stopping or (self._queue and self._room() > 0))
                if self._stopping:
                    return []
                count = min(len(self._queue), MAX_BATCH, self._room())
                batch = [self._queue.popleft() for _ in range(count)]
                batch = [spawned for spawned in batch if not spawned.binding.outcome.task.done()]
                if batch:
                    return batch

    def _room(self) -> int:
        """Return how many more tasks may be on the cluster."""
        on_cluster = len(self._unfinished) - len(self._queue)
        return MAX_BATCH if self._most_submitted is None else max(0, self._most_submitted - on_cluster)

    def _send(self, batch: Iterable[_Spawned]) -> None:
        """Send the program's arrays that no worker has yet."""
        needed = dict.fromkeys(need for one in batch for need in one.binding.needs if isinstance(need, Datum))
        for portion in _portions([datum for datum in needed if datum.sent is None]):
            sent = self._client.scatter([datum.array for datum in portion], hash=False)
            for datum, future in zip(portion, sent, strict=True):
                datum.sent = future

    def _submit(self, spawned: _Spawned) -> None:
        outcome, after = spawned.binding.outcome, spawned.binding.after
        task = outcome.task
        inputs = [need.sent if isinstance(need, Datum) else need.remote for need in spawned.binding.needs]
        inputs += [self._end_of(other) for other in after if not other.done()]
        if any(one is None for one in inputs) or any(other.cause for other in spawned.binding.predecessors()):
            self._end(task, self._cause(task) or task, None)  # what it needs was cancelled before it was submitted
            return
        outcome.remote = self._client.submit(
            remote.execute, spawned.call, *inputs, key=self._key(task, ""), priority=spawned.priority, pure=False
        )
        outcome.remote.add_done_callback(partial(self._ended, task))

    def _end_of(self, task: ClusterTask) -> Any:
        """Return a dask future that ends with the task, and has none of its arrays."""
        outcome = self._unfinished[task].outcome if task in self._unfinished else task.outcome
        if outcome is None or outcome.remote is None:
            return None
        return self._client.submit(remote.nothing, outcome.remote, key=self._key(task, "-end"))

    def _key(self, task: ClusterTask, suffix: str) -> str:
        return f"{task.name}{suffix}-{self.identity}-{task.number}"

    def _ended(self, task: ClusterTask, future: Any) -> None:
        """Note the end of a task; called by dask, on its thread for callbacks."""
        if future.status == "finished":
            with self._changed:
                binding = self._unfinished.get(task)
                if binding is not None:
                    has_result = future.type is not list
                    # Without a result, the arrays that it wrote may go from the worker before the program's future.
                    task.outcome = binding.outcome if has_result else None
                    task.finish(partial(self._fetch_result, binding.outcome) if has_result else _nothing)
                    self._forget(task)
        elif future.status == "error":
            self._fail(task, future.exception())
        else:  # nobody here cancelled it
            self._fail(task, _lost(f"what task {task.name} (#{task.number}) needs"))

    def _fail(self, task: ClusterTask, error: BaseException) -> None:
        cause = self._cause(task)
        self._end(task, cause or task, error if cause is None else None)

    def _cause(self, task: ClusterTask) -> ClusterTask | None:
        """Return the task that failed or was cancelled first, if one that the task needs did."""
        with self._changed:
            binding = self._unfinished.get(task)
        for other in binding.predecessors() if binding is not None else ():
            if other.cause is not None:
                return other.cause
            future = None if other.outcome is None else other.outcome.remote
            # dask tells of a failure in the order of tasks, but calls back later.
            if not other.done() and future is not None and future.status in {"error", "cancelled"}:
                return self._cause(other) or other
        return None

    def _end(self, task: ClusterTask, cause: ClusterTask, error: BaseException | None) -> None:
        with self._changed:
            if task not in self._unfinished:
                return
            task.fail(cause, error)
            if error is not None:
                self._failures.append(task)
            self._forget(task)

    def _forget(self, task: ClusterTask) -> None:
        del self._unfinished[task]
        self._changed.notify_all()

    def _fetch_result(self, outcome: Outcome) -> Any:
        result = self._client.submit(remote.result_of, outcome.remote, key=self._key(outcome.task, "-result"))
        return result.result()

    def wait(self, tasks: Collection[ClusterTask] | None = None) -> None:
        """Wait until these tasks have ended; None: all."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._unfinished if tasks is None else all(task.done() for task in tasks)
            )

    def wait_for(self, value: Any) -> ClusterTask | None:
        """Wait for the tasks that touch a datum and fetch it; returns the task whose failure left it unwritten.

        Raises
        ------
        TypeError
            If it is neither an array nor a handle.
        """
        with self._changed:
            datum = self._data.find(value)
        if datum is None:
            return None
        self.wait(datum.touching())
        lost = next((one.outcome.task for one in reversed(datum.versions) if one.outcome.task.cause is not None), None)
        self._bring_back([datum])
        return lost

    def fetch_written(self) -> None:
        """Bring what was written into the program's arrays, and forget those that no unfinished task touches."""
        with self._changed:
            data = [datum for datum in self._data if all(task.done() for task in datum.touching())]
        self._bring_back(data)

    def _bring_back(self, data: list[Datum]) -> None:
        self._fetch([datum for datum in data if datum.array is not None])
        with self._changed:
            for datum in data:
                if all(task.done() for task in datum.touching()):  # others may have been spawned meanwhile
                    self._data.forget(datum)

    def _fetch(self, data: Iterable[Datum]) -> None:
        changed = [datum for datum in data if _last_good(datum) is not None]
        for portion in _portions(changed):
            futures = [self._array(version) for datum in portion if (version := _last_good(datum)) is not None]
            try:
                arrays = self._client.gather(futures)
            except CancelledError as error:
                raise _lost(f"what tasks wrote, such as {portion[0].name},") from error
            for datum, array in zip(portion, arrays, strict=True):
                if datum.array is not None:
                    datum.array[...] = array

    def _array(self, version: Version) -> Any:
        """Return the dask future of one array alone."""
        outcome, place = version
        key = f"{self._key(outcome.task, '-array')}-{place}"
        return self._client.submit(remote.array_of, outcome.remote, place, key=key)

    def cancel(self, tasks: Collection[ClusterTask] | None = None) -> None:
        """Cancel tasks that have not ended, and those that need them; None: all. What already runs is dropped."""
        with self._changed:
            chosen = [task for task in self._unfinished if tasks is None or task in tasks]
            futures = [
                self._unfinished[task].outcome.remote
                for task in chosen
                if self._unfinished[task].outcome.remote is not None
            ]
            for task in chosen:
                self._end(task, task, None)
            self._cancel_dependents()
        self._client.cancel(futures, force=True)

    def _cancel_dependents(self) -> None:
        for task in list(self._unfinished):  # in the order of spawning, so a cause is known before its dependents
            cause = self._cause(task)
            if cause is not None:
                self._end(task, cause, None)

    def take_failures(self, among: Collection[ClusterTask] | None = None) -> list[ClusterTask]:
        """Return the tasks that failed and were not acknowledged, in the order of their ends, and acknowledge them.

        Parameters
        ----------
        among
            Only of these tasks; None: of all.
        """
        with self._changed:
            chosen = set(self._failures if among is None else among)
            failures = [task for task in self._failures if task in chosen and not task.acknowledged]
            self._failures = [task for task in self._failures if task not in chosen]
        for task in failures:
            task.acknowledged = True
        return failures

    def stop(self) -> None:
        """End the thread, and the runtimes of the workers."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()
        self._data.clear()
        if self._client.status == "running":
            self._client.run(remote.close, self.identity, on_error="ignore")


def _nothing() -> None:
    return None


def _known(value: Any) -> Any:
    """Return an argument, or None for a task that has ended and returned that."""
    has_none = isinstance(value, ClusterTask) and value.outcome is None and value.state == "finished"
    return None if has_none else value


def _without(value: Any, path: tuple[int | str, ...], binding: Binding) -> Any:
    """Return an argument without what a worker puts in its place; lists are copied."""
    if path in binding.places:
        return None
    if isinstance(value, list | tuple) and any(other[: len(path)] == path for other in binding.places):
        return [_without(item, (*path, index), binding) for index, item in enumerate(value)]
    return value


def _lost(what: str) -> TprofError:
    return TprofError(
        f"a worker of the cluster ended, and {what} was lost with it: the program's arrays are as after its last "
        "wait(); begin there again"
    )


def _last_good(datum: Datum) -> Version | None:
    return next((one for one in reversed(datum.versions) if one.outcome.task.state == "finished"), None)


def _portions(data: list[Datum]) -> Iterator[list[Datum]]:
    """Yield the data in portions of about `PORTION_BYTES`."""
    rest = iter(data)
    while portion := list(islice(rest, 1)):
        size = 0
        for datum in portion:
            size += 0 if datum.array is None else datum.array.nbytes
            if size < PORTION_BYTES:
                portion += islice(rest, 1)
        yield portion
