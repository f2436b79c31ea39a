"""Ends the parts of a cluster's hosts and brings them home through the client, each with its clock's offset."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError, TraceError
from tprof.trace.archive import Unpacker
from tprof.trace.clock_offset import Offset, offset_by_pings
from tprof.trace.cluster import HostPart, load_job
from tprof.trace.directory import HOSTS
from tprof.trace.hosts_table import free_name
from tprof.trace.manifest import read_manifest

from . import on_worker
from .worker_plugin import NAME as TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from distributed import Client

ASK_S = 60.0
"""Longest wait for an answer of a worker; its event loop may be held up by a task that keeps the interpreter's lock."""
GONE = (OSError, TimeoutError, RuntimeError, ValueError, TprofError)
"""What a client raises when the scheduler is gone, or the client itself is closed."""
PINGS = 8
AT_ONCE = 4
"""Parts that come home at the same time; the memory of the driver and the scheduler is bounded by their pieces."""


@dataclass
class Host:
    """A host of the cluster, as its workers report it.

    Attributes
    ----------
    name : of its latest part, or of the host if it has none
    boot_id : by which it is known
    job : its directory of the job there
    is_shared : whether this is the client's
    problem : why it is not recorded; None if it is
    workers : addresses of the workers on it
    offset : of the client's clock in UNIX time; None: not known
    """

    name: str
    boot_id: str
    job: str
    is_shared: bool
    problem: str | None
    workers: list[str] = field(default_factory=list)
    offset: Offset | None = None


def by_host(reports: Iterable[tuple[str, dict[str, Any] | None]]) -> dict[tuple[str, str], Host]:
    """Return the hosts that workers report, by the boot's identity and the directory of the job.

    Parameters
    ----------
    reports : pairs of a worker's address and its report; of a host with several, one without a problem counts
    """
    found: dict[tuple[str, str], Host] = {}
    for address, report in reports:
        if not isinstance(report, dict):
            continue
        key = (str(report["boot_id"]), str(report["job"]))
        host = found.get(key)
        if host is None or (host.problem is not None and report["problem"] is None):
            workers = [] if host is None else host.workers
            host = Host(report["host"], key[0], key[1], report["is_shared"], report["problem"], workers)
            found[key] = host
        if address not in host.workers:
            host.workers.append(address)
    return found


class Cluster:
    """The workers of a cluster, as far as they answer."""

    def __init__(self, client: Client) -> None:
        """Store the client."""
        self.client = client

    def check(self) -> None:
        """Raise TprofError if the client has lost its scheduler, or has been closed."""
        if self.client.status not in ("running", "newly-created"):
            raise TprofError(f"its client is {self.client.status}")

    async def ask(
        self, function: Callable[..., Any], *arguments: Any, workers: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Call a function on workers, by default on all; returns what each returned or raised.

        Raises
        ------
        TprofError
            If the scheduler does not answer.
        """
        if workers is not None and not workers:
            return {}
        self.check()
        call = self.client.run(function, *arguments, workers=workers, on_error="return")
        try:
            answers: dict[str, Any] = await asyncio.wait_for(call, ASK_S)
        except GONE as error:
            raise TprofError(f"the scheduler of the cluster does not answer: {error!r}") from error
        return answers

    async def ask_one(self, function: Callable[..., Any], *arguments: Any, worker: str) -> Any:
        """Call a function on a worker. Raises TprofError if it does not answer, or fails."""
        answer = (await self.ask(function, *arguments, workers=[worker])).get(worker)
        if isinstance(answer, BaseException):
            raise TprofError(f"{worker}: {answer}") from answer
        return answer

    async def hosts(self, token: str) -> dict[tuple[str, str], Host]:
        """Return the hosts that workers have reported for a job, with those workers that are there now.

        Raises
        ------
        TprofError
            If the scheduler does not answer.
        """
        self.check()
        events = [event for _, event in await self.client.get_events(TOPIC)]
        earlier = by_host((event["worker"], event) for event in events if event["token"] == token)
        now = by_host((await self.ask(on_worker.report)).items())
        for key, host in earlier.items():
            host.workers = []
            now.setdefault(key, host)
        return now

    async def measure_offset(self, worker: str) -> Offset:
        """Compare a host's clock with the client's. Raises TprofError."""
        pings = []
        for _ in range(PINGS):
            sent_ns = time.monotonic_ns()
            there_ns = await self.ask_one(on_worker.read_clock, worker=worker)
            pings.append((sent_ns, there_ns, time.monotonic_ns()))
        return offset_by_pings(pings)


@dataclass(frozen=True)
class Collected:
    """A part as it is at the end.

    Attributes
    ----------
    part : as it stands in the job's table
    kept : the part for one who is on its host, where it stayed; None: it is home, or missing
    worker : on that host
    """

    part: HostPart
    kept: HostPart | None = None
    worker: str = ""


async def collect(cluster: Cluster, host: Host, job: Path, *, keep: bool) -> list[Collected]:
    """End a host's parts, and bring them into the job unless they are there or stay; returns all of them."""
    if host.problem is not None:
        return [Collected(HostPart(host.name, None, None, f"it was not recorded: {host.problem}"))]
    problem = "no worker was left on it at the end"
    for worker in host.workers:
        try:
            host.offset = await cluster.measure_offset(worker)
            ended = await cluster.ask_one(on_worker.end_parts, host.job, worker=worker)
            if host.is_shared or keep:
                return [_there(host, job, name, why, worker) for name, why in ended.items()]
            parts = [Collected(await bring_home(cluster, worker, host, job, name)) for name in ended]
            await cluster.ask_one(on_worker.remove_job, host.job, worker=worker)
        except (TprofError, OSError) as error:
            problem = str(error)
        else:
            return parts
    if host.is_shared:
        return [Collected(HostPart(path.name, path, host.offset)) for path in _own_parts(job, host.boot_id)]
    return [Collected(HostPart(host.name, None, host.offset, f"{problem}; its part is in {host.job} there"))]


def _own_parts(job: Path, boot: str) -> list[Path]:
    """Return the parts of a host in a job whose files it shares."""
    try:
        paths = [one.path for one in load_job(job).hosts if one.path is not None]
        return [path for path in paths if read_manifest(path).get("boot_id") == boot]
    except TraceError:
        return []


def _there(host: Host, job: Path, name: str, problem: str | None, worker: str) -> Collected:
    if host.is_shared:
        return Collected(HostPart(name, job / HOSTS / name, host.offset, problem))
    path = Path(host.job) / HOSTS / name
    why = f"it stayed on its host, in {path}: bring it by tprof merge"
    kept = HostPart(name, path, host.offset, problem)
    return Collected(HostPart(name, None, host.offset, why if problem is None else f"{why} ({problem})"), kept, worker)


async def bring_home(cluster: Cluster, worker: str, host: Host, job: Path, name: str) -> HostPart:
    """Unpack a part piece by piece, below a name that no other host's part has. Raises TprofError, OSError."""
    target = job / HOSTS / free_name(job / HOSTS, name)
    stream = await cluster.ask_one(on_worker.open_stream, f"{host.job}/{HOSTS}/{name}", worker=worker)
    try:
        with Unpacker(target) as unpacker:
            while piece := await cluster.ask_one(on_worker.next_piece, stream, worker=worker):
                await asyncio.to_thread(unpacker.feed, piece)
            unpacker.close()
    finally:
        with suppress(TprofError):
            await cluster.ask_one(on_worker.close_stream, stream, worker=worker)
    return HostPart(target.name, target, host.offset)
