"""Ends a recording: writes the contents of the processes' shared page to the session."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tprof import _core
from tprof.trace.manifest import LENGTHS, write_end
from tprof.trace.sealed import seal

from .companions import await_companions, describe_running

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMITTED = slice(64, 72)
"""Where a stream's header says how many records there are; `trace.layout` says it too, with NumPy, which takes long."""
LACKED_THREAD = (
    "the system refused tprof a thread (see ulimit -u): for as long the sensors were not read, so their joules are "
    "shared over a long time, and native threads are in `runtime`; raise the limit for better figures"
)


@dataclass(frozen=True)
class Ending:
    """The end of a session's owner.

    Attributes
    ----------
    session : the session directory
    identity : of this directory, so that no other one is written to
    pid : of the owner
    stopped : "end", "interrupted", "exit" or "error"
    lost_definitions : number of tasks that could not be written
    notes : sentences on what could not be read
    readers_cpu_ns : CPU time of the thread on which Python reads sensors
    """

    session: Path
    identity: tuple[int, int]
    pid: int
    stopped: str
    lost_definitions: int
    notes: tuple[str, ...] = ()
    readers_cpu_ns: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values for another process."""
        return {**asdict(self), "session": str(self.session)}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Self:
        """Create it from plain values."""
        tuples = {name: tuple(plain[name]) for name in ("identity", "notes")}
        return cls(**{**plain, **tuples, "session": Path(plain["session"])})

    def write(self, end_ns: int, *, running: Sequence[str]) -> list[str]:
        """End the session for all its processes and write its end; returns a sentence on a failure.

        `running` are sentences on the processes that record on.
        """
        notes = [*self.notes, *running]
        ended = _core.session_end()
        end = {
            "end_ns": end_ns,
            "clock": _clocks(end_ns),
            "stopped": self.stopped,
            "processes": [
                {"process": ordinal, "pid": pid, "cpu_ns": cpu_ns, "ended_ns": ended_ns or None}
                | ({} if ended_ns else _written(self.session, ordinal))
                for ordinal, pid, cpu_ns, ended_ns in ended["processes"]
            ],
            "process_count": ended["process_count"],
            "thread_count": ended["threads"],
            "lost_threads": ended["lost_threads"],
            "uncounted_threads": ended["uncounted_threads"],
            "lost_definitions": self.lost_definitions,
            "dropped": {key.removeprefix("dropped_"): ended[key] for key in ended if key.startswith("dropped_")},
            "readers_cpu_ns": self.readers_cpu_ns,
            "notes": notes,
        }
        if identity_of(self.session) != self.identity:
            # The directory there now is not this session.
            return [f"{self.session} is no longer the session that was begun there: its end is not written"]
        live = self.session / "live"
        try:
            write_end(self.session, seal(self.session, end))
            live.unlink(missing_ok=True)
        except OSError as error:
            # The samples are on disk nevertheless: the trace loads like that of a killed program. Without the page,
            # who looks after the files knows that nobody will write an end.
            with suppress(OSError):
                live.unlink(missing_ok=True)
            return [f"the end of {self.session} could not be written ({error.strerror}): it reads as incomplete"]
        return []


def _written(session: Path, process: int) -> dict[str, int]:
    """Return how much is there of what a process that records on adds to without saying when, or later than it was."""
    found: dict[str, int] = {}
    for folder, name in LENGTHS.items():
        path = session / folder / f"{process:08d}.jsonl"
        with suppress(OSError):
            found[name] = path.stat().st_size if path.exists() or folder == "tasks" else 0
    with suppress(OSError), (session / "native" / f"{process:08d}.native").open("rb") as file:
        found["native_records"] = int.from_bytes(file.read(COMMITTED.stop)[COMMITTED], "little")
    return found


def _clocks(end_ns: int) -> dict[str, int]:
    """Return the end on other clocks: from them a reader sees whether the wall clock was set meanwhile."""
    since_ns = _core.now_ns() - end_ns
    return {"wall_end_ns": time.time_ns() - since_ns, "boottime_end_ns": end_ns + _core.suspended_ns()}


def end_later(plain: dict[str, Any], owner: int) -> list[str]:
    """End a recording that was left open, in a separate process, after the owner's companions have left it.

    The owner reads its sensors until a message on the socket, and closes the socket after stopping them: see
    `_core.await_at_exit`.
    """
    ending = Ending.from_json(plain)
    _core.session_watch(str(ending.session))
    await_companions(ending.pid)
    end_ns = _core.now_ns()
    with socket.socket(fileno=owner) as channel:
        channel.sendall(b".")
        channel.recv(1)
    return ending.write(end_ns, running=describe_running(ending.pid))


def identity_of(path: Path) -> tuple[int, int]:
    """Return the identity of a file, which differs from that of another file with the same name."""
    try:
        status = path.lstat()
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino
