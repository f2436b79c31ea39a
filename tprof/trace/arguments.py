"""Checks the arguments of `write_trace`, with one clear sentence for each contradiction."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import UsageError

from . import kinds, layout
from .bounds import MAX_JOULES, MAX_WATTS, SMALLEST_UNIT, is_between
from .metadata import MAX_PACKAGES
from .tasks import MAX_TASKS
from .thread import MAX_COLUMN_CHARACTERS, MAX_PID, is_column_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

SCALARS = {"pid", "tid", "name"}
FIXED = {"t_ns", "instance", "task", "cpu", "package", "kind", "flags", "events"}
COUNT_BITS = 62
SMALLEST_UNIT_EXPONENT = round(math.log2(SMALLEST_UNIT))


@dataclass(frozen=True)
class GivenThread:
    """A thread of `write_trace`, all arrays of one length."""

    t_ns: npt.NDArray[np.int64]
    instance: npt.NDArray[np.uint64]
    task: npt.NDArray[np.int64]
    cpu: npt.NDArray[np.uint16]
    kind: npt.NDArray[np.uint8] | None
    flags: npt.NDArray[np.uint8]
    columns: dict[str, npt.NDArray[np.uint64]]
    events: npt.NDArray[np.void] | None
    packages: dict[int, int]
    pid: int
    tid: int
    name: str


@dataclass(frozen=True)
class GivenEnergy:
    """A domain of `write_trace`: joules as counts of a power of two, without loss of bits."""

    name: str
    scope: str
    package: int | None
    quality: str
    counted: bool
    t_ns: npt.NDArray[np.int64]
    count: npt.NDArray[np.uint64]
    unit_j: float
    window_ns: npt.NDArray[np.uint32]


def check_tasks(tasks: Sequence[str]) -> list[str]:
    """Return the names. Raises UsageError."""
    refuse_if(isinstance(tasks, str), f"tasks must be a list of names, got the name {tasks!r}")
    names = list(tasks)
    refuse_if(len(names) > MAX_TASKS, f"tasks must be at most {MAX_TASKS} names, got {len(names)}")
    for name in names:
        if not isinstance(name, str):
            message = f"tasks must be a list of names, got {name!r}"
            raise UsageError(message)
    return names


def check_threads(threads: Sequence[Mapping[str, Any]], task_count: int) -> list[GivenThread]:
    """Return the threads as arrays. Raises UsageError."""
    checked = [_check_thread(f"threads[{place}]", thread, task_count) for place, thread in enumerate(threads)]
    packages: dict[int, int] = {}
    for place, thread in enumerate(checked):
        for cpu, package in thread.packages.items():
            other = packages.setdefault(cpu, package)
            refuse_if(
                other != package,
                f"threads[{place}]: cpu {cpu} is in package {package}, but in {other} before: give each thread its cpu",
            )
    return checked


def _check_thread(where: str, thread: Mapping[str, Any], task_count: int) -> GivenThread:
    if not isinstance(thread, Mapping):
        message = f"{where} must be a dict with t_ns, instance and task, got {type(thread).__name__}"
        raise UsageError(message)
    for key in ("t_ns", "instance", "task"):
        if key not in thread:
            message = f"{where} has no {key!r}: t_ns, instance and task are needed"
            raise UsageError(message)
    t_ns = _times(where, thread["t_ns"], "; sort the samples by time")
    length = len(t_ns)
    instance = unsigned(where, "instance", thread["instance"], length)
    task = whole(where, "task", thread["task"], length)
    outside = (task < -1) | (task >= task_count)
    refuse_if(
        bool(outside.any()), f"{where}: task must be from -1 to {task_count - 1}, got {first_where(task, outside)}"
    )
    nobody = (instance != 0) & (task == -1)
    refuse_if(bool(nobody.any()), f"{where}: instance {first_where(instance, nobody)} has no task (-1)")
    names = [key for key in thread if key not in FIXED | SCALARS]
    refuse_if(len(names) > layout.MAX_COLUMNS, f"{where}: at most {layout.MAX_COLUMNS} columns fit, got {len(names)}")
    cpu = _cpu(where, thread, length)
    return GivenThread(
        t_ns=t_ns,
        instance=instance,
        task=task,
        cpu=cpu,
        kind=_kind(where, thread["kind"], length, max(kinds.Kind)) if "kind" in thread else None,
        flags=_flags(where, thread.get("flags"), length),
        columns={name: _column(where, name, thread[name], length) for name in names},
        events=check_events(where, thread.get("events"), task_count),
        packages=_packages(where, thread, cpu, length),
        pid=_process_id(where, "pid", thread.get("pid", 0)),
        tid=_process_id(where, "tid", thread.get("tid", 0)),
        name=str(thread.get("name", "")),
    )


def _times(where: str, values: Any, remedy: str = "") -> npt.NDArray[np.int64]:
    t_ns = whole(where, "t_ns", values)
    lowest = int(t_ns.min(initial=0))
    refuse_if(lowest < 0, f"{where}: t_ns must not be negative, got {lowest}")
    refuse_if(bool((t_ns[1:] < t_ns[:-1]).any()), f"{where}: t_ns must not decrease{remedy}")
    return t_ns


def check_energy(energy: Mapping[str, tuple[Any, ...]], quality: str) -> list[GivenEnergy]:
    """Return the domains with joules as whole counts. Raises UsageError."""
    refuse_if(not isinstance(energy, Mapping), "energy must be a dict of domains, such as package-0")
    allowed = ", ".join(kinds.Quality)
    refuse_if(quality not in set(kinds.Quality), f"quality must be one of {allowed}, got {quality!r}")
    from tprof.sensors.contract import Domain  # noqa: PLC0415 - sensors read the format's words too
    from tprof.sensors.nesting import total  # noqa: PLC0415 - see above

    given = [_check_domain(name, pair, quality) for name, pair in energy.items()]
    domains, _ = total([Domain(one.name, one.scope, one.package, "given", kinds.Quality(quality)) for one in given])
    return [replace(one, counted=domain.counted) for one, domain in zip(given, domains, strict=True)]


def _check_domain(name: str, pair: tuple[Any, ...], quality: str) -> GivenEnergy:
    where = f"energy[{name!r}]"
    sound = isinstance(name, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,62}", name) is not None
    refuse_if(not sound, f"{where}: a domain is named like package-0, dram-0, core-0, psys or gpu-0")
    try:
        given_t_ns, given_j, *windows = pair
    except (TypeError, ValueError):
        windows = [None, None]
    if len(windows) > 1:
        message = f"{where} must be arrays: t_ns, cumulative joules and, if known, window_ns"
        raise UsageError(message)
    t_ns = _times(where, given_t_ns)
    window_ns = unsigned(where, "window_ns", windows[0], len(t_ns), below=1 << 32) if windows else np.zeros(len(t_ns))
    joules = numbers(where, "joules", given_j, len(t_ns)).astype(np.float64)
    refuse_if(bool((joules < 0).any()), f"{where}: joules must not be negative")
    most_j = float(joules.max(initial=0.0))
    refuse_if(most_j > MAX_JOULES, f"{where}: joules must be at most {MAX_JOULES:g}, got {most_j:g}")
    refuse_if(bool((joules[1:] < joules[:-1]).any()), f"{where}: cumulative joules must not decrease")
    unit_j = math.ldexp(1.0, max(math.frexp(most_j)[1] - COUNT_BITS, SMALLEST_UNIT_EXPONENT))
    scope = name.partition("-")[0]
    number = name.partition("-")[2]
    return GivenEnergy(
        name=name,
        scope=scope,
        package=int(number) if number.isascii() and number.isdigit() else None,
        quality=str(quality),
        counted=False,
        t_ns=t_ns,
        count=(joules / unit_j).astype(np.uint64),
        unit_j=unit_j,
        window_ns=window_ns.astype(np.uint32),
    )


def _column(where: str, name: str, values: Any, length: int) -> npt.NDArray[np.uint64]:
    refuse_if(
        not (isinstance(name, str) and is_column_name(name)),
        f"{where}: {name!r} is no name for a column; use letters, digits and _, at most {MAX_COLUMN_CHARACTERS}",
    )
    column = unsigned(where, name, values, length, cut=True)
    refuse_if(bool((column[1:] < column[:-1]).any()), f"{where}: {name} is cumulative, so it must not decrease")
    return column


def _kind(where: str, values: Any, length: int, last: int) -> npt.NDArray[np.uint8]:
    kind = unsigned(where, "kind", values, length, below=last + 1)
    refuse_if(bool((kind == 0).any()), f"{where}: kind must be from 1 to {last}, got 0")
    return kind.astype(np.uint8)


def _flags(where: str, values: Any, length: int) -> npt.NDArray[np.uint8]:
    if values is None:
        return np.zeros(length, np.uint8)
    return unsigned(where, "flags", values, length, below=1 << 8).astype(np.uint8)


def _process_id(where: str, key: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = -1
    refuse_if(not 0 <= number <= MAX_PID, f"{where}: {key} must be one number from 0 to {MAX_PID}, got {value!r}")
    return number


def _cpu(where: str, thread: Mapping[str, Any], length: int) -> npt.NDArray[np.uint16]:
    """Return processors; each package without processors gets a placeholder processor."""
    if "cpu" in thread:
        return unsigned(where, "cpu", thread["cpu"], length, below=layout.NO_CPU).astype(np.uint16)
    if "package" in thread:
        return _package(where, thread["package"], length).astype(np.uint16)
    return np.full(length, layout.NO_CPU, np.uint16)


def _packages(where: str, thread: Mapping[str, Any], cpu: npt.NDArray[np.uint16], length: int) -> dict[int, int]:
    if "package" not in thread:
        return {}
    package = _package(where, thread["package"], length)
    pairs = np.unique(cpu.astype(np.int64) << 16 | package.astype(np.int64))
    found = {int(pair) >> 16: int(pair) & 0xFFFF for pair in pairs}
    refuse_if(len(found) < len(pairs), f"{where}: a processor is given in two packages; name each processor once")
    return found


def _package(where: str, given: Any, length: int) -> npt.NDArray[np.uint64]:
    """Return the package at each sample; one value stands for all."""
    values = np.full(length, given) if isinstance(given, int | np.integer) else given
    return unsigned(where, "package", values, length, below=MAX_PACKAGES)


def check_host(host: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the metadata of the machine. Raises UsageError."""
    facts = dict(host or {})
    for key, value in facts.items():
        sound = isinstance(key, str) and (value is None or isinstance(value, str | bool | int | float))
        sound = sound and not (isinstance(value, float) and not math.isfinite(value))
        refuse_if(not sound, f"host: {key!r} must be a text or a number, got {value!r}")
    return facts


