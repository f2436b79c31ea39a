"""Joules of a cluster while it records: each worker's process by its share of CPU time, tasks by one worker of a host.

Nothing is read unless the scheduler asks, and that asks only while somebody looks.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

from tprof import _core
from tprof.live.usage import ProcessMeter
from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from distributed import Worker

    from tprof.session.membership import Membership

HANDLER = "tprof_live"
"""The operation by which a scheduler asks a worker."""
SHORTEST_NS = 100_000_000
"""Of the time over which watts are a mean."""

_lock = threading.Lock()
_processes: dict[str, ProcessWatts] = {}


class ProcessWatts:
    """The watts of this process in a recording; read by one thread at a time."""

    def __init__(self, member: Membership) -> None:
        """Begin with the joules known now. Raises TraceError."""
        self.meter = member.meter()
        self._process = ProcessMeter(member.plan.directory, self.meter.static_w)
        self._since_ns = self._process.until_ns
        self._watts = 0.0

    def read(self) -> float:
        """Return the mean watts since the last read. Raises TraceError."""
        self._process.read()
        until_ns = self._process.until_ns
        if until_ns - self._since_ns >= SHORTEST_NS:
            self._watts = self._process.since(self._since_ns) / (until_ns - self._since_ns) * 1e9
            self._since_ns = until_ns
        return self._watts


def answer_asks(worker: Worker) -> None:
    """Let a worker answer the scheduler with its figures, and with those of its host's tasks if these are asked for.

    It goes on when the recording ends, and then answers None: the scheduler may still ask.
    """

    async def answer(*, workers_with_tasks: list[str]) -> dict[str, Any] | None:
        return await asyncio.to_thread(_read, worker.address, worker.address in workers_with_tasks)

    worker.handlers[HANDLER] = answer


def _read(worker: str, with_tasks: bool) -> dict[str, Any] | None:  # noqa: FBT001 - called by a thread
    with _lock:
        member = this_process.membership
        if member is None or not _core.generation():
            _processes.clear()
            return None
        session = os.fspath(member.plan.directory)
        if session not in _processes:
            _processes.clear()
            _processes[session] = ProcessWatts(member)
        process = _processes[session]
        watts, energy = process.read(), process.meter.energy() if with_tasks else None
    return {
        "worker": worker,
        "part": session,
        "process": os.getpid(),
        "watts": watts,
        "quality": process.meter.quality,
        "tasks": None if energy is None else {name: one.energy_j for name, one in energy.tasks.items()},
    }
