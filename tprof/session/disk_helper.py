"""The helper of a recording whose disk is limited or which is compressed while it runs.

The session's owner starts it as `python -m tprof.session.disk_helper SESSION OPTIONS`, and another one takes its place
if it is killed: see `guarded`. The program's interpreter does nothing for it. A removal takes milliseconds and runs at
normal priority; compression runs in a child of the lowest priority, for which the program never waits.

It may be killed at any moment: a file is replaced only by a whole one, and before files go the session says so.
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

from . import guarded
from .ending import identity_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tprof.trace.ring import Ring

    from .options import RecordingOptions

MODULE = "tprof.session.disk_helper"
POLL_S = 0.1
IDLE_S = 0.2
"""Between two looks for something to compress."""


def start(session: Path, options: RecordingOptions) -> None:
    """Start the helper of a session whose recording has begun, if its options need one. Raises OSError."""
    if options.looks_after_disk:
        guarded.start(MODULE, session, json.dumps({"max_bytes": options.max_bytes, "compress": options.compress}))


class DiskHelper:
    """What happens to the files of one session until its recording has ended."""

    def __init__(self, session: Path, max_bytes: int | None, *, compress: bool) -> None:
        self._session, self._max_bytes, self._compress = session, max_bytes, compress
        self._identity = identity_of(session)
        self._ring: Ring | None = None
        self._child = self._compressors = 0

    def work(self, is_guarded: Callable[[], bool]) -> bool:
        """Look after the files while the recording runs, and do the rest when it has ended: see `guarded.serve`."""
        from tprof.trace.directory import DISK_LOCK  # noqa: PLC0415 - as in `main`
        from tprof.trace.ring import Ring  # noqa: PLC0415 - as in `main`
        from tprof.trace.running import is_running  # noqa: PLC0415 - as in `main`

        self._ring = None if self._max_bytes is None else Ring(self._session, self._max_bytes)
        while is_running(self._session) and self._is_there() and is_guarded():
            self._have_compressor()
            time.sleep(self._keep())
        self._end_compressor()
        if not is_guarded():
            return False
        if self._is_there():
            self._finish()
            (self._session / DISK_LOCK).unlink(missing_ok=True)
        return True

    def _have_compressor(self) -> None:
        """Start the process that compresses, also where the one before was killed."""
        if self._child and os.waitpid(self._child, os.WNOHANG)[0]:
            self._child = 0
        if not self._compress or self._child or self._compressors > guarded.MOST_RESTARTS:
            return
        self._compressors += 1
        parent, self._child = os.getpid(), os.fork()
        if not self._child:
            self._compress_sealed(parent)

    def _end_compressor(self) -> None:
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            self._child = 0

    def _is_there(self) -> bool:
        """Return whether the folder is still that of this session."""
        return identity_of(self._session) == self._identity

    def _keep(self) -> float:
        from tprof.errors import TraceError  # noqa: PLC0415 - as in `main`

        try:
            return POLL_S if self._ring is None else self._ring.keep()
        except (OSError, TraceError):
            return POLL_S  # as on a full disk, where removing may help the next time

    def _compress_sealed(self, parent: int) -> None:
        """Compress until killed, with what the machine leaves."""
        from tprof.trace.compress import compress_sealed  # noqa: PLC0415 - as in `main`

        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        while os.getppid() == parent:
            with suppress(OSError):
                if compress_sealed(self._session):
                    continue
            time.sleep(IDLE_S)
        os._exit(0)

    def _finish(self) -> None:
        from tprof.errors import TprofError  # noqa: PLC0415 - as in `main`
        from tprof.trace.compress import compress, compress_sealed  # noqa: PLC0415 - as in `main`

        if self._compress:
            try:
                compress(self._session)
            except TprofError:
                # A process of the program still has files open: what it left is compressed.
                with suppress(OSError):
                    compress_sealed(self._session, most=1 << 30)
        self._keep()


def main() -> None:
    """Serve the session that the arguments name, in a process that has left its parent."""
    # All that takes time comes first: the program begins to write when this process has left it.
    import tprof.trace.compress  # noqa: PLC0415 - NumPy, in the helper only
    import tprof.trace.ring  # noqa: F401, PLC0415 - see above

    session, asked = Path(sys.argv[1]), json.loads(sys.argv[2])
    lock = guarded.hold(session)
    helper = DiskHelper(session, asked["max_bytes"], compress=asked["compress"])
    guarded.leave()
    guarded.serve(lock, helper.work)


if __name__ == "__main__":
    main()
