"""Makes one job of sessions and jobs, so that they are looked at together."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tprof.errors import TprofError, UsageError

from .archive import files_of
from .clock_offset import offset_by_wall_clock
from .cluster import HostPart, is_job, load_job, write_hosts
from .directory import HOSTS, why_not_session
from .hosts_table import TABLE, clean_name
from .manifest import read_manifest
from .running import is_running

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ENGINE = "merge"
OF_A_JOB = {HOSTS, TABLE, "hosts.tmp"}


@dataclass(frozen=True)
class _Source:
    """A part that goes into the job."""

    part: HostPart
    name: str


def merge(sources: Sequence[Path], job: Path, *, move: bool = False, overwrite: bool = False) -> list[HostPart]:
    """Make a job of the parts of sessions and jobs; returns its parts.

    Parts of equal names get numbers. A part that is missing in one of the jobs is named in the new one. Clocks are
    compared by the hosts' wall clocks, unless a job has better offsets.

    Parameters
    ----------
    sources
        Session and job directories.
    job
        The directory to make.
    move
        Move the parts instead of copying them; the sources are gone afterwards.
    overwrite
        Replace an existing job.

    Raises
    ------
    TraceError
        If a source is neither a session nor a job.
    UsageError
        If the directory exists, or a source is still recorded.
    TprofError
        If files cannot be copied or moved; the sources are as before then.
    """
    parts = list(_named(_parts_of(sources)))
    running = next((one.part.path for one in parts if one.part.path is not None and is_running(one.part.path)), None)
    if running is not None:
        raise UsageError(f"a recording runs in {running}: end it first")
    former = _former(job, [path.absolute() for path in sources], overwrite=overwrite)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{job.name}.", suffix=".incoming", dir=job.absolute().parent))
    except OSError as error:
        raise TprofError(f"cannot make the job {job}: {error.strerror}; choose another place") from error
    try:
        made = _fill(folder, parts, move=move)
        if former:
            shutil.rmtree(job)
        folder.rename(job)
    except OSError as error:
        raise TprofError(f"cannot make the job {job}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if move:
        _remove(sources)
    return [replace(one, path=None if one.path is None else job / HOSTS / one.name) for one in made]


def _parts_of(sources: Iterable[Path]) -> Iterable[_Source]:
    for source in sources:
        if is_job(source):
            yield from (_Source(part, part.name) for part in load_job(source).hosts)
            continue
        manifest = read_manifest(source)
        host = manifest.get("host")
        name = host.get("hostname") if isinstance(host, dict) else None
        offset = offset_by_wall_clock(source)
        yield _Source(HostPart(source.name, source, offset), name if isinstance(name, str) and name else source.stem)


def _named(sources: Iterable[_Source]) -> Iterable[_Source]:
    """Give each part a name of its own."""
    taken: set[str] = set()
    for source in sources:
        name, number = clean_name(source.name), 1
        while name in taken:
            number += 1
            name = f"{clean_name(source.name)}-{number}"
        taken.add(name)
        yield replace(source, name=name)


def _former(job: Path, sources: Sequence[Path], *, overwrite: bool) -> bool:
    """Return whether there is a job that is to be replaced. Raises UsageError if it may not be."""
    if not os.path.lexists(job):
        return False
    if not overwrite:
        raise UsageError(f"{job} exists: choose another path, or replace it with --overwrite")
    why_not = why_not_job(job)
    if why_not is not None:
        raise UsageError(f"{job} is not only a job of yours ({why_not}), so it is not replaced: choose another path")
    if any(source == job.absolute() or job.absolute() in source.parents for source in sources):
        raise UsageError(f"{job} is one of the sources: choose another path")
    return True


def why_not_job(job: Path) -> str | None:
    """Return the reason why a directory may hold more than a job of this user; None if it does not."""
    if not is_job(job):
        return why_not_session(job)
    try:
        foreign = sorted({entry.name for entry in job.iterdir()} - OF_A_JOB)
        parts = [path for path in (job / HOSTS).iterdir() if path.name[0] != "."] if (job / HOSTS).is_dir() else []
        if job.lstat().st_uid != os.geteuid():
            return "it belongs to another user"
    except OSError as error:
        return error.strerror or str(error)
    reasons = (f"{path.name}: {reason}" for path in parts if (reason := why_not_session(path)) is not None)
    return f"it also holds {foreign[0]!r}" if foreign else next(reasons, None)


def _fill(folder: Path, sources: Sequence[_Source], *, move: bool) -> list[HostPart]:
    """Put the parts and the table of hosts into a new folder. Raises OSError; moved parts are moved back then."""
    (folder / HOSTS).mkdir(mode=0o700)
    moved: list[tuple[Path, Path]] = []
    made = []
    try:
        for source in sources:
            target = folder / HOSTS / source.name
            path = source.part.path
            if path is not None:
                if move and path.lstat().st_dev == folder.lstat().st_dev:
                    path.rename(target)
                    moved.append((path, target))
                else:
                    _copy(path, target)
            made.append(replace(source.part, name=source.name, path=None if path is None else target))
        write_hosts(folder, made, engine=ENGINE)
    except OSError:
        for path, target in moved:
            target.rename(path)
        raise
    return made


def _copy(session: Path, target: Path) -> None:
    """Copy a session's own files; links and what a user put beside them stay behind."""
    target.mkdir(mode=0o700)
    for name in files_of(session):
        (target / name).parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copyfile(session / name, target / name, follow_symlinks=False)
        (target / name).chmod(0o600)


def _remove(sources: Sequence[Path]) -> None:
    """Remove what is left of moved sources: those on another disk, and the folders of jobs."""
    for source in sources:
        if os.path.lexists(source) and (why_not_session(source) is None or why_not_job(source) is None):
            shutil.rmtree(source, ignore_errors=True)
