"""A recording of the tasks of a dask cluster, from `record` to the end of its with-block."""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tprof.errors import SensorError, TprofError, UsageError
from tprof.sensors import sysroot
from tprof.sensors.topology import boot_id
from tprof.session import hosts
from tprof.session.options import RecordingOptions
from tprof.session.process_state import this_process
from tprof.trace.cluster import HostPart, load_job, write_hosts
from tprof.trace.directory import HOSTS
from tprof.trace.merge import why_not_job
from tprof.trace.running import is_running

from .collecting import AT_ONCE, GONE, Cluster, Collected, Host, collect
from .on_worker import analyse
from .panel import Panel
from .worker_plugin import NAME, Job, TaskPlugin, enter, leave

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from types import TracebackType

    from distributed import Client

    from tprof.analysis.profile import Profile

LINGER_S = 30.0
"""For which a host's recorder waits when no worker is there: one may come back after a restart."""
CLIENT = "client"


class ClusterRecording:
    """A recording of the workers of a dask cluster, with a part for each host.

    Attributes
    ----------
    path : pathlib.Path
        The job's directory.
    hosts : tuple of tprof.trace.HostPart
        The parts and where they are, or why they are missing; empty before the end.
    """

    def __init__(
        self,
        client: Client,
        path: str | os.PathLike[str],
        options: RecordingOptions,
        *,
        overwrite: bool,
        keep_on_hosts: bool,
        local_directory: str | None,
    ) -> None:
        """Store the arguments; nothing happens before the with-block."""
        self.path = Path(path).absolute()
        self.hosts: tuple[HostPart, ...] = ()
        self._client, self._cluster, self._options = client, Cluster(client), options
        self._overwrite, self._keep = overwrite, keep_on_hosts
        self._job = Job(os.fspath(self.path), uuid.uuid4().hex, local_directory)
        self._known: dict[tuple[str, str], Host] = {}
        self._kept: dict[str, Collected] = {}
        self._is_running = self._client_joined = False

    def __enter__(self) -> Self:
        """Let all workers record, those too that come later."""
        if self._client.asynchronous:
            raise UsageError("the client is asynchronous: write `async with tprof.dask.record(…)`")
        self._make()
        _warn(self._run(self._begin))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the recording on all hosts and collect the parts, however the block ends."""
        _warn(self._run(self._end))

    def _run(self, work: Callable[[], Coroutine[Any, Any, list[str]]]) -> list[str]:
        """Run a coroutine in the client's event loop, which a closed client has no more."""
        if self._client.status == "closed":
            return asyncio.run(work())
        sentences: list[str] = self._client.sync(work)
        return sentences

    async def __aenter__(self) -> Self:
        """Do the same in the event loop of an asynchronous client."""
        if not self._client.asynchronous:
            raise UsageError("the client is not asynchronous: write `with tprof.dask.record(…)`, without async")
        self._make()
        _warn(await self._begin())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do the same in the event loop of an asynchronous client."""
        _warn(await self._end())

    def profile(self, model: str = "auto", **options: Any) -> Profile:
        """Attribute the joules to the tasks; parts that stayed on their hosts are analysed there.

        Parameters
        ----------
        model
            ``"auto"`` or the name of a power model.
        **options
            As for `tprof.trace.ClusterTrace.profile`.

        Raises
        ------
        UsageError
            If the recording still runs.
        """
        if self._is_running:
            raise UsageError(f"the recording {self.path} still runs: take its profile after the with-block")
        if self._keep:
            options.setdefault("map", self._map)
        return load_job(self.path).profile(model, **options)

    def _make(self) -> None:
        member = this_process.membership
        if member is not None:
            raise UsageError(
                f"a recording already runs in this process ({member.plan.directory}), and its workers may have joined "
                "it: record the cluster without `tprof run` and tprof.record, or without tprof.dask.record"
            )
        if os.path.lexists(self.path):
            _remove_former(self.path, overwrite=self._overwrite)
        hosts.part_of(self.path)
        self._job.mark.touch(mode=0o600)

    async def _begin(self) -> list[str]:
        """Return sentences on hosts that are not recorded. Raises SensorError if none is."""
        self._is_running = True
        try:
            notes = await self._register()
            self._known = await self._cluster.hosts(self._job.token)
            problems = _problems(list(self._known.values()))
            await asyncio.to_thread(self._join)
        except BaseException:
            await self._end()
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        return notes + [f"tprof does not record {problem}" for problem in problems]

    async def _register(self) -> list[str]:
        """Register the plugins; returns a sentence if the dashboard has no page. Raises TprofError."""
        try:
            await self._client.register_plugin(TaskPlugin(self._job, self._options))
        except ImportError as error:
            raise TprofError(
                f"tprof is not installed on all workers of the cluster: install it there ({error})"
            ) from error
        try:
            await self._client.register_plugin(Panel())
        except (ImportError, ValueError) as error:
            return [f"the dashboard has no page on energy, since the scheduler cannot load tprof: {error}"]
        return []

    def _join(self) -> None:
        """Let the client's process join if its own host is recorded."""
        part = hosts.part_of(self.path)
        if is_running(part):
            enter(part, CLIENT)
            self._client_joined = True

    async def _end(self) -> list[str]:
        """End all parts and write the job's table; what does not come is named there, and in the returned sentences."""
        self._is_running = False
        found: list[Collected] = []
        problem = None
        try:
            problem = await self._leave()
            at_once = asyncio.Semaphore(AT_ONCE)
            for some in await asyncio.gather(*(self._collect(host, at_once, problem) for host in self._known.values())):
                found += some
        finally:
            self._job.mark.unlink(missing_ok=True)
            self._kept = {one.part.name: one for one in found if one.kept is not None}
            self.hosts = tuple(one.part for one in found)
            write_hosts(self.path, self.hosts, engine="dask", expected=[part.name for part in self.hosts])
        missing = [part for part in self.hosts if part.missing is not None and part.name not in self._kept]
        sentences = [] if problem is None else [problem]
        return sentences + [f"the part of {part.name} is missing or not whole: {part.missing}" for part in missing]

    async def _leave(self) -> str | None:
        """Let workers and client leave; returns the reason if the cluster is not there any more."""
        problem = None
        try:
            self._known |= await self._cluster.hosts(self._job.token)
            await self._client.unregister_worker_plugin(NAME)
        except GONE as error:
            problem = f"the cluster does not answer any more ({error}): only files that are shared are collected"
        if self._client_joined:
            self._client_joined = False
            leave(CLIENT)
        return problem

    async def _collect(self, host: Host, at_once: asyncio.Semaphore, problem: str | None) -> list[Collected]:
        if problem is not None:
            host.workers = []
            if host.boot_id == boot_id(sysroot()):
                await asyncio.to_thread(hosts.stop, hosts.part_of(Path(host.job)))
        async with at_once:
            return await collect(self._cluster, host, self.path, keep=self._keep)

    def _map(self, function: Callable[[HostPart], Any], parts: Iterable[HostPart]) -> list[Any]:
        """Apply a function to each part where it lies."""
        found: list[Any] = self._client.sync(self._apply, function, list(parts))
        return found

    async def _apply(self, function: Callable[[HostPart], Any], parts: Sequence[HostPart]) -> list[Any]:
        at_once = asyncio.Semaphore(AT_ONCE)

        async def apply(part: HostPart) -> Any:
            there = self._kept.get(part.name)
            if there is None:
                return await asyncio.to_thread(function, part)
            try:
                async with at_once:
                    return await self._cluster.ask_one(analyse, function, there.kept, worker=there.worker)
            except TprofError as error:
                return function(replace(part, missing=f"{part.missing}; it could not be analysed there: {error}"))

        return list(await asyncio.gather(*(apply(part) for part in parts)))