def check_static_power(static_power_w: Mapping[str, float] | None, domains: Iterable[str]) -> dict[str, float]:
    """Return the watts by domain. Raises UsageError."""
    given_w = dict(static_power_w or {})
    names = set(domains)
    for name, watts in given_w.items():
        refuse_if(name not in names, f"static_power_w: {name!r} is no domain of energy")
        sound = is_between(watts, 0, MAX_WATTS)
        allowed = f"must be watts, not negative, got {watts!r} (at most {MAX_WATTS:g})"
        refuse_if(not sound, f"static_power_w[{name!r}] {allowed}")
    return {name: float(watts) for name, watts in given_w.items()}


OF_EVENT = ("t_ns", "kind", "instance")
OF_SOME_EVENTS = ("other", "task", "worker")


def check_events(where: str, given: Any, task_count: int) -> npt.NDArray[np.void] | None:
    """Return the events as file records, None without any. Raises UsageError."""
    if given is None:
        return None
    where = f"{where}['events']"
    named = f"{', '.join(OF_EVENT)} and, where they mean something, {', '.join(OF_SOME_EVENTS)}"
    refuse_if(not isinstance(given, Mapping), f"{where} must be a dict of arrays: {named}")
    odd = [key for key in given if key not in OF_EVENT + OF_SOME_EVENTS] + [key for key in OF_EVENT if key not in given]
    refuse_if(bool(odd), f"{where} must hold {named}; see {odd[0] if odd else None!r}")
    t_ns = whole(where, "t_ns", given["t_ns"])
    refuse_if(bool((t_ns < 0).any()), f"{where}: t_ns must not be negative, got {first_where(t_ns, t_ns < 0)}")
    refuse_if(bool((t_ns[1:] < t_ns[:-1]).any()), f"{where}: t_ns must not decrease; sort the events by time")
    events = np.zeros(len(t_ns), layout.EVENT)
    events["t_ns"] = t_ns
    events["kind"] = _kind(where, given["kind"], len(t_ns), max(kinds.EventKind))
    events["instance"] = unsigned(where, "instance", given["instance"], len(t_ns))
    events["other"] = unsigned(where, "other", given["other"], len(t_ns)) if "other" in given else 0
    events["task"] = _or_none(where, "task", given, len(t_ns), task_count) if "task" in given else layout.NO_TASK
    worker = "worker" in given
    events["worker"] = _or_none(where, "worker", given, len(t_ns), layout.NO_WORKER) if worker else layout.NO_WORKER
    return events


