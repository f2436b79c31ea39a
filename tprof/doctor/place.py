"""Findings about the directory of sessions: permission, free space, and whether the disk is local."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tprof.sensors.advice import Remedy

from .fact import Fact, State, read_text

SAMPLE_BYTES = 64
LITTLE_BYTES = 1 << 30
FOREIGN = {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "afs", "fuse.sshfs", "glusterfs", "beegfs"}
ELSEWHERE = Remedy("tprof run -o /var/tmp/NAME.tprof …")


def place_facts(directory: Path) -> tuple[Fact, ...]:
    """Return whether a session can be made in the directory (by making a folder there), and how large it can get."""
    facts = [_writable(directory)]
    if facts[0].state is State.OK:
        facts += [_room(directory), _file_system(directory, read_text(Path("/proc/mounts")) or "")]
    return tuple(facts)


def _writable(directory: Path) -> Fact:
    try:
        with tempfile.TemporaryDirectory(prefix=".tprof-doctor-", dir=directory):
            return Fact("writable", State.OK, f"{directory} takes sessions")
    except OSError as error:
        why = f"{directory} takes no session: {(error.strerror or str(error)).lower()}"
        return Fact("writable", State.MISSING, why, (ELSEWHERE,))


def _room(directory: Path) -> Fact:
    disk = os.statvfs(directory)
    free_bytes = disk.f_bavail * disk.f_frsize
    why = (
        f"{free_bytes / 1e9:.3g} GB free: {free_bytes / SAMPLE_BYTES / 1e6:.3g} million samples of {SAMPLE_BYTES} bytes"
    )
    few = free_bytes < LITTLE_BYTES
    return Fact("room", State.LIMITED if few else State.OK, why, (ELSEWHERE,) if few else ())


def _file_system(directory: Path, mounts: str) -> Fact:
    kind = file_system_of(directory.resolve(), mounts)
    if kind in FOREIGN:
        why = f"{kind}: over a network a sample may wait, and a crash may lose what was written last"
        return Fact("file system", State.LIMITED, why, (ELSEWHERE,))
    return Fact("file system", State.OK, kind or "its kind is not known")


def file_system_of(path: Path, mounts: str) -> str | None:
    """Return the kind of file system that holds an absolute path.

    Parameters
    ----------
    path
        An absolute path.
    mounts
        Content of /proc/mounts; the last of the longest matching mount points decides.
    """
    best, kind = -1, None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        place = Path(fields[1].encode().decode("unicode_escape"))
        if path.is_relative_to(place) and len(place.parts) >= best:
            best, kind = len(place.parts), fields[2]
    return kind
