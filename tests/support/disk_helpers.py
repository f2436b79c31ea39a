"""The processes beside a recording that look after its disk or keep its sums."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MODULES = (b"tprof.session.disk_helper", b"tprof.session.sums_keeper")


def pids_of(session: Path) -> list[int]:
    """Return the numbers of a session's guard, worker, and of the process that compresses, each the parent of the next.

    One whose parent was killed is the first.
    """
    parents = dict(_found(session))
    return sorted(parents, key=lambda pid: _depth(pid, parents))


def _found(session: Path) -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX" and set(MODULES) & set(words) and os.fsencode(session) in words:
                yield int(entry.name), int(fields[1])


def _depth(pid: int, parents: dict[int, int]) -> int:
    depth = 0
    while pid in parents:
        depth, pid = depth + 1, parents[pid]
    return depth


def memory_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except OSError:
        return 0


def await_end(session: Path, longest_s: float = 60.0) -> None:
    """Wait until a session has no helper any more."""
    deadline_s = time.monotonic() + longest_s
    while pids_of(session):
        assert time.monotonic() < deadline_s, "the helper does not end"
        time.sleep(0.02)


def kill_one(session: Path, place: int, *, of: int, longest_s: float = 60.0) -> None:
    """Kill one of the processes of `pids_of` once all are there, and wait until there are as many again."""
    _await_count(session, of, longest_s)
    pid = pids_of(session)[place]
    os.kill(pid, signal.SIGKILL)
    _await_count(session, of, longest_s, without=pid)


def kill_all(session: Path) -> None:
    """Kill them so that none can replace another."""
    while pids := pids_of(session):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)


def _await_count(session: Path, count: int, longest_s: float, without: int = 0) -> None:
    deadline_s = time.monotonic() + longest_s
    while len(found := pids_of(session)) != count or without in found:
        assert time.monotonic() < deadline_s, f"{len(found)} processes look after the session, not {count}"
        time.sleep(0.02)
