"""Follows a recording from outside, read-only: each read gives a snapshot of its figures, those of all hosts of a job.

The cost of a read is proportional to what was recorded since the last one. Nothing is written into the session, and
its lock is tried only once the recorder holds it: before that, the attempt could make the recorder fail.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from tprof.errors import TraceError, UsageError
from tprof.trace.cluster import is_job, load_job
from tprof.trace.directory import OURS
from tprof.trace.manifest import END, MANIFEST, read_manifest
from tprof.trace.metadata import is_ns, sound_manifest

from .followed_session import FollowedSession
from .join_hosts import join_hosts
from .processes import session_of
from .snapshot import Snapshot, State

if TYPE_CHECKING:
    from pathlib import Path

BEGUN_S = 5.0
"""A manifest this old without the begin of a block is of a recorder that writes none."""


class Watch:
    """A session, or all parts of a job; it may begin later than the watch."""

    def __init__(self, path: Path) -> None:
        """Watch a directory that need not exist yet."""
        self.path = path.absolute()
        self._parts: dict[str, FollowedSession] = {}
        self._is_job = False

    def read(self, most_s: float = math.inf) -> Snapshot:
        """Read what is new, for about so many seconds at most. Raises TraceError if it is no session, or is gone."""
        try:
            self._find_parts()
        except OSError as error:
            raise TraceError(f"cannot read {error.filename or self.path}: {(error.strerror or '').lower()}") from error
        deadline_s = time.monotonic() + most_s
        parts = [followed.read(deadline_s) for followed in self._parts.values()]
        if parts:
            return join_hosts(str(self.path), parts)
        return waiting_for(str(self.path))

    def _find_parts(self) -> None:
        if self._parts and not self._is_job:
            return
        if not self.path.is_dir():
            if self.path.exists():
                raise TraceError(f"{self.path} is a file: give the directory of a session, or a process number")
            return
        self._is_job = is_job(self.path)
        if not self._is_job and not (self.path / MANIFEST).exists():
            _refuse_other(self.path)
        for name, path in self._places():
            if name not in self._parts and has_begun(path):
                self._parts[name] = FollowedSession(path, name or None)

    def _places(self) -> list[tuple[str, Path]]:
        if not self._is_job:
            return [("", self.path)]
        try:
            hosts = load_job(self.path).hosts
        except TraceError:
            return []  # no host has begun yet
        return [(host.name, host.path) for host in hosts if host.path is not None]


class WatchedProcess:
    """What a process records, as soon as it does."""

    def __init__(self, pid: int) -> None:
        """Watch a process that may not record yet."""
        self._pid = pid
        self._watch: Watch | None = None

    def read(self, most_s: float = math.inf) -> Snapshot:
        """Read what is new, as `Watch.read`."""
        if self._watch is None:
            try:
                self._watch = Watch(session_of(self._pid))
            except UsageError:
                return waiting_for(f"process {self._pid}")
        return self._watch.read(most_s)


def waiting_for(session: str) -> Snapshot:
    """Return the snapshot of what has not begun."""
    return Snapshot(session, State.WAITING, "none", is_final=False, energy_j=math.nan, power_w=math.nan)


def has_begun(session: Path) -> bool:
    """Return whether the block of a session has begun."""
    if (session / END).exists():
        return True
    try:
        manifest, _ = sound_manifest(read_manifest(session))
        age_s = time.time() - (session / MANIFEST).stat().st_mtime
    except (TraceError, OSError):
        return False
    return is_ns(manifest.get("clock", {}).get("block_start_ns")) or age_s > BEGUN_S


def _refuse_other(directory: Path) -> None:
    """Raise TraceError if a directory without a manifest holds what no recorder puts there."""
    foreign = sorted({entry.name for entry in directory.iterdir()} - OURS)
    if foreign:
        raise TraceError(f"{directory} is no session (it holds {foreign[0]!r}): give one, or a process number")
