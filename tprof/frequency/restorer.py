"""The guard's process: locks, stores values, waits for the end of standard input, restores them; see `guard`.

It forks a second process, which restores them if both the program and the first one were killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import SensorError

from .cpufreq import KHZ, MAX, MIN, SETSPEED, Bounds, in_order, number_hz, write

if TYPE_CHECKING:
    from collections.abc import Sequence

LOCKED, HELD, READY, END = "locked", "held", "ready", "end"
GRACE_S = 5.0
"""A run that does not end at SIGTERM within this time is killed."""
LOCK_TIMEOUT_S, STEP_S = 0.3, 0.02
"""Longest wait for the lock: the guard of a killed program needs some time to restore."""
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def main() -> None:
    """Lock, store, wait, restore, and report failures."""
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    folder = _parse(sys.stdin.readline())
    if not isinstance(folder, str):
        return  # the program ended before it wrote anything
    try:
        lock = _lock(folder) if folder else None
    except BlockingIOError:
        _send(HELD)
        return
    _send(LOCKED)
    former = _parse(sys.stdin.readline())
    if not isinstance(former, list):
        return  # as above
    second = _fork_second(former, os.pidfd_open(os.getppid()))
    _send(f"{READY} {second.pid}")
    ends: int | None = None
    for line in sys.stdin:
        message = _parse(line)
        if message == END:
            break  # a forked child of the program may keep the pipe open
        if ends is not None:
            os.close(ends)
        ends, group = _opened(message), message
    problems = restore(former)
    second.dismiss()
    if lock is not None:
        os.close(lock)  # the next guard need not wait for a run that ends slowly
    if ends is not None:
        _end(ends, group)
    _send(json.dumps(problems))


@dataclass(frozen=True)
class _Second:
    """The second process, and the pipe that tells it whether the first one restored."""

    pid: int
    pipe: int

    def dismiss(self) -> None:
        """Let it end: the values are restored."""
        with suppress(BrokenPipeError):  # it was killed
            os.write(self.pipe, b".")
        os.close(self.pipe)
        os.waitpid(self.pid, 0)  # it has the lock too


def _fork_second(former: Sequence[dict[str, Any]], program: int) -> _Second:
    """Fork it. It has the lock as long as it lives."""
    told, tells = os.pipe()
    begun, begins = os.pipe()
    pid = os.fork()
    if pid:
        for file in (told, begins, program):
            os.close(file)
        os.read(begun, 1)  # the end of the pipe: a pipe to the program that it still had would look like a guard
        os.close(begun)
        return _Second(pid, tells)
    try:
        os.setsid()  # who kills the first one's group does not kill it
        for file in (tells, begun, sys.stdin.fileno(), sys.stdout.fileno(), begins):
            os.close(file)
        if not os.read(told, 1):
            select.select([program], [], [])
            problems = restore(former)
            if problems:
                sys.stderr.write(f"tprof: the former frequencies are not restored: {json.dumps(problems)}\n")
                sys.stderr.flush()
    finally:
        os._exit(0)


def restore(former: Sequence[dict[str, Any]]) -> list[str]:
    """Write as many of the former values as possible; returns the failures."""
    problems: list[str] = []
    for held in former:
        problems += _restore(Path(held["folder"]), held)
    return problems


def _restore(folder: Path, held: dict[str, Any]) -> list[str]:
    requested = Bounds(held["lowest_khz"] * KHZ, held["highest_khz"] * KHZ)
    writes = [(name, str(hz // KHZ)) for name, hz in in_order(_now(folder) or requested, requested)]
    if held["setspeed"] is not None:
        writes.append((SETSPEED, held["setspeed"]))
    # A rejected write may only have come too early: a minimum above the current maximum.
    writes = [one for one in writes if _written(folder, *one) is not None]
    problems = filter(None, [_written(folder, *one) for one in writes])
    return [f"{problem} (it was {held['lowest_khz']} to {held['highest_khz']} kHz)" for problem in problems]


def _written(folder: Path, name: str, text: str) -> str | None:
    """Write; returns the reason of a failure, or None."""
    try:
        write(folder / name, text)
    except SensorError as error:
        return str(error)
    return None


def _lock(folder: str) -> int:
    """Lock the folder until the result is closed. Raises BlockingIOError if another guard keeps the lock."""
    give_up_s = time.monotonic() + LOCK_TIMEOUT_S
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up_s:
                raise
            time.sleep(STEP_S)
        except OSError:
            return file  # a file system without locks
        else:
            return file


def _now(folder: Path) -> Bounds | None:
    """Return a policy's bounds; None in a tree of plain files, where a killed write leaves an empty file."""
    try:
        return Bounds(number_hz(folder / MIN), number_hz(folder / MAX))
    except SensorError:
        return None


def _parse(line: str) -> Any:
    """Parse a line, None for an incomplete one."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _opened(pid: Any) -> int | None:
    """Open a process while its number is certainly its own; None if it has ended, or without a number."""
    try:
        return None if pid is None else os.pidfd_open(pid)
    except OSError:
        return None


def _end(process: int, group: int) -> None:
    try:
        signal.pidfd_send_signal(process, 0)
        os.killpg(group, signal.SIGTERM)
        ended, _, _ = select.select([process], [], [], GRACE_S)
        if not ended:
            os.killpg(group, signal.SIGKILL)
    except OSError:
        return  # it ended by itself


def _send(text: str) -> None:
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        if text not in (LOCKED, HELD, READY, "[]"):
            sys.stderr.write(f"tprof: the former frequencies are not restored: {text}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
