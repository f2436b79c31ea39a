"""The plugin that records a worker's tasks into the part of its host."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin

from tprof.errors import TprofError
from tprof.sensors import sysroot
from tprof.sensors.topology import boot_id, host_name
from tprof.session import hosts
from tprof.session.labels import label
from tprof.trace.directory import HOSTS
from tprof.trace.hosts_table import clean_name

from .live import answer_asks
from .worker_hooks import mark_no_more, mark_tasks

if TYPE_CHECKING:
    from distributed import Worker

    from tprof.session.options import RecordingOptions

NAME = "tprof"
"""Of the plugin, of which a cluster has one, and of the topic under which workers report their parts."""

_lock = threading.Lock()
_members: list[str] = []
"""Those for which this process is a member of its host's part: the addresses of its workers, and a client."""


@dataclass(frozen=True)
class Job:
    """Where workers record.

    Attributes
    ----------
    path : the job's directory on the client's machine
    token : a name that no other recording has; a worker that finds the file of this name in the job shares its files;
        empty if no client collects: then the path is the job's on each host
    directory : where each host keeps its part until the end; None: in the job, if the worker shares its files, else in
        the host's directory for temporary files
    """

    path: str
    token: str = ""
    directory: str | None = None

    @property
    def mark(self) -> Path:
        """The file by which workers recognise the job."""
        return Path(self.path) / HOSTS / f".{self.token}"

    def here(self) -> Path:
        """Return the job's directory on this host."""
        if not self.token:
            return Path(self.path).absolute()
        if self.directory is None and self.mark.exists():
            return Path(self.path)
        return Path(self.directory or tempfile.gettempdir()) / f"tprof-{self.token}"


class TaskPlugin(WorkerPlugin):
    """Records the tasks of each worker, also of those that come later or come back after a restart.

    It never fails: a worker whose host cannot be recorded works as without it, and reports the reason.

    Attributes
    ----------
    part : of the worker's host; None before the set-up, or if it cannot be recorded
    problem : why it cannot be recorded
    """

    name = NAME

    def __init__(self, job: Job, options: RecordingOptions) -> None:
        """Store where to record, and what."""
        self.job, self.options = job, options
        self.part: Path | None = None
        self.problem: str | None = None

    async def setup(self, worker: Worker) -> None:
        """Let the worker's host be recorded, and the worker join."""
        try:
            self.part = await asyncio.to_thread(_ensure, self.job.here(), self.options)
            enter(self.part, worker.address)
        except (TprofError, OSError) as error:
            self.part, self.problem = None, str(error)
            logging.getLogger(__name__).warning("tprof does not record the worker %s: %s", worker.address, error)
        else:
            mark_tasks(worker)
            answer_asks(worker)
        worker.log_event(NAME, {"worker": worker.address, **self.report()})

    async def teardown(self, worker: Worker) -> None:
        """Let the worker leave."""
        if self.part is not None:
            mark_no_more(worker)
            leave(worker.address)

    def report(self) -> dict[str, Any]:
        """Return where this worker's host is recorded, or why it is not, as plain values."""
        here = self.job.here()
        return {
            "host": clean_name(host_name(sysroot())) if self.part is None else self.part.name,
            "boot_id": boot_id(sysroot()),
            "job": str(here),
            "is_shared": str(here) == self.job.path,
            "problem": self.problem,
            "token": self.job.token,
        }


def _ensure(job: Path, options: RecordingOptions) -> Path:
    """Return this host's part of a job, which is recorded. Raises TprofError, OSError."""
    job.parent.mkdir(parents=True, exist_ok=True)
    return hosts.ensure(job, options)


def enter(part: Path, member: str) -> None:
    """Make this process a member of a part for a worker or a client in it. Raises TprofError."""
    with _lock:
        hosts.join(part)
        _members.append(member)
        label(worker=", ".join(_members))


def leave(member: str) -> None:
    """Leave for a worker or a client; the last one ends the membership."""
    with _lock:
        if member not in _members:
            return
        _members.remove(member)
        if not _members:
            hosts.leave()
