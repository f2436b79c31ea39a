"""A guard process that restores the frequency however this process ends, even by SIGKILL.

It is started before the first write, in its own session, so that a terminal's Ctrl-C does not reach it, and stores the
former values. It reads from a pipe whose other end only this process has: when this process ends, the kernel closes
that end, and the guard restores the values and ends. This works where a signal handler or `atexit` would not run. The
guard has a second process, which restores them if the guard was killed before this process. It fails only if all three
are killed at once; after a loss of power the kernel starts with its own values.

Only one guard may run on a machine: a second one would store the values that the first one's process set, and could
restore them last. So the guard locks the folder of the policies until it has restored.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from tprof.errors import SensorError
from tprof.session.process_state import SESSION

from .cpufreq import KHZ, SETSPEED, USERSPACE, Policy, read_bounds, text_of
from .restorer import END, HELD, LOCKED, READY, restore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

NOT_STARTED = "the process that would restore the frequencies did not start: see what it printed above"
START = "from tprof.frequency.restorer import main; main()"


class Guard:
    """A context manager that restores the policies' current values at its exit."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        """Store the policies; none: the guard only ends a run."""
        self._policies = policies

    def __enter__(self) -> Self:
        """Start the process and wait until it has the values. Raises SensorError, also if another guard runs."""
        environment = {name: value for name, value in os.environ.items() if name != SESSION}
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-P", "-c", START],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True, cwd="/",
        )  # fmt: skip
        try:
            self._lock()
            # Read after locking: an earlier guard may just have restored them.
            self._former = [_former(policy) for policy in self._policies]
            self._hand_over()
        except BaseException:
            self._process.kill()
            self._process.communicate()
            raise
        return self

    def _lock(self) -> None:
        folder = self._policies[0].folder.parent if self._policies else ""
        answer = self._request(str(folder))
        if answer == HELD:
            raise SensorError(
                "the processor's frequencies are held already, by a sweep, a runtime's policy or a budget that slows "
                f"down (whoever locks {folder}): wait until that has ended"
            )
        if answer != LOCKED:
            raise SensorError(NOT_STARTED)

    def _hand_over(self) -> None:
        answer, _, second = self._request(self._former).partition(" ")
        if answer != READY:
            raise SensorError(NOT_STARTED)
        self._second = os.pidfd_open(int(second))

    def _request(self, value: Any) -> str:
        if not self._send(value) or self._process.stdout is None:
            return ""
        return str(self._process.stdout.readline()).strip()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the guard restore, and check that it did. Raises SensorError."""
        self._send(END)
        try:
            answer, _ = self._process.communicate()
            problems = json.loads(answer)
        except ValueError:
            # It was killed: restore from the copy of the values here.
            problems = restore(self._former)
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._second, signal.SIGKILL)
            select.select([self._second], [], [])  # it keeps the lock until it has ended
        os.close(self._second)
        if problems:
            raise SensorError("the former frequencies are not restored: " + "; ".join(problems))

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the guard still runs."""
        return self._process.poll() is None

    def also_ends(self, pid: int | None) -> None:
        """Set the leader of a group of processes that must not outlive this process; None: no group any more.

        Raises
        ------
        SensorError
            If a leader is set and the guard was killed: it could not restore any more.
        """
        if not self._send(pid) and pid is not None:
            raise SensorError(
                "the process that would restore the frequencies was killed; they are put back now, start again to go on"
            )

    def forget(self) -> None:
        """Close the pipe in a forked child: it must end with the parent alone."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        os.close(self._second)

    def _send(self, value: Any) -> bool:
        try:
            assert self._process.stdin is not None  # noqa: S101 - it is a pipe
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return False
        return True


def _former(policy: Policy) -> dict[str, Any]:
    bounds = read_bounds(policy)
    setspeed = text_of(policy.folder / SETSPEED) if policy.governor == USERSPACE else None
    return {
        "folder": str(policy.folder),
        "lowest_khz": bounds.lowest_hz // KHZ,
        "highest_khz": bounds.highest_hz // KHZ,
        "setspeed": setspeed,
    }
