"""The process that keeps the sums of a recording, beside the recorded program: it starts, ends and is waited for here.

A process of its own, so that the program's threads never wait for its work, and the memory and libraries that it needs
are not the program's. Another one takes its place if it is killed: see `guarded`. When the recording has ended, however
it did, it writes the last sums, removes the samples and ends.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from . import guarded

if TYPE_CHECKING:
    from collections.abc import Callable

MODULE = "tprof.session.sums_keeper"
POLL_S, BEGIN_POLL_S = 0.5, 0.02
END_S = 10.0
"""Longest wait for the end of a recording whose process ended: another one may write it, as for ranks."""
NICE = 10


def start(session: Path) -> None:
    """Start it. Raises OSError."""
    guarded.start(MODULE, session)


def wait(session: Path) -> list[str]:
    """Wait until all sums are written, and start another one if all were killed; returns a sentence on a failure."""
    from tprof.trace.directory import await_disk_helper  # noqa: PLC0415 - kept off `import tprof`

    why = None
    for _ in range(2):
        await_disk_helper(session, remove=False)
        why = guarded.failure(session)
        if why is not None or not any((session / "readings").glob("*")):  # they are removed last
            break
        try:
            start(session)
        except OSError as error:
            why = error.strerror or str(error)
            break
    await_disk_helper(session)
    if not any((session / "readings").glob("*")):
        return []
    why = why or "the process that keeps them has ended"
    rest = "what is missing stays there as samples, and is added when the session is read, once there is room for it"
    return [f"the sums of {session} are not complete ({why}): {rest}"]


def keep(session: Path, is_guarded: Callable[[], bool]) -> bool:
    """Keep the sums of a session until it has ended: see `guarded.serve`. Raises TprofError and OSError."""
    from tprof import _core  # noqa: PLC0415 - after the fork, whose parent waits for it
    from tprof.live.kept_sums import KeptSums, finish_keeping  # noqa: PLC0415 - see above
    from tprof.trace.directory import DISK_LOCK  # noqa: PLC0415 - see above
    from tprof.trace.manifest import read_manifest  # noqa: PLC0415 - see above

    span_ns = round(float(read_manifest(session)["span_s"]) * 1e9)
    if (session / "live").exists():
        _core.session_watch(os.fspath(session))
    ended = _End(session)
    while "block_start_ns" not in read_manifest(session)["clock"] and not ended.has_come():
        time.sleep(BEGIN_POLL_S)
    kept = KeptSums(session, span_ns, left=_left)
    while not ended.has_come() and is_guarded():
        while kept.step():
            pass
        time.sleep(POLL_S)
    if not is_guarded():
        kept.close()
        return False
    finish_keeping(session, kept)
    _remove_empty_log(session)
    # Whoever waited goes on now, and may begin another session here, which the guard, ending later, must not touch.
    (session / DISK_LOCK).unlink(missing_ok=True)
    return True


def _left() -> set[int]:
    """Return the numbers of the processes that have left the session."""
    from tprof import _core  # noqa: PLC0415 - see `keep`

    return {ordinal for ordinal, _, _, ended_ns in _core.session_processes() if ended_ns}


class _End:
    """The end of a recording: it is written, or nobody records any more."""

    def __init__(self, session: Path) -> None:
        self._session = session
        self._since_s: float | None = None

    def has_come(self) -> bool:
        """Return whether nothing more will be written."""
        from tprof.trace.manifest import END  # noqa: PLC0415 - see `keep`
        from tprof.trace.running import LIVE, is_running  # noqa: PLC0415 - see `keep`

        if (self._session / END).exists() or not (self._session / LIVE).exists():
            return True
        if is_running(self._session):
            self._since_s = None
            return False
        self._since_s = time.monotonic() if self._since_s is None else self._since_s
        return time.monotonic() - self._since_s > END_S


def _log_to(session: Path) -> None:
    """Let what the interpreter prints go to a file of the session, if there is room for one."""
    from tprof.trace.directory import RECORDER_LOG  # noqa: PLC0415 - see `keep`

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with suppress(OSError):
        os.dup2(os.open(session / RECORDER_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), 2)


def _remove_empty_log(session: Path) -> None:
    from tprof.trace.directory import RECORDER_LOG  # noqa: PLC0415 - see `keep`

    with suppress(OSError):
        if not (session / RECORDER_LOG).stat().st_size:
            (session / RECORDER_LOG).unlink()


def main() -> None:
    """Keep the sums of the session that the argument names."""
    session = Path(sys.argv[1])
    lock = guarded.hold(session)
    guarded.leave()
    _log_to(session)
    os.nice(NICE)
    guarded.serve(lock, partial(keep, session))


if __name__ == "__main__":
    main()
