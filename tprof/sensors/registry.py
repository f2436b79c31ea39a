"""Which sensors there are: tprof's own, one line each, and those of other packages, by entry points."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

from tprof.errors import SensorError, UsageError

from .contract import Sensor

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "tprof.sensors"
"""The group of entry points by which a package adds sensors: `NAME = "package.module:Class"`."""
BUILT_IN = {
    "perf": "perf:Perf",
    "powercap": "powercap:Powercap",
    "nvml": "nvml:Nvml",
}
"""Modules of this folder and their classes, by name; of one subject the first that is available is `auto`'s."""
WITHOUT_CLASS = ("auto", "estimate", "none")
_NAME = re.compile(r"[a-z][a-z0-9_]*$")


def names() -> tuple[str, ...]:
    """Return what `energy=` may be, the sensors of other packages included."""
    return ("auto", *BUILT_IN, *_entry_points(), "estimate", "none")


def create(asked: str) -> Sensor:
    """Return the sensor of `NAME` or `NAME:argument`. Raises UsageError and SensorError."""
    name, _, argument = asked.partition(":")
    return sensor_class(name)(argument)


def sensor_class(name: str) -> type[Sensor]:
    """Return the class of a sensor. Raises UsageError without one, SensorError if it cannot be loaded."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        found: type[Sensor] = getattr(import_module(f"{__package__}.{module}"), attribute)
        return found
    entry = _entry_points().get(name)
    if entry is None:
        raise UsageError(f"energy must be one of {', '.join(names())}, got {name!r}")
    return _load(entry)


def all_classes() -> tuple[tuple[type[Sensor], ...], tuple[tuple[str, str], ...]]:
    """Return the classes of all sensors, and name and reason of those that cannot be loaded."""
    classes: list[type[Sensor]] = []
    failed: list[tuple[str, str]] = []
    for name in (*BUILT_IN, *_entry_points()):
        try:
            classes.append(sensor_class(name))
        except SensorError as error:
            failed.append((name, str(error)))
    return tuple(classes), tuple(failed)


def _entry_points() -> dict[str, EntryPoint]:
    """Return the entry points of other packages' sensors by name, without those that take a name of tprof's own."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - kept off `import tprof`

    found = {entry.name: entry for entry in sorted(entry_points(group=GROUP), reverse=True)}
    taken = {*BUILT_IN, *WITHOUT_CLASS}
    return {name: found[name] for name in sorted(found) if _NAME.match(name) and name not in taken}


def _load(entry: EntryPoint) -> type[Sensor]:
    """Load a sensor of another package, whose code may raise anything."""
    package = "another package" if entry.dist is None else entry.dist.name
    try:
        loaded = entry.load()
    except Exception as error:
        raise SensorError(
            f"the sensor {entry.name} of {package} cannot be loaded: {type(error).__name__}: {error}; "
            f"reinstall {package}, or take it out"
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Sensor)):
        raise SensorError(f"the sensor {entry.name} of {package} is no tprof.sensors.Sensor: report it to its authors")
    return loaded
