"""A process beside a recording that goes on if it is killed: two of them, each of which replaces the other.

The guard sleeps until the worker, its child, has ended, and starts another one if that was killed. The worker asks now
and then whether its guard is there; if not, it stops, and becomes the guard of another worker. So the work begins anew
after a kill of either. Both have left the process that started them, with a session of their own: no signal of the
program's reaches them, no wait of the program's finds them. Both hold a lock on a file of the session, by which the
owner awaits their end. In it are the number of restarts, and the system's number of the error if the work failed, as on
a full disk: then it is not begun anew.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Work = Callable[[Callable[[], bool]], bool]

START_S = 20.0
MOST_RESTARTS = 8
UNKNOWN = 1
"""Exit status after an error without a number of the system's."""
_IGNORED = (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT, signal.SIGTERM)


def start(module: str, session: Path, *words: str) -> None:
    """Start a module for a session, and wait until it has left this process. Raises OSError."""
    from tprof.trace.directory import DISK_LOCK  # noqa: PLC0415 - kept off `import tprof`

    from .process_state import SESSION, TASKS  # noqa: PLC0415 - see above

    lock = os.open(session / DISK_LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(lock, b"0 0\n")  # so that there is room for it later
    finally:
        os.close(lock)
    process = subprocess.Popen(  # noqa: S603 - this interpreter and our module
        [sys.executable, "-P", "-m", module, os.fspath(session), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={name: value for name, value in os.environ.items() if name not in (SESSION, TASKS)},
        start_new_session=True,
    )
    try:
        status = process.wait(START_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise TimeoutError(0, f"the process for its files has not begun within {START_S:g} s") from None
    if status:
        raise OSError(0, "the process for its files could not begin")


def hold(session: Path) -> int:
    """Take the lock of a session's helper, and return its descriptor. Raises OSError."""
    from tprof.trace.directory import DISK_LOCK  # noqa: PLC0415 - as above

    lock = os.open(session / DISK_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def leave() -> None:
    """Go on in a child, for which the process that started this one does not wait."""
    if os.fork():
        os._exit(0)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):  # the process that started this one may be bound to a core, which is its own
        os.sched_setaffinity(0, range(os.cpu_count() or 1))


def serve(lock: int, work: Work) -> None:
    """Do the work in a child that is replaced if it is killed, as this process is.

    Parameters
    ----------
    lock : from `hold`
    work : called with a function that returns whether the guard is there; returns whether the work is done, and
        False only if it is not
    """
    for restarts in range(MOST_RESTARTS + 1):
        os.pwrite(lock, b"%d %d\n" % (restarts, 0), 0)
        guard = os.getpid()
        worker = os.fork()
        if worker:
            status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
            if status > 0:
                os.pwrite(lock, b"%d %d\n" % (restarts, status), 0)
            if status >= 0:
                return
        elif _is_done(work, partial(_is_guarded, guard, is_last=restarts == MOST_RESTARTS)):
            return


def _is_done(work: Work, is_guarded: Callable[[], bool]) -> bool:
    """Do the work in this process, whose exit status is the error's number if the system refuses something."""
    try:
        return work(is_guarded)
    except OSError as error:
        sys.exit(error.errno or UNKNOWN)


def _is_guarded(guard: int, *, is_last: bool) -> bool:
    """Return whether this worker is to go on: its guard is there, or no other worker could take its place."""
    return is_last or os.getppid() == guard


def failure(session: Path) -> str | None:
    """Return why the work of a session's process failed, as the system says it; None if it did not."""
    status = _noted(session)[1]
    return None if not status else "an error" if status == UNKNOWN else os.strerror(status)


def was_killed(session: Path) -> str | None:
    """Return a sentence if the process failed or was killed meanwhile; else None. Only while it is needed."""
    from tprof.trace.directory import has_helper  # noqa: PLC0415 - as above

    if not has_helper(session):
        why = failure(session)
        ended = "was killed" if why is None else f"could not go on ({why})"
        return f"the process beside the program that looks after its files {ended}: the folder grew from then on"
    restarts = _noted(session)[0]
    if not restarts:
        return None
    often = "once" if restarts == 1 else f"{restarts} times"
    return (
        f"the process beside the program that looks after its files was killed {often}, and another one took "
        "its place: no sample is lost"
    )


def _noted(session: Path) -> tuple[int, int]:
    """Return the number of restarts, and of the error, from the file of the lock; 0 for what it does not say."""
    from tprof.trace.directory import DISK_LOCK  # noqa: PLC0415 - as above

    try:
        restarts, status = (session / DISK_LOCK).read_text().split()
        return int(restarts), int(status)
    except (OSError, ValueError):
        return 0, 0
