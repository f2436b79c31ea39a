"""A trace from arrays: what other runtimes, importers and tests write."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TprofError

from . import kinds, layout
from .arguments import (
    GivenEnergy,
    GivenThread,
    check_energy,
    check_host,
    check_static_power,
    check_tasks,
    check_threads,
)
from .directory import create_session
from .graph import WORD
from .kinds import Kind
from .manifest import write_end, write_manifest
from .native import NativeThread, check_native, described, records_of
from .native_calls import PoolCalls, check_calls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

UNITS = {"energy_uj": "uJ", "cpu_ns": "ns"}


def write_trace(
    path: str | os.PathLike[str],
    *,
    tasks: Sequence[str],
    threads: Sequence[Mapping[str, Any]],
    energy: Mapping[str, tuple[Any, ...]],
    host: Mapping[str, Any] | None = None,
    static_power_w: Mapping[str, float] | None = None,
    quality: str = "given",
    native: Sequence[NativeThread | PoolCalls] = (),
) -> None:
    """Write a trace from arrays.

    Parameters
    ----------
    path
        The session directory to make; it must not exist.
    tasks
        Names of the tasks.
    threads
        One dict per thread: ``t_ns``, ``instance`` and ``task``, each (n,): from ``t_ns`` on the
        thread runs this instance (0: none) of this task (index in `tasks`; -1: none). Optional, (n,):
        ``cpu``, ``package``, ``kind``, ``flags``, and cumulative counter columns of any other name
        (``cpu_ns``, ``instructions``, ``cycles``, ``llc_misses``, …); ``package`` may be one value.
        Optional, one value: ``pid``, ``tid``, ``name``. Optional, of a task runtime: ``events``, a dict of
        (e,) arrays ``t_ns``, ``kind`` (`tprof.trace.EventKind`), ``instance`` and, if the kind has them,
        ``other``, ``task`` and ``worker`` (-1: none). Times are CLOCK_MONOTONIC nanoseconds, not decreasing.
    energy
        Domain (``"package-0"``, ``"dram-0"``, ``"core-0"``, ``"psys"``, ``"gpu-0"``) to (m,) arrays:
        ``t_ns`` and cumulative joules, neither decreasing, and, if known, ``window_ns``: time before
        ``t_ns`` at which the sensor last had another value.
    host
        Metadata of the machine for the manifest.
    static_power_w
        Power of an idle package in watts, by domain, if known.
    quality
        Origin of the joules: ``"measured"``, ``"estimated"``, ``"simulated"`` or ``"given"``.

    native
        Threads without samples, such as those of a library's pool, and calls that gave them work. Their tasks
        are indices in `tasks`.

    Raises
    ------
    UsageError
        If the path exists or arguments contradict each other; nothing is written then.
    TprofError
        If writing fails.

    Examples
    --------
    >>> import tempfile, tprof
    >>> directory = tempfile.mkdtemp() + "/two.tprof"
    >>> thread = {"t_ns": [0, 10**9, 3 * 10**9], "instance": [1, 2, 0], "task": [0, 1, -1]}
    >>> energy = {"package-0": ([0, 10**9, 3 * 10**9], [0.0, 5.0, 25.0])}
    >>> tprof.write_trace(directory, tasks=["slow", "hot"], threads=[thread], energy=energy)
    >>> tprof.load(directory).profile().tasks["energy_j"].tolist()
    [5.0, 20.0]
    """
    directory = Path(path).absolute()
    names = check_tasks(tasks)
    given = check_threads(threads, len(names))
    domains = check_energy(energy, quality)
    pools = check_native([one for one in native if not isinstance(one, PoolCalls)], len(names))
    calls = check_calls([one for one in native if isinstance(one, PoolCalls)], len(names))
    manifest = _manifest(given, domains, check_host(host), check_static_power(static_power_w, energy))
    create_session(directory)
    try:
        _write_all(directory, names, given, domains, manifest)
        _write_native(directory, pools, calls)
    except OSError as error:
        shutil.rmtree(directory, ignore_errors=True)
        reason = error.strerror or str(error)
        message = f"cannot write the trace {directory}: {reason}; nothing of it is left behind"
        raise TprofError(message) from error
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _write_all(
    directory: Path,
    names: list[str],
    threads: list[GivenThread],
    domains: list[GivenEnergy],
    manifest: dict[str, Any],
) -> None:
    for name in ("threads", "tasks", "readings"):
        (directory / name).mkdir(mode=0o700)
    write_manifest(directory, manifest)
    lines = [json.dumps({"task": number, "name": name}) + "\n" for number, name in enumerate(names)]
    _create(directory / "tasks" / "00000000.jsonl", "".join(lines).encode())
    begins = first_seen([thread.instance for thread in threads], [thread.t_ns for thread in threads])
    for ordinal, (thread, begin) in enumerate(zip(threads, begins, strict=True)):
        _write_thread(directory, ordinal, thread, begin)
    _write_events(directory, threads)
    for domain in domains:
        _write_domain(directory, domain)
    ends = [int(thread.t_ns[-1]) for thread in threads if len(thread.t_ns)]
    ends += [int(thread.events["t_ns"][-1]) for thread in threads if thread.events is not None and len(thread.events)]
    ends += [int(domain.t_ns[-1]) for domain in domains if len(domain.t_ns)]
    known = {"end_ns": max(ends)} if ends else {}
    write_end(directory, {**known, "stopped": "end", "processes": [], "dropped": {}})


def _write_thread(directory: Path, ordinal: int, thread: GivenThread, begins: Any) -> None:
    columns = tuple(thread.columns)
    width = layout.column_count(64 if len(columns) <= layout.column_count(64) else 128)
    declared = (columns + ("",) * width)[:width]
    if thread.kind is None:
        story = derive_story(thread.instance, begins)
        source, instance, kind = story.source, story.instance, story.kind
    else:
        source, instance, kind = np.arange(len(thread.t_ns)), thread.instance, thread.kind
    samples = np.zeros(len(source), layout.sample_dtype(declared))
    samples["t_ns"] = thread.t_ns[source]
    samples["instance"] = instance
    samples["task"] = np.where(instance == 0, layout.NO_TASK, thread.task[source])
    samples["cpu"] = thread.cpu[source]
    samples["kind"] = kind
    samples["flags"] = thread.flags[source]
    for name, values in thread.columns.items():
        samples[name] = values[source]
    header = _header(kinds.StreamKind.SAMPLES, samples, {"columns": _described(declared), "clock": "CLOCK_MONOTONIC"})
    header["thread"], header["pid"], header["tid"] = ordinal, thread.pid, thread.tid
    header["thread_name"] = np.void(_name_field(thread.name))
    if len(samples):
        header["start_ns"] = samples["t_ns"][0]
        header["end_ns"] = samples["t_ns"][-1]
        header["end_reason"] = kinds.EndReason.STOPPED
        for place, name in enumerate(declared):
            header["end_columns"][place] = samples[name][-1] if name else 0
    _create(directory / "threads" / f"{ordinal:08d}.samples", header, samples)


def _write_events(directory: Path, threads: list[GivenThread]) -> None:
    given = [(ordinal, thread, thread.events) for ordinal, thread in enumerate(threads) if thread.events is not None]
    if given:
        (directory / "graph").mkdir(mode=0o700)
    for ordinal, thread, events in given:
        header = _header(kinds.StreamKind.EVENTS, events, {"events": WORD})
        header["thread"], header["pid"], header["tid"] = ordinal, thread.pid, thread.tid
        if len(events):
            header["start_ns"], header["end_ns"] = events["t_ns"][0], events["t_ns"][-1]
            header["end_reason"] = kinds.EndReason.STOPPED
        _create(directory / "graph" / f"{ordinal:08d}.events", header, events)


def _write_native(directory: Path, threads: list[NativeThread], calls: list[PoolCalls]) -> None:
    pids = sorted({thread.pid for thread in threads} | {one.pid for one in calls})
    if pids:
        (directory / "native").mkdir(mode=0o700)
    for place, pid in enumerate(pids):
        of_process = [one for one in calls if one.pid == pid]
        own = [thread for thread in threads if thread.pid == pid]
        records = records_of(own, of_process)
        header = _header(kinds.StreamKind.NATIVE, records, described(own))
        header["thread"], header["pid"] = layout.NO_THREAD, pid
        _create(directory / "native" / f"{place:08d}.native", header, records)


def _write_domain(directory: Path, domain: GivenEnergy) -> None:
    readings = np.zeros(len(domain.t_ns), layout.READING)
    readings["t_ns"] = domain.t_ns
    readings["value"] = domain.count
    readings["window_ns"] = domain.window_ns
    description = {
        "name": domain.name,
        "quantity": "energy",
        "scope": domain.scope,
        "package": domain.package,
        "source": "arrays",
        "quality": domain.quality,
        "counted": domain.counted,
    }
    header = _header(kinds.StreamKind.READINGS, readings, description)
    header["thread"] = layout.NO_THREAD
    header["unit"] = domain.unit_j
    _create(directory / "readings" / f"{domain.name}.readings", header, readings)


def add_cpu_times(directory: Path, name: str, times: tuple[Any, Any], **described: Any) -> None:
    """Add readings of CPU time to a trace: times, and nanoseconds so far. Raises OSError.

    `described` are the `quantity`, "busy" (of the machine) or "program", and the `package`.
    """
    t_ns, cpu_ns = times
    readings = np.zeros(len(t_ns), layout.READING)
    readings["t_ns"], readings["value"] = t_ns, cpu_ns
    description = {"name": name, "scope": "machine", "source": "arrays", "quality": "given", **described}
    header = _header(kinds.StreamKind.READINGS, readings, description)
    header["thread"], header["unit"] = layout.NO_THREAD, 1e-9
    number = sum(1 for _ in (directory / "readings").iterdir())
    _create(directory / "readings" / f"cpu-{number}.readings", header, readings)


def _header(kind: kinds.StreamKind, records: np.ndarray[Any, Any], description: dict[str, Any]) -> Any:
    header = np.zeros((), layout.HEADER)
    text = json.dumps(description, separators=(",", ":")).encode()
    header["magic"] = np.void(layout.MAGIC)
    header["major"], header["minor"], header["endian"] = layout.MAJOR, layout.MINOR, layout.ENDIAN
    header["kind"], header["header_bytes"] = kind, layout.HEADER_BYTES
    header["record_bytes"] = records.dtype.itemsize
    header["committed"] = header["flushed"] = len(records)
    header["description_bytes"] = len(text)
    header["description"] = np.void(text.ljust(layout.DESCRIPTION_BYTES, b"\0"))
    return header


def _described(columns: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"name": name, "unit": UNITS.get(name, "1" if name else "")} for name in columns]


def _name_field(name: str) -> bytes:
    """Return the name for the header: complete characters only, no NUL inside, NUL-terminated."""
    text = name.replace("\0", " ").encode("utf-8", "replace")[: layout.NAME_BYTES - 1]
    return text.decode("utf-8", "ignore").encode().ljust(layout.NAME_BYTES, b"\0")


def _create(path: Path, *parts: bytes | np.ndarray[Any, Any]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        for part in parts:
            file.write(part if isinstance(part, bytes) else part.reshape(-1).view(np.uint8).data)


def _manifest(
    threads: list[GivenThread],
    domains: list[GivenEnergy],
    host: dict[str, Any],
    static_power_w: dict[str, float],
) -> dict[str, Any]:
    starts = [int(thread.t_ns[0]) for thread in threads if len(thread.t_ns)]
    starts += [int(thread.events["t_ns"][0]) for thread in threads if thread.events is not None and len(thread.events)]
    starts += [int(domain.t_ns[0]) for domain in domains if len(domain.t_ns)]
    packages: dict[int, int] = {}
    for thread in threads:
        packages |= thread.packages
    return {
        "format": [layout.MAJOR, layout.MINOR],
        "created": None,
        "clock": {"name": "CLOCK_MONOTONIC", "start_ns": min(starts, default=0)},
        "host": host,
        "topology": [{"cpu": cpu, "package": package} for cpu, package in sorted(packages.items())],
        "columns": [],
        "domains": [{"name": domain.name, "scope": domain.scope, "quality": domain.quality} for domain in domains],
        "left_out": [],
        "static_power_w": static_power_w,
        "counters": {"source": "given"},
        "notes": [],
    }


IntArray = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Story:
    """A thread's samples with their kinds.

    Attributes
    ----------
    source : (n,) index of each one's given sample; an inserted one repeats that of its successor.
    instance : (n,) uint64.
    kind : (n,) uint8.
    """

    source: IntArray
    instance: npt.NDArray[np.uint64]
    kind: npt.NDArray[np.uint8]


def first_seen(instances: list[npt.NDArray[np.uint64]], times: list[IntArray]) -> list[npt.NDArray[np.bool_]]:
    """Mark the sample with which each instance begins: its earliest in all threads.

    Parameters
    ----------
    instances, times
        One array per thread, as given to `write_trace`.
    """
    if not instances:
        return []
    lengths = [len(one) for one in instances]
    every = np.concatenate(instances)
    order = np.argsort(np.concatenate(times), kind="stable")
    _, first = np.unique(every[order], return_index=True)
    begins = np.zeros(len(every), bool)
    begins[order[first]] = True
    begins &= every != 0
    return np.split(begins, np.cumsum(lengths)[:-1])


def derive_story(instance: npt.NDArray[np.uint64], begins: npt.NDArray[np.bool_]) -> Story:
    """Derive the kind of each sample of a thread.

    An instance that begins is nested in the one before it only if that one runs again later on this
    thread; otherwise the one before has finished, and a sample of that is inserted.
    """
    before = np.concatenate([np.zeros(1, np.uint64), instance[:-1]])
    runs_again = _runs_again(instance)
    previous_runs_again = np.concatenate([np.zeros(1, bool), runs_again[:-1]])
    ended_unsaid = begins & (before != 0) & (before != instance) & ~previous_runs_again
    kind = np.full(len(instance), Kind.FINISH, np.uint8)
    kind[begins] = Kind.START
    went_on = ~begins & (instance != 0) & (before == 0)
    kind[went_on] = Kind.RESUME
    paused = (instance == 0) & (before != 0) & previous_runs_again
    kind[paused] = Kind.SUSPEND
    if not ended_unsaid.any():
        return Story(np.arange(len(instance)), instance, kind)
    places = np.flatnonzero(ended_unsaid)
    source = np.insert(np.arange(len(instance)), places, places)
    return Story(source, np.insert(instance, places, np.uint64(0)), np.insert(kind, places, np.uint8(Kind.FINISH)))


def _runs_again(instance: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Mark the samples whose instance has a later one on this thread."""
    order = np.argsort(instance, kind="stable")
    ordered = instance[order]
    again = np.zeros(len(instance), bool)
    again[order[:-1]] = ordered[1:] == ordered[:-1]
    return again
