"""A job: the parts of several hosts in one directory, with a table of the hosts.

The table `hosts.json` is written by whoever collects the parts. While a job on a shared file system runs there may be
none: then the parts in `hosts/` are the table. Names in it come from other machines and are not trusted: a part is a
directory right below `hosts/`, and no link.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tprof.errors import TraceError, UsageError

from . import layout
from .clock_offset import PINGS, WALL_CLOCK, Offset, offset_by_wall_clock
from .directory import HOSTS
from .hosts_table import TABLE
from .manifest import MANIFEST, read_object, write_object
from .metadata import MAX_NS
from .plain_values import counted
from .sealed import is_as_written, with_checksum
from .stream import check_major

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from tprof.analysis.profile import Profile

    from .trace import Trace

MOST_HOSTS = 100_000
LONGEST_TEXT = 300
WITHOUT_TABLE = "move it away to read the parts without it"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True)
class HostPart:
    """A host's part of a job.

    Attributes
    ----------
    name : of the part's directory, which is the host's name; a host with several parts has names with numbers
    path : the part; None if it is missing
    offset : of the job's clock; None: not known
    missing : why there is no part, or not all of one; None if there is one
    """

    name: str
    path: Path | None
    offset: Offset | None = None
    missing: str | None = None

    def load(self) -> Trace:
        """Load the part. Raises TraceError if it is missing or is no session."""
        from .reader import load_session  # noqa: PLC0415 - reads traces, which hold no parts

        if self.path is None:
            raise TraceError(f"the part of {self.name} is missing: {self.missing}")
        return load_session(self.path)


@dataclass(frozen=True)
class ClusterTrace:
    """The recordings of several hosts on disk.

    Attributes
    ----------
    path : the job's directory
    engine : what ran the job ("dask", "ray", "mpi", "merge"); None if nothing says so
    hosts : all parts, those that are missing too; a part is loaded when it is used
    notes : sentences on the state of the table
    """

    path: Path
    engine: str | None
    hosts: tuple[HostPart, ...]
    notes: tuple[str, ...] = ()

    def profile(
        self,
        model: str = "auto",
        *,
        map: Callable[..., Iterable[Any]] | None = None,  # noqa: A002 - it stands in for the built-in one
        tables: bool = True,
        path: bool | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        **options: Any,
    ) -> Profile:
        """Attribute the joules of all hosts to their tasks, one part after the other.

        Parameters
        ----------
        model : as for `Trace.profile`, the same for every part
        map : what calls a function for each part, as the built-in `map` does: an engine's or a pool's, with which parts
            are analysed at the same time, and where they lie. Only tables travel.
        tables : whether the table of instances is made now; else parts are read again where instances are asked for
        path : whether what the critical path is found from is read now; by default as `tables`
        progress : called with the host, how much of it is done, and how much there is
        **options : as for `tprof.analysis.build_profile`
        """
        if any(options.pop(name, None) is not None for name in ("start_s", "end_s")):
            raise UsageError(f"a window of time is one of a single host: take it of a part in {self.path / HOSTS}")
        from tprof.analysis.profile import profile_of_job  # noqa: PLC0415 - the door to analysis

        return profile_of_job(self, model=model, map=map, tables=tables, path=path, progress=progress, **options)


def is_job(directory: Path) -> bool:
    """Return whether a directory is a job, not the session of one host."""
    if os.path.lexists(directory / MANIFEST):
        return False
    return os.path.lexists(directory / TABLE) or _is_directory(directory / HOSTS)


def load_job(directory: Path) -> ClusterTrace:
    """Open a job. Raises TraceError if its table is damaged or of a newer format, or it has no parts."""
    table: dict[str, Any] = {}
    notes: list[str] = []
    if os.path.lexists(directory / TABLE):
        table = read_object(directory / TABLE, WITHOUT_TABLE)
        if not is_as_written(table):
            notes.append(f"{TABLE} was changed: what it says of the hosts may be wrong")
        _check_format(directory, table)
    found = {path.name: path for path in _parts(directory)}
    listed = _listed(table.get("hosts"), notes)
    hosts = [_part(entry, found.pop(entry["name"], None)) for entry in listed]
    hosts += [HostPart(name, path) for name, path in found.items()]
    known = {host.name for host in hosts}
    hosts += [
        HostPart(name, None, None, "it was expected, and nothing came of it")
        for name in _names(table.get("expected"))
        if name not in known
    ]
    if not hosts:
        raise TraceError(f"{directory} has no parts of hosts: nothing was recorded into it")
    engine = table.get("engine")
    placed = tuple(_placed(host) for host in sorted(hosts, key=lambda host: _natural(host.name)))
    return ClusterTrace(directory, engine[:40] if isinstance(engine, str) else None, placed, tuple(notes))


def write_hosts(
    job: Path, hosts: Sequence[HostPart], *, engine: str | None, expected: Sequence[str] | None = None
) -> None:
    """Write a job's table of hosts atomically. Raises OSError."""
    entries = []
    for host in hosts:
        offset = (None, None, None) if host.offset is None else tuple(host.offset)
        clock = dict(zip(("offset_ns", "offset_uncertainty_ns", "offset_by"), offset, strict=True))
        entries.append({"name": host.name, "directory": host.name, **clock, "missing": host.missing})
    table = {"engine": engine, "expected": None if expected is None else list(expected), "hosts": entries}
    write_object(job / TABLE, with_checksum({"format": [layout.MAJOR, layout.MINOR], **table}))