def _problems(found: Sequence[Host]) -> list[str]:
    """Return why hosts are not recorded. Raises SensorError if there are hosts and none is."""
    problems = [f"{host.name}: {host.problem}" for host in found if host.problem is not None]
    if problems and len(problems) == len(found):
        raise SensorError(f"no host of the cluster can be recorded: {problems[0]}")
    return problems


def _warn(sentences: Sequence[str]) -> None:
    """Warn of what is not recorded, at the program's with-statement."""
    for sentence in sentences:
        warnings.warn(sentence, RuntimeWarning, stacklevel=3)


def _remove_former(path: Path, *, overwrite: bool) -> None:
    """Remove the job that is at a path. Raises UsageError if there is anything else, or it may not be replaced."""
    if not overwrite:
        raise UsageError(f"{path} exists: choose another path, or replace it with overwrite=True")
    why_not = why_not_job(path)
    if why_not is not None:
        raise UsageError(f"{path} is not only a job of yours ({why_not}), so it is not replaced: choose another path")
    if any(is_running(part) for part in (path, *(path / HOSTS).glob("*"))):
        raise UsageError(f"a recording runs in {path}: end it first, or choose another path")
    shutil.rmtree(path)


def record(
    client: Client,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    keep_on_hosts: bool = False,
    local_directory: str | None = None,
    **options: Any,
) -> ClusterRecording:
    """Record the tasks of a dask cluster, and the energy of its hosts.

    Each dask task is an instance of a task named by its key's prefix. Workers that come later, or come back after a
    restart, are recorded too. All workers of a host share its sensors, in one part. So does the client's own process,
    if it runs on such a host.

    Parameters
    ----------
    client
        The cluster's client. Of an asynchronous one the recording is used by ``async with``.
    path
        The job directory to make, by convention ``NAME.tprof``.
    overwrite
        Replace an existing job.
    keep_on_hosts
        Leave the parts on their hosts: `ClusterRecording.profile` analyses them there.
    local_directory
        Where each host keeps its part until the end. By default a worker that shares the client's files records
        straight into the job, and any other into its host's directory for temporary files.
    **options
        What to record, as for `tprof.record`: energy, counters, watts, idle_s, poller_share, attribute_native; and
        ``linger_s``, the seconds for which a host without workers waits for one, 30 by default.

    Returns
    -------
    ClusterRecording
        A context manager; after its block, `ClusterRecording.profile` attributes the energy.

    Raises
    ------
    UsageError
        If it is given no client, or a closed one, an option is unknown, the path is taken, or this process is recorded
        already.
    SensorError
        If no host of the cluster can be recorded.

    Examples
    --------
    >>> import tprof.dask
    >>> from dask.distributed import Client, LocalCluster
    >>> def main():
    ...     with Client(LocalCluster()) as client:
    ...         with tprof.dask.record(client, "sum.tprof") as recording:
    ...             print(client.submit(sum, range(10)).result())
    ...     print(recording.profile().summary())
    """
    if not hasattr(client, "register_plugin") or not hasattr(client, "status"):
        raise UsageError(f"tprof.dask.record takes a distributed.Client, such as Client(cluster), got {client!r}")
    if client.status in {"closing", "closed"}:
        raise UsageError("the client is closed: record inside its with-block")
    chosen = RecordingOptions.from_json({"linger_s": LINGER_S, **options})
    return ClusterRecording(
        client,
        path,
        chosen,
        overwrite=overwrite,
        keep_on_hosts=keep_on_hosts,
        local_directory=local_directory,
    )
