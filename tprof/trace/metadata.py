"""The metadata of a session, from its two JSON files: entries of the wrong type are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .bounds import MAX_WATTS, is_between
from .plain_values import is_finite
from .sealed import is_as_written

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeGuard

MAX_NS = 2**63 - 1
MAX_CPUS = 1 << 16
MAX_PACKAGES = 1 << 15


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | bool | int) or is_finite(value)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**64


def is_ns(value: object) -> TypeGuard[int]:
    """Return whether a value can be a time in nanoseconds."""
    return type(value) is int and 0 <= value <= MAX_NS


def _is_record(value: object) -> bool:
    return isinstance(value, dict) and all(_is_scalar(one) for one in value.values())


def _is_event_group(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    events = value.get("events", {})
    sound = isinstance(events, dict) and all(
        isinstance(one, list) and all(map(_is_count, one)) for one in events.values()
    )
    return sound and _is_record({key: one for key, one in value.items() if key != "events"})


def _is_counters(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    groups, papi = value.get("groups", []), value.get("papi", [])
    lists = isinstance(groups, list) and isinstance(papi, list)
    sound = lists and all(map(_is_event_group, groups)) and all(map(_is_text, papi))
    return sound and _is_record({key: one for key, one in value.items() if key not in {"groups", "papi"}})


def _is_watts(value: object) -> bool:
    return is_between(value, 0, MAX_WATTS)


def _is_estimate(value: object) -> bool:
    return value is None or (
        isinstance(value, dict)
        and _is_record(value)
        and all(_is_watts(value[key]) for key in ("idle_w", "per_core_w") if key in value)
    )


def _is_list_of(sound: Callable[[object], bool], count: int | None = None) -> Callable[[object], bool]:
    return lambda value: (
        isinstance(value, list) and len(value) == (len(value) if count is None else count) and all(map(sound, value))
    )


def _is_dict_of(sound: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and all(sound(one) for one in value.values())


_MANIFEST: dict[str, Callable[[object], bool]] = {
    "argv": _is_list_of(_is_text),
    "boot_id": _is_scalar,
    "clock": _is_record,
    "columns": _is_list_of(_is_record),
    "counters": _is_counters,
    "created": _is_scalar,
    "domains": _is_list_of(_is_record),
    "energy_filtering": _is_text,
    "estimate": _is_estimate,
    "host": _is_dict_of(_is_scalar),
    "left_out": _is_list_of(_is_record),
    "notes": _is_list_of(_is_text),
    "pid": _is_count,
    "static_power_w": _is_dict_of(_is_watts),
    "topology": _is_list_of(_is_record),
    "tprof": _is_text,
}
_END: dict[str, Callable[[object], bool]] = {
    "checksums": _is_dict_of(_is_list_of(_is_count, 2)),
    "clock": _is_record,
    "dropped": _is_dict_of(_is_count),
    "end_ns": is_ns,
    "files": _is_dict_of(_is_count),
    "lost_definitions": _is_count,
    "lost_threads": _is_count,
    "notes": _is_list_of(_is_text),
    "process_count": _is_count,
    "processes": _is_list_of(_is_record),
    "readers_cpu_ns": _is_count,
    "stopped": _is_text,
    "thread_count": _is_count,
    "uncounted_threads": _is_count,
}


def sound_manifest(metadata: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the manifest without known keys of the wrong type, with notes on these."""
    return _sound("manifest.json", metadata, _MANIFEST)


def sound_end(metadata: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return end.json without known keys of the wrong type, with notes on these and if it is not as it was written."""
    found, notes = _sound("end.json", metadata, _END)
    return found, notes if is_as_written(metadata) else ["end.json was changed since the recording ended", *notes]


def _sound(
    name: str, metadata: dict[str, Any], shapes: dict[str, Callable[[object], bool]]
) -> tuple[dict[str, Any], list[str]]:
    odd = [key for key, is_sound in shapes.items() if key in metadata and not is_sound(metadata[key])]
    kept = {key: value for key, value in metadata.items() if key not in odd}
    return kept, [f"{name}: {key!r} is damaged, and left out" for key in odd]


def packages_of_cpus(manifest: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.int16]]:
    """Return the package of each processor, (highest + 1,) int16; -1 if the manifest does not have it."""
    pairs = [
        (entry["cpu"], entry["package"])
        for entry in manifest.get("topology", [])
        if _is_count(entry.get("cpu"))
        and _is_count(entry.get("package"))
        and entry["cpu"] < MAX_CPUS
        and entry["package"] < MAX_PACKAGES
    ]
    packages = np.full(max((cpu for cpu, _ in pairs), default=0) + 1, -1, np.int16)
    for cpu, package in pairs:
        packages[cpu] = package
    return packages


def process_ends(end: dict[str, Any]) -> dict[int, int]:
    """Return the end of each process that ended, by its ordinal, in nanoseconds."""
    return {
        entry["process"]: entry["ended_ns"]
        for entry in end.get("processes", [])
        if _is_count(entry.get("process")) and is_ns(entry.get("ended_ns"))
    }


def process_cpu_ns(end: dict[str, Any]) -> dict[int, int]:
    """Return the last known CPU time of each process, by its ordinal, in nanoseconds."""
    return {
        entry["process"]: entry["cpu_ns"]
        for entry in end.get("processes", [])
        if _is_count(entry.get("process")) and is_ns(entry.get("cpu_ns")) and entry["cpu_ns"] > 0
    }


def written(end: dict[str, Any], what: str) -> dict[int, int]:
    """Return how much each process that recorded on had written at the end, by its ordinal.

    `what` is `table_bytes`, the length of its table of tasks, `gpu_bytes`, `label_bytes` or `key_bytes`, of its other
    files of lines, or `native_records`, the number of its records of native threads.
    """
    return {
        entry["process"]: entry[what]
        for entry in end.get("processes", [])
        if _is_count(entry.get("process")) and is_ns(entry.get(what))
    }


def start_ns_of(manifest: dict[str, Any]) -> int | None:
    """Return the start of the recorded block, else of the recording; None if the manifest has neither."""
    clock: dict[str, Any] = manifest.get("clock", {})
    starts = [clock[key] for key in ("block_start_ns", "start_ns") if is_ns(clock.get(key))]
    return int(starts[0]) if starts else None


def clock_of(manifest: dict[str, Any]) -> tuple[int, int] | None:
    """Return CLOCK_MONOTONIC and UNIX time at the start of the recording; None if the manifest does not have both."""
    clock = manifest.get("clock")
    if not isinstance(clock, dict):
        return None
    start_ns, wall_ns = clock.get("start_ns"), clock.get("wall_start_ns")
    return (start_ns, wall_ns) if is_ns(start_ns) and is_ns(wall_ns) else None
