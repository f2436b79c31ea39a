"""Makes a session of a foreign trace: all of it, or nothing."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError, TraceError, UsageError
from tprof.trace.directory import create_session
from tprof.trace.kinds import Quality
from tprof.trace.manifest import read_manifest, write_manifest
from tprof.trace.user_files import UnreadableError
from tprof.trace.writer import add_cpu_times, write_trace

from .chrome_json import ChromeReader
from .energy_counters import Asked, cpu_times_of, energy_of, listed
from .estimated import DOMAIN, Estimated, estimated
from .perfetto import PerfettoReader
from .samples import SHORTER, samples_of
from .source import opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .energy_counters import Energy
    from .samples import Samples
    from .source import Progress
    from .timeline import Timeline

JSON_BEGINS = b"[{"
PERFETTO_BEGINS = b"\x0a"


@dataclass(frozen=True)
class Request:
    """What to import.

    Attributes
    ----------
    path : the file
    session : the directory to make
    counters : those that are energy; none: those whose names and units tell
    energy : "auto" (counters of the file), "estimate" or "none"
    watts : "IDLE,PER_CORE" for an estimate
    """

    path: Path
    session: Path
    counters: tuple[Asked, ...] = ()
    energy: str = "auto"
    watts: str | None = None


@dataclass(frozen=True)
class Imported:
    """What was imported.

    Attributes
    ----------
    instances, tasks, threads : how many
    domains : those with joules, and the counters they come from
    quality : of the joules; None without any
    notes : sentences on what was left out or changed
    """

    instances: int
    tasks: int
    threads: int
    domains: dict[str, str]
    quality: str | None
    notes: tuple[str, ...] = field(default=())


def import_file(request: Request, *, progress: Progress | None = None) -> Imported:
    """Make a session of a trace that another tool wrote.

    Raises
    ------
    UsageError
        If the session exists, a counter is not there, or a package is missing.
    TraceError
        If the file cannot be read as a trace.
    """
    if request.energy not in {"auto", "estimate", "none"}:
        raise UsageError(f"--energy must be auto, estimate or none, got {request.energy!r}")
    if os.path.lexists(request.session):
        create_session(request.session)  # which says why it may not be there
    timeline = _read(request.path, progress)
    if not timeline.slices:
        raise TraceError(f"cannot import {request.path}: it has no slices of threads")
    if timeline.facts.get("hosts"):
        raise UsageError(f"{request.path} is of a job of several hosts: export and import a part of the job")
    if progress is not None:
        progress("sorting", 0, 1)
    samples = samples_of(timeline.threads.values(), _packages(timeline))
    return _write(request, timeline, samples)


def _read(path: Path, progress: Progress | None) -> Timeline:
    """Read the file as what its first byte says. Raises TraceError."""
    try:
        with opened(path, progress) as (source, first):
            return _reader(first).read(source)
    except UnreadableError as error:
        raise TraceError(f"cannot import {path}: {error.reason}") from None
    except TraceError as error:
        raise TraceError(f"cannot import {path}: {error}") from None


def _reader(first: bytes) -> ChromeReader | PerfettoReader:
    text = first.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not first:
        raise TraceError("it is empty")
    if text[:1] and text[:1] in JSON_BEGINS:
        return ChromeReader()
    if first[:1] == PERFETTO_BEGINS:
        return PerfettoReader()
    raise TraceError("it is neither trace events as JSON nor a trace of Perfetto")


def _packages(timeline: Timeline) -> dict[int, int]:
    """Return the packages of processors, as an export of tprof says them."""
    topology = timeline.facts.get("topology")
    found = {}
    for entry in topology if isinstance(topology, list) else []:
        if isinstance(entry, dict):
            cpu, package = entry.get("cpu"), entry.get("package")
            if type(cpu) is int and type(package) is int and 0 <= cpu < 1 << 15 and 0 <= package < 1 << 10:
                found[cpu] = package
    return found


def _write(request: Request, timeline: Timeline, samples: Samples) -> Imported:
    """Write the session. Raises UsageError, TprofError."""
    begin_ns = min(int(one["t_ns"][0]) for one in samples.threads)
    end_ns = max(int(one["t_ns"][-1]) for one in samples.threads)
    found, made = _joules(request, timeline, samples, (begin_ns, end_ns))
    quality = _quality(timeline, made) if found else None
    notes = _notes(timeline, samples, found, made)
    static_w = {DOMAIN: made.idle_w} if made is not None else _static_watts(timeline, found)
    changes: dict[str, Any] = {"notes": notes, "argv": [], "tprof": None}
    if made is not None:
        changes["estimate"] = made.made_of
    with _whole(request.session) as directory:
        write_trace(
            directory,
            tasks=list(timeline.names),
            threads=samples.threads,
            energy={domain: (one.t_ns, one.energy_j) for domain, one in found.items()},
            host=_host(timeline),
            static_power_w=static_w,
            quality=quality or Quality.GIVEN,
        )
        for name, described, times in cpu_times_of(timeline):
            add_cpu_times(directory, name, times, **described)
        manifest = read_manifest(directory) | {key: value for key, value in changes.items() if value}
        if timeline.wall_ns is not None:
            at_ns, wall_ns = timeline.wall_ns
            clock = manifest["clock"]
            clock["wall_start_ns"] = max(wall_ns + clock["start_ns"] - at_ns, 0)
        write_manifest(directory, manifest)
    domains = {domain: one.counter for domain, one in found.items()}
    return Imported(samples.instances, len(timeline.names), len(samples.threads), domains, quality, tuple(notes))


@contextmanager
def _whole(session: Path) -> Iterator[Path]:
    """Yield a directory that becomes the session once it is complete, and is removed otherwise."""
    whole = session.absolute()
    directory = whole.with_name(f".{whole.name}.{os.getpid()}.part")
    try:
        yield directory
        if os.path.lexists(whole):
            create_session(whole)
        directory.rename(whole)
    except OSError as error:
        raise TprofError(f"cannot write {session}: {error.strerror}; name another session with -o") from error
    except TprofError as error:
        raise type(error)(str(error).replace(os.fspath(directory), os.fspath(session))) from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _joules(
    request: Request, timeline: Timeline, samples: Samples, span_ns: tuple[int, int]
) -> tuple[dict[str, Energy], Estimated | None]:
    """Return the joules by domain, and the estimate if they are one. Raises UsageError."""
    from .energy_counters import Energy  # noqa: PLC0415 - a type above

    if request.energy == "none":
        return {}, None
    if request.energy == "auto" and request.watts is None:
        found = energy_of(timeline, request.counters, span_ns[1])
        if not found:
            raise UsageError(
                f"{request.path} has no counter whose name and unit tell that it is energy: name one with --counter "
                f"NAME=DOMAIN:UNIT, or give --watts IDLE,PER_CORE for an estimate, or --energy none; "
                f"{listed(timeline.counters.values())}"
            )
        return found, None
    if request.counters:
        raise UsageError("--counter takes energy from the file, and --energy estimate and --watts estimate it: choose")
    made = estimated(samples.running, request.watts, span_ns)
    return {DOMAIN: Energy(made.t_ns, made.energy_j, "an estimate", 0)}, made


def _quality(timeline: Timeline, made: Estimated | None) -> str:
    if made is not None:
        return Quality.ESTIMATED
    told = timeline.facts.get("quality")
    return told if told in set(Quality) else Quality.GIVEN


def _static_watts(timeline: Timeline, found: dict[str, Energy]) -> dict[str, float]:
    told = timeline.facts.get("static_power_w")
    return {
        domain: float(watts)
        for domain, watts in (told.items() if isinstance(told, dict) else ())
        if domain in found and isinstance(watts, int | float) and 0 <= watts < 1e9
    }


def _host(timeline: Timeline) -> dict[str, Any]:
    told = timeline.facts.get("host")
    return {
        name: value
        for name, value in (told.items() if isinstance(told, dict) else ())
        if isinstance(value, str) or type(value) is int
    }


def _notes(timeline: Timeline, samples: Samples, found: dict[str, Energy], made: Estimated | None) -> list[str]:
    notes = [] if made is None else [made.note]
    left_out = timeline.left_out | ({SHORTER: samples.cut} if samples.cut else {})
    notes += [f"imported without {count} {what}" for what, count in sorted(left_out.items()) if what != SHORTER]
    if samples.cut:
        notes.append(f"imported with {samples.cut} {SHORTER}")
    for domain, one in found.items():
        if one.falls:
            notes.append(
                f"{domain}: the counter {one.counter!r} fell {one.falls} times; its joules there are not known"
            )
    return notes
