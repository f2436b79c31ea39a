"""The host recorder: a process of tprof that owns a host's part and reads its sensors until all members have left.

`hosts.ensure` starts it as `python -m tprof.session.host_recorder PART OPTIONS`. It leaves the process that started it
at once, with a session of its own, so that neither the end of a worker nor a signal to its group ends the readings. It
records no tasks and imports no library of the program's.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tprof import _core
from tprof.errors import TprofError
from tprof.trace.directory import RECORDER_LOG
from tprof.trace.running import LIVE

from .companions import Status
from .options import RecordingOptions
from .owned_session import OwnedSession
from .recording import cannot_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

POLL_S = 0.1
MOST_PROCESSES = 1024
"""Number of processes that the session's page lists (csrc/live.h)."""
FIRST_S = 30.0
"""Longest wait for a member that will join, whose process may still import its libraries."""
ASKED_S = 2.0
"""Longest wait for members when the end is asked for: a signal that ends a job reaches them at the same time."""
END_WITH_MEMBERS = signal.SIGUSR1
"""Asks for the end while members run that have nothing more to do."""
_ASKED = {signal.SIGTERM, signal.SIGINT, END_WITH_MEMBERS}
_IGNORED = (signal.SIGHUP, signal.SIGPIPE)


class HostRecorder:
    """The recording of a host's part."""

    def __init__(self, part: Path, options: RecordingOptions) -> None:
        """Begin to read the sensors. Raises TprofError."""
        _core.claim()
        self._linger_s = options.linger_s
        self._expected = max(options.members, 1)
        self._expects_members = False
        self._alone_ns: int | None = None
        self._session = OwnedSession(part, options)
        try:
            self._own = self._session.begin()
            self._session.begin_block()
        except OSError as error:
            self._session.undo()
            raise TprofError(cannot_record(part, error)) from error
        except BaseException:
            self._session.undo()
            raise

    def serve(self) -> None:
        """Record until the last member has left for a while, or the end is asked for."""
        came_s = time.monotonic()
        asked_s: float | None = None
        members = 0
        while True:
            asked = signal.sigtimedwait(_ASKED, POLL_S)
            if asked is not None and asked.si_signo == END_WITH_MEMBERS:
                self._expects_members = True
                return
            if asked is not None and asked_s is None:
                asked_s = time.monotonic()
            now_s = time.monotonic()
            if (joined := len(_core.session_processes()) - 1) > members:
                members, came_s = joined, now_s
            are_there = members >= self._expected or now_s - came_s >= FIRST_S
            self._alone_ns = None if any(self._running()) else self._alone_ns or _core.now_ns()
            if self._alone_ns is not None:
                alone_s = (_core.now_ns() - self._alone_ns) * 1e-9
                if asked_s is not None or (are_there and alone_s >= self._linger_s):
                    return
            if asked_s is not None and now_s - asked_s >= ASKED_S:
                return

    def end(self) -> Sequence[str]:
        """Write the end: that of the last member, or now if one still runs. Returns sentences on failures."""
        running = list(self._running())
        end_ns = _core.now_ns() if running else self._last_end_ns()
        notes = self._session.stop_sensors()
        ending = self._session.ending("end", lost_definitions=0, notes=notes)
        numbers = ", ".join(map(str, running))
        still = f"when the recording ended, processes {numbers} still ran: what they did later is not recorded"
        problems = ending.write(end_ns, running=[still] if running and not self._expects_members else [])
        self._session.unlock()
        self._session.await_disk()
        return problems

    def _last_end_ns(self) -> int:
        """Return when the last member left. One that was killed did not say when: it was before none was found."""
        processes = [one for one in _core.session_processes() if one[0] != self._own]
        outliving = {pid for _, pid, _, ended_ns in processes if not ended_ns and _is_alive(pid)}
        ends = [ended_ns for _, pid, _, ended_ns in processes if ended_ns or pid not in outliving]
        return max(ends) if ends and all(ends) else self._alone_ns or _core.now_ns()

    def _running(self) -> Iterator[int]:
        """Yield the process numbers of members that have not left; one that was killed has."""
        listed = 0
        for listed in running_members():
            yield listed
        # The page has no room for more. Further members have it mapped, as long as they run.
        if not listed and len(_core.session_processes()) >= MOST_PROCESSES:
            left = _left()
            yield from (pid for pid in _mapping(self._session.path / LIVE) if left.isdisjoint({pid, *_above(pid)}))


def running_members() -> Iterator[int]:
    """Yield the process numbers of members of this process's part that have not left, nor were killed.

    Descendants of one that has left do not count. It may wait for the part's end, and they for its own end: the
    resource tracker and the fork server of multiprocessing do.
    """
    left = _left()
    for ordinal, pid, _, ended_ns in _core.session_processes():
        # Ordinal 0 is the recorder's.
        if ordinal and not ended_ns and _is_alive(pid) and left.isdisjoint(_above(pid)):
            yield pid


def _left() -> set[int]:
    """Return the process numbers of members that have left, without those that joined again."""
    processes = _core.session_processes()
    return {pid for _, pid, _, ended_ns in processes if ended_ns} - {one[1] for one in processes if not one[3]}


def _above(pid: int) -> Iterator[int]:
    """Yield the process numbers of a process's ancestors, the nearest first."""
    while (status := Status.of(pid)) is not None and status.parent:
        pid = status.parent
        yield pid


def _mapping(page: Path) -> list[int]:
    """Return the numbers of other processes of this user that have a file mapped."""
    name, found = os.fsencode(page), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if name in (entry / "maps").read_bytes():
                    found.append(int(entry.name))
    return found


def _is_alive(pid: int) -> bool:
    """Return whether a process runs; one that its parent has not waited for does not, though its clock is there."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def _answer(content: dict[str, str]) -> None:
    """Answer the process that waits for the beginning.

    If it was killed meanwhile and nobody else joins, the recorder ends by itself.
    """
    with suppress(OSError):
        os.write(1, json.dumps(content).encode() + b"\n")


def _log_to(part: Path) -> None:
    """Let messages of the interpreter and of libraries go to a file in the part, if there is room for one."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    with suppress(OSError):
        os.dup2(os.open(part / RECORDER_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), 2)


def _remove_empty_log(part: Path) -> None:
    with suppress(OSError):
        if not (part / RECORDER_LOG).stat().st_size:
            (part / RECORDER_LOG).unlink()


def main() -> None:
    """Record the part that the arguments name."""
    if os.fork():
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, _ASKED)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):  # the process that started this one may be bound to a core, which is its own
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    part = Path(sys.argv[1])
    try:
        recorder = HostRecorder(part, RecordingOptions.from_json(json.loads(sys.argv[2])))
    except TprofError as error:
        _answer({"error": str(error), "kind": type(error).__name__})
        sys.exit(1)
    _answer({})
    _log_to(part)
    recorder.serve()
    for problem in recorder.end():
        sys.stderr.write(f"tprof: {problem}\n")
    sys.stderr.flush()
    _remove_empty_log(part)


if __name__ == "__main__":
    main()