def _placed(host: HostPart) -> HostPart:
    if host.path is None or host.offset is not None:
        return host
    return HostPart(host.name, host.path, offset_by_wall_clock(host.path), host.missing)


def _check_format(directory: Path, table: dict[str, Any]) -> None:
    known = table.get("format")
    if not (isinstance(known, list) and len(known) > 1 and type(known[0]) is type(known[1]) is int):
        raise TraceError(f"{directory / TABLE} is damaged: it names no format; {WITHOUT_TABLE}")
    check_major(directory, known[0])


def _parts(directory: Path) -> list[Path]:
    try:
        places = sorted((directory / HOSTS).iterdir()) if _is_directory(directory / HOSTS) else []
    except OSError as error:
        raise TraceError(f"cannot read {directory / HOSTS}: {error.strerror}") from error
    return [path for path in places if _NAME.fullmatch(path.name) and _is_directory(path)][:MOST_HOSTS]


def _listed(entries: Any, notes: list[str]) -> list[dict[str, Any]]:
    """Return the table's rows whose names can be those of parts, each name once."""
    sound: dict[str, dict[str, Any]] = {}
    rows = entries if isinstance(entries, list) else []
    for entry in rows[:MOST_HOSTS]:
        name = entry.get("directory", entry.get("name")) if isinstance(entry, dict) else None
        if isinstance(name, str) and _NAME.fullmatch(name) and name not in sound:
            sound[name] = {**entry, "name": name}
    if len(sound) < len(rows):
        what = "no directory of hosts/, and"
        left = counted(len(rows) - len(sound), f"row names {what} is", f"rows name {what} are")
        notes.append(f"{TABLE}: {left} left out")
    return list(sound.values())


def _part(entry: dict[str, Any], path: Path | None) -> HostPart:
    missing = entry.get("missing")
    missing = missing[:LONGEST_TEXT] if isinstance(missing, str) else None
    if path is None:
        missing = missing or f"there is no directory {HOSTS}/{entry['name']}"
    return HostPart(entry["name"], path, _offset(entry), missing)


def _offset(entry: dict[str, Any]) -> Offset | None:
    offset_ns, uncertainty_ns, by = (entry.get(f"offset_{name}") for name in ("ns", "uncertainty_ns", "by"))
    if type(offset_ns) is not int or not -MAX_NS <= offset_ns <= MAX_NS or by not in (PINGS, WALL_CLOCK):
        return None
    is_known = type(uncertainty_ns) is int and 0 <= uncertainty_ns <= MAX_NS
    return Offset(offset_ns, uncertainty_ns if is_known else None, by)


def _names(expected: Any) -> list[str]:
    names = expected if isinstance(expected, list) else []
    return list(dict.fromkeys(name for name in names[:MOST_HOSTS] if isinstance(name, str) and _NAME.fullmatch(name)))


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that puts node10 behind node9."""
    parts = re.findall(r"\d{1,18}|\D+|\d+", name)
    return tuple((0, int(part), "") if part.isdigit() and len(part) < 19 else (1, 0, part) for part in parts)


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):  # no path can have a null character
        return False
