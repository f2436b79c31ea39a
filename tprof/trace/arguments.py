"""What `write_trace` is given, checked: one clear sentence for each way in which it can contradict itself."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import UsageError

from . import layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

SCALARS = {"pid", "tid", "name"}
FIXED = {"t_ns", "instance", "task", "cpu", "package", "kind", "flags"}
COUNTED_SCOPES = {"package", "dram", "gpu"}


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
    packages: dict[int, int]
    pid: int
    tid: int
    name: str


@dataclass(frozen=True)
class GivenEnergy:
    """A domain of `write_trace`: joules as counts of a unit that is a power of two, so that no bit is lost."""

    name: str
    scope: str
    package: int | None
    quality: str
    counted: bool
    t_ns: npt.NDArray[np.int64]
    count: npt.NDArray[np.uint64]
    unit_j: float


def check_tasks(tasks: Sequence[str]) -> list[str]:
    """Return the names. Raises UsageError."""
    names = list(tasks)
    for name in names:
        if not isinstance(name, str):
            message = f"tasks must be a list of names, got {name!r}"
            raise UsageError(message)
    return names


def check_threads(threads: Sequence[Mapping[str, Any]], task_count: int) -> list[GivenThread]:
    """Return the threads as arrays. Raises UsageError."""
    return [_check_thread(f"threads[{place}]", thread, task_count) for place, thread in enumerate(threads)]


def _check_thread(where: str, thread: Mapping[str, Any], task_count: int) -> GivenThread:
    for key in ("t_ns", "instance", "task"):
        if key not in thread:
            message = f"{where} has no {key!r}: t_ns, instance and task are needed"
            raise UsageError(message)
    t_ns = _whole(where, "t_ns", thread["t_ns"], None)
    length = len(t_ns)
    _refuse_if(bool(length) and int(t_ns[0]) < 0, f"{where}: t_ns must not be negative, got {int(t_ns[:1].sum())}")
    _refuse_if(bool((np.diff(t_ns) < 0).any()), f"{where}: t_ns must not decrease; sort the samples by time")
    instance = _unsigned(where, "instance", thread["instance"], length)
    task = _whole(where, "task", thread["task"], length)
    outside = (task < -1) | (task >= task_count)
    _refuse_if(bool(outside.any()), f"{where}: task must be from -1 to {task_count - 1}, got {_first(task, outside)}")
    nobody = (instance != 0) & (task == -1)
    _refuse_if(bool(nobody.any()), f"{where}: instance {_first(instance, nobody)} has no task (-1)")
    names = [key for key in thread if key not in FIXED | SCALARS]
    _refuse_if(len(names) > layout.MAX_COLUMNS, f"{where}: at most {layout.MAX_COLUMNS} columns fit, got {len(names)}")
    cpu = _cpu(where, thread, length)
    return GivenThread(
        t_ns=t_ns,
        instance=instance,
        task=task,
        cpu=cpu,
        kind=_small(where, "kind", thread, length) if "kind" in thread else None,
        flags=_small(where, "flags", thread, length) if "flags" in thread else np.zeros(length, np.uint8),
        columns={name: _column(where, name, thread[name], length) for name in names},
        packages=_packages(where, thread, cpu, length),
        pid=int(thread.get("pid", 0)),
        tid=int(thread.get("tid", 0)),
        name=str(thread.get("name", "")),
    )


def check_energy(energy: Mapping[str, tuple[Any, Any]], quality: str) -> list[GivenEnergy]:
    """Return the domains with joules as whole counts. Raises UsageError."""
    allowed = ", ".join(layout.Quality)
    _refuse_if(quality not in set(layout.Quality), f"quality must be one of {allowed}, got {quality!r}")
    return [_check_domain(name, pair, quality) for name, pair in energy.items()]


def _check_domain(name: str, pair: tuple[Any, Any], quality: str) -> GivenEnergy:
    where = f"energy[{name!r}]"
    sound = isinstance(name, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,62}", name) is not None
    _refuse_if(not sound, f"{where}: a domain is named like package-0, dram-0, core-0, psys or gpu-0")
    try:
        given_t_ns, given_j = pair
    except (TypeError, ValueError):
        message = f"{where} must be a pair of arrays, t_ns and cumulative joules"
        raise UsageError(message) from None
    t_ns = _whole(where, "t_ns", given_t_ns, None)
    _refuse_if(bool(len(t_ns)) and int(t_ns.min(initial=0)) < 0, f"{where}: t_ns must not be negative")
    joules = np.asarray(given_j, np.float64)
    _refuse_if(joules.shape != t_ns.shape, f"{where}: t_ns has {len(t_ns)} entries, joules {joules.size}")
    _refuse_if(not bool(np.isfinite(joules).all()), f"{where}: joules must be finite")
    _refuse_if(bool((joules < 0).any()), f"{where}: joules must not be negative")
    _refuse_if(bool((np.diff(t_ns) < 0).any()), f"{where}: t_ns must not decrease")
    _refuse_if(bool((np.diff(joules) < 0).any()), f"{where}: cumulative joules must not decrease")
    unit_j = math.ldexp(1.0, math.frexp(float(joules.max(initial=0.0)))[1] - 62)
    scope = name.partition("-")[0]
    number = name.partition("-")[2]
    return GivenEnergy(
        name=name,
        scope=scope,
        package=int(number) if number.isascii() and number.isdigit() else None,
        quality=str(quality),
        counted=scope in COUNTED_SCOPES,
        t_ns=t_ns,
        count=(joules / unit_j).astype(np.uint64),
        unit_j=unit_j,
    )


def _refuse_if(wrong: bool, message: str) -> None:  # noqa: FBT001 - a condition
    if wrong:
        raise UsageError(message)


def _first(values: npt.NDArray[Any], where: npt.NDArray[np.bool_]) -> int:
    return int(values[where][0]) if where.any() else 0


def _array(where: str, key: str, values: Any, length: int | None) -> npt.NDArray[Any]:  # noqa: ANN401 - array-like
    array = np.asarray(values)
    _refuse_if(array.ndim != 1, f"{where}: {key} must be one-dimensional, got shape {array.shape}")
    _refuse_if(array.size > 0 and array.dtype.kind not in "iuf", f"{where}: {key} must hold numbers, got {array.dtype}")
    wrong = length is not None and len(array) != length
    _refuse_if(wrong, f"{where}: t_ns has {length} entries, {key} {len(array)}")
    if array.dtype.kind == "f":
        _refuse_if(not bool(np.isfinite(array).all()), f"{where}: {key} must be finite")
    return array


def _whole(where: str, key: str, values: Any, length: int | None) -> npt.NDArray[np.int64]:  # noqa: ANN401 - array-like
    return _array(where, key, values, length).astype(np.int64)


def _unsigned(where: str, key: str, values: Any, length: int) -> npt.NDArray[np.uint64]:  # noqa: ANN401 - array-like
    array = _array(where, key, values, length)
    _refuse_if(array.dtype.kind != "u" and bool((array < 0).any()), f"{where}: {key} must not be negative")
    return array.astype(np.uint64)


def _column(where: str, name: str, values: Any, length: int) -> npt.NDArray[np.uint64]:  # noqa: ANN401 - array-like
    _refuse_if(not name.isidentifier(), f"{where}: {name!r} is no name for a column; use letters, digits and _")
    return _unsigned(where, name, values, length)


def _small(where: str, key: str, thread: Mapping[str, Any], length: int) -> npt.NDArray[np.uint8]:
    return _unsigned(where, key, thread[key], length).astype(np.uint8)


def _cpu(where: str, thread: Mapping[str, Any], length: int) -> npt.NDArray[np.uint16]:
    """Return processors; packages without processors get a processor each to stand for them."""
    if "cpu" in thread:
        return _unsigned(where, "cpu", thread["cpu"], length).astype(np.uint16)
    if "package" in thread:
        return _unsigned(where, "package", thread["package"], length).astype(np.uint16)
    return np.full(length, layout.NO_CPU, np.uint16)


def _packages(
    where: str, thread: Mapping[str, Any], cpu: npt.NDArray[np.uint16], length: int
) -> dict[int, int]:
    if "package" not in thread:
        return {}
    package = _unsigned(where, "package", thread["package"], length)
    pairs = np.unique(np.stack([cpu.astype(np.int64), package.astype(np.int64)]), axis=1).T if length else []
    found = {int(one): int(other) for one, other in pairs}
    _refuse_if(len(found) < len(pairs), f"{where}: a processor is given in two packages; name each processor once")
    return found