def _or_none(where: str, key: str, given: Mapping[str, Any], length: int, below: int) -> npt.NDArray[np.int64]:
    """Return numbers with -1 (none) as in the file: with all bits set."""
    marked = whole(where, key, given[key], length)
    outside = (marked < -1) | (marked >= below)
    refuse_if(bool(outside.any()), f"{where}: {key} must be from -1 to {below - 1}, got {first_where(marked, outside)}")
    return np.where(marked == -1, np.iinfo(layout.EVENT[key].type).max, marked)


LARGEST_FLOAT_STEP = 2.0**63


def refuse_if(wrong: bool, message: str) -> None:  # noqa: FBT001 - a condition
    """Raise UsageError with the message if something is wrong."""
    if wrong:
        raise UsageError(message)


def first_where(values: npt.NDArray[Any], where: npt.NDArray[np.bool_]) -> int:
    """Return the first of the values that are marked, for a message."""
    return int(values[where][0]) if where.any() else 0


def numbers(where: str, key: str, values: Any, length: int | None = None) -> npt.NDArray[Any]:
    """Return finite numbers as a one-dimensional array, of this length if it is given. Raises UsageError."""
    try:
        array = np.asarray(values)
    except ValueError:
        message = f"{where}: {key} must be one-dimensional, got rows of different lengths"
        raise UsageError(message) from None
    refuse_if(array.ndim != 1, f"{where}: {key} must be one-dimensional, got shape {array.shape}")
    refuse_if(array.size > 0 and array.dtype.kind not in "iuf", f"{where}: {key} must hold numbers, got {array.dtype}")
    wrong = length is not None and len(array) != length
    refuse_if(wrong, f"{where}: t_ns has {length} entries, {key} {len(array)}")
    if array.dtype.kind == "f":
        refuse_if(not bool(np.isfinite(array).all()), f"{where}: {key} must be finite")
    return array


