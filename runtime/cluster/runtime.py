"""The runtime whose tasks a cluster's workers run: what `Runtime(cluster=client)` makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tprof.runtime import _scheduler
from tprof.runtime.declared_call import declared_call
from tprof.runtime.entered import set_default
from tprof.runtime.group import raise_first
from tprof.runtime.runtime import ENDED, MAX_PENDING, Runtime, whole

from tprof.declarations import NOTHING
from tprof.errors import UsageError
from tprof.session.process_state import this_process

from .blocks import ClusterGroup, ClusterPart, around, raise_refusal
from .cluster_task import ClusterTask
from .graph import TaskGraph

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tprof.runtime.policy import Policy

    from tprof.declarations import Names, Priority

    from .host_policies import HostPolicies


class ClusterRuntime(Runtime):
    """Runs tasks on the workers of a dask cluster, in an order that the data they declare allows.

    Attributes
    ----------
    workers : threads of the cluster's workers when the runtime was made.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        cluster: Any,
        pin: bool | None = None,
        library_threads: int | None = 1,
        max_pending: int | None = MAX_PENDING,
        keep_graph: bool = False,
        policy: str | Policy | None = None,
        name: str = "worker",
    ) -> None:
        """Check the arguments; see `Runtime`."""
        del name
        if workers is not None or pin is not None:
            unused = "workers" if workers is not None else "pin"
            raise UsageError(f"{unused} does not go with cluster=: the cluster's workers have threads of their own")
        if not hasattr(cluster, "submit") or not hasattr(cluster, "scatter"):
            raise UsageError(f"cluster= takes a distributed.Client, got {cluster!r}")
        if getattr(cluster, "asynchronous", False):
            raise UsageError("cluster= takes a client that is not asynchronous: the runtime's wait() blocks")
        if getattr(cluster, "status", "running") in {"closing", "closed"}:
            raise UsageError("the client that cluster= names is closed: the runtime's block must end before")
        self._client = cluster
        self._library_threads = None if library_threads is None else whole("library_threads", library_threads, 4096)
        self._max_pending = 0 if max_pending is None else whole("max_pending", max_pending, 2**40)
        self._nodes: list[Any] | None = [] if keep_graph else None
        self._policy = None if policy is None else _policy_of(policy)
        self._policies: HostPolicies | None = None
        self._graph: TaskGraph | None = None
        self._begun = self._ended = False
        self._refusals: dict[Exception, bool] = {}
        self._active: int | None = None
        self.workers = max(1, sum(cluster.nthreads().values()))

    def __enter__(self) -> Self:
        """Begin; from here on calls of tasks spawn."""
        if self._begun:
            raise UsageError("a runtime runs once: make another")
        self._begun = True
        self._graph = TaskGraph(
            self._client, library_threads=self._library_threads, max_pending=self._max_pending, nodes=self._nodes
        )
        if self._policy is not None:
            self._set_policies(self._graph, self._policy)
        this_process.runtimes.enter(self)
        set_default()
        return self

    def _set_policies(self, graph: TaskGraph, policy: Policy) -> None:
        from .host_policies import HostPolicies  # noqa: PLC0415 - NumPy's laws, which few programs need

        self._policies = HostPolicies(self._client, graph.identity, self._library_threads, policy)
        try:
            self._policies.start()
        except BaseException:
            self._ended = True
            graph.stop()
            raise

    @property
    def caps_w(self) -> dict[str, float]:
        """Watts that each host may draw now, by its name; empty unless the policy is a cap."""
        return {} if self._policies is None else self._policies.caps_w.copy()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for all tasks, and fetch what they wrote; after an exception cancel those that have not ended."""
        graph = self._running()
        try:
            self._wait_for_all(cancelled=error is not None)
            graph.fetch_written()
        except BaseException:
            self._leave()
            raise
        failures = graph.take_failures()
        self._leave()
        raise_first(failures, error)
        if error is None:
            self._raise_own_refusals(graph)

    def _wait_for_all(self, *, cancelled: bool) -> None:
        graph = self._running()
        if cancelled:
            graph.cancel()
        try:
            graph.wait()
        except BaseException:
            graph.cancel()
            raise

    def submit(  # type: ignore[override]
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        reads: Names = (),
        writes: Names = (),
        updates: Names = (),
        priority: Priority = 0,
        **kwargs: Any,
    ) -> ClusterTask:
        """Spawn a call of any function; see `Runtime.submit`."""
        called, access, given = declared_call(
            function, args, reads=reads, writes=writes, updates=updates, priority=priority
        )
        graph = self._running()
        task = graph.spawn(called, access, given, kwargs)
        for block in around(graph):
            block.add(task)
        return task

    @property
    def native(self) -> None:
        """It has no native scheduler."""
        return

    @property
    def spawner(self) -> Callable[..., Any]:
        """What takes a task and its arguments over, outside tasks of this process."""
        return self._spawn

    def _spawn(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if _scheduler.current_slot() is not None:
            return _scheduler.spawn(function, *args, **kwargs)
        graph = self._running()
        task = graph.spawn(function, getattr(function, "access", None) or NOTHING, args, kwargs)
        for block in around(graph):
            block.add(task)
        return task

    def wait(self, *data: object) -> None:
        """Wait for all tasks, or for those that touch the data, and fetch what they wrote; see `Runtime.wait`."""
        graph = self._running()
        if not data:
            graph.wait()
            graph.fetch_written()
            raise_first(graph.take_failures())
        self._raise_own_refusals(graph)
        for item in data:
            if isinstance(item, ClusterTask):
                item.result()
            elif isinstance(item, list):
                self.wait(*item)
            else:
                lost = graph.wait_for(item)
                if lost is not None:
                    lost.result()

    def group(self) -> ClusterGroup:  # type: ignore[override]
        """Return a with-block that waits for the tasks it spawns."""
        return ClusterGroup(self._running())

    def cancel(self) -> None:
        """Cancel all tasks that have not ended; workers finish what they run already, and the results are dropped."""
        self._running().cancel()

    def part(self) -> ClusterPart:  # type: ignore[override]
        """Return a part: once it begins, it collects the tasks that the running code spawns, to be cancelled alone."""
        return ClusterPart(self._running())

    def refuse(self, error: Exception, *, once: bool = False) -> None:
        """Cancel the tasks that have not ended, and raise the error in waits; once, or until `accept`."""
        self._refusals[error] = once
        self._running().cancel()

    def counts(self) -> dict[str, int]:
        """Return the numbers of tasks spawned, executed, unfinished and most unfinished, and of workers' threads."""
        graph = self._running()
        executed = graph.spawned - graph.unfinished
        return {
            "spawned": graph.spawned,
            "executed": executed,
            "unfinished": graph.unfinished,
            "peak_unfinished": graph.peak,
            "threads": self.workers,
        }

    @property
    def active_workers(self) -> int:
        """How many tasks are on the cluster at a time; by default as many as dask takes."""
        return self.workers if self._active is None else self._active

    @active_workers.setter
    def active_workers(self, number: int) -> None:
        self._active = whole("active_workers", number, self.workers)
        self._running().limit(None if self._active == self.workers else self._active)

    def _raise_own_refusals(self, graph: TaskGraph) -> None:
        raise_refusal(graph)
        for error, once in self._refusals.copy().items():
            if once:
                self.accept(error)
            raise error

    def _running(self) -> TaskGraph:
        if self._graph is None or self._ended:
            raise UsageError(ENDED if self._ended else "this runtime has not begun: enter it with a with-block")
        return self._graph

    def _leave(self) -> None:
        graph = self._running()
        self._ended = True
        this_process.runtimes.entered.remove(self)
        set_default()
        if self._policies is not None:
            self._policies.stop()
        graph.stop()

    def end_with_program(self, deadline_s: float) -> None:
        """Drop what is unfinished: workers need no time to end."""
        del deadline_s
        self._leave()

    def abandon(self) -> None:
        """Forget the cluster, in a forked child."""
        self._ended = True


def _policy_of(asked: str | Policy) -> Policy:
    from tprof.runtime.policy import policy_of  # noqa: PLC0415 - few programs have a policy

    return policy_of(asked)
