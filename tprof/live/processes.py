"""Finds from outside which processes record into which session: each of them has the session's shared page mapped."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tprof.errors import UsageError
from tprof.trace.directory import HOSTS
from tprof.trace.manifest import MANIFEST
from tprof.trace.running import LIVE

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC = Path("/proc")


def session_of(pid: int) -> Path:
    """Return the session, or the job, into which a process, one of its descendants or of its ancestors records.

    Raises
    ------
    UsageError
        If there is no such process or session, or the process belongs to another user.
    """
    if not (_PROC / str(pid)).exists():
        raise UsageError(f"there is no process {pid}: give the number of one that runs, or a session directory")
    children = _children()
    for one in (*_with_descendants(pid, children), *_ancestors(pid, children)):
        with suppress(OSError):
            for session in _mapped(one):
                return _job_of(session)
    try:
        (_PROC / str(pid) / "maps").read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot see what process {pid} records: {error.strerror}; give the session directory, or be its user"
        ) from error
    raise UsageError(
        f"process {pid} and its children record no session of tprof: start it with tprof run, or give a directory"
    )


def running_sessions() -> list[Path]:
    """Return the sessions and jobs into which processes of this user record now."""
    found: dict[Path, None] = {}
    for pid in sorted(_children()):
        with suppress(OSError):
            if (_PROC / str(pid)).stat().st_uid == os.geteuid():
                found |= dict.fromkeys(_job_of(session) for session in _mapped(pid))
    return list(found)


def records_into(pid: int, session: Path) -> bool:
    """Return whether the process with this number here is one that records into a session, not an unrelated one.

    A session of a container has the numbers that its processes have there.
    """
    try:
        page = (session / LIVE).stat()
        with (_PROC / str(pid) / "maps").open("rb") as maps:
            return any(line.split(maxsplit=5)[4] == str(page.st_ino).encode() for line in maps if _has_page(line))
    except OSError:
        return False


def _has_page(line: bytes) -> bool:
    return line.rstrip(b"\n").endswith(b"/" + LIVE.encode())


def _mapped(pid: int) -> Iterator[Path]:
    """Yield the sessions whose shared page a process has mapped. Raises OSError."""
    with (_PROC / str(pid) / "maps").open("rb") as maps:
        places = {os.fsdecode(line.split(maxsplit=5)[5].rstrip(b"\n")) for line in maps if _has_page(line)}
    for place in sorted(places):
        for session in (Path(place).parent, _PROC / str(pid) / "root" / Path(place).parent.relative_to("/")):
            if (session / MANIFEST).exists():
                yield session
                break


def _job_of(session: Path) -> Path:
    is_part = session.parent.name == HOSTS and not (session.parent.parent / MANIFEST).exists()
    return session.parent.parent if is_part else session


def _children() -> dict[int, list[int]]:
    """Return the children of each process; one without any has an empty list."""
    found: dict[int, list[int]] = {}
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            with suppress(OSError):
                parent = int(Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
                found.setdefault(int(entry.name), [])
                found.setdefault(parent, []).append(int(entry.name))
    return found


def _with_descendants(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    waiting = [pid]
    while waiting:
        one = waiting.pop(0)
        yield one
        waiting += children.get(one, [])


def _ancestors(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    parents = {child: parent for parent, ones in children.items() for child in ones}
    while pid in parents:
        pid = parents.pop(pid)
        yield pid