def whole(where: str, key: str, values: Any, length: int | None = None) -> npt.NDArray[np.int64]:
    """Return whole numbers that fit into 64 bits with sign. Raises UsageError."""
    array = numbers(where, key, values, length)
    if array.dtype.kind == "f":
        refuse_if(bool((array != np.trunc(array)).any()), f"{where}: {key} must hold whole numbers")
        outside = np.abs(array) >= LARGEST_FLOAT_STEP
    elif array.dtype.kind == "u":
        outside = array > np.uint64(2**63 - 1)
    else:
        return array.astype(np.int64, copy=False)
    refuse_if(bool(outside.any()), f"{where}: {key} must be below 2**63")
    return array.astype(np.int64)


def unsigned(
    where: str,
    key: str,
    values: Any,
    length: int,
    *,
    below: int = 2**64,
    cut: bool = False,
) -> npt.NDArray[np.uint64]:
    """Return whole numbers from 0 to before `below`; with `cut`, fractions are cut off. Raises UsageError."""
    array = numbers(where, key, values, length)
    if not len(array):
        return array.astype(np.uint64)
    if array.dtype.kind == "f" and not cut:
        refuse_if(bool((array != np.trunc(array)).any()), f"{where}: {key} must hold whole numbers")
    lowest, highest = array.min(), array.max()
    refuse_if(bool(lowest < 0), f"{where}: {key} must not be negative, got {lowest}")
    refuse_if(int(highest) >= below, f"{where}: {key} must be below {below}, got {highest}")
    return array.astype(np.uint64, copy=False)
