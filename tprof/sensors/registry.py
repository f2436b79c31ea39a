"""Which sensors there are: tprof's own, one line each, and those of other packages, by entry points."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

from tprof.errors import SensorError, UsageError
from tprof.trace.bounds import LARGEST_UNIT, SMALLEST_UNIT, is_between

from .contract import Found, LeftOut, Sensor, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.metadata import EntryPoint

    from .contract import Domain, Machine

GROUP = "tprof.sensors"
"""The group of entry points by which a package adds sensors: `NAME = "package.module:Class"`."""
BUILT_IN = {
    "perf": "perf:Perf",
    "powercap": "powercap:Powercap",
    "hwmon_processor": "hwmon:HwmonProcessor",
    "nvml": "nvml:Nvml",
    "amd_gpu": "hwmon:AmdGpu",
    "intel_gpu": "hwmon:IntelGpu",
    "hwmon": "hwmon:Hwmon",
    "meter": "meter:Meter",
    "pyrapl": "pyrapl:Pyrapl",
}
"""Modules of this folder and their classes, by name; of one subject the first that is available is `auto`'s."""
WITHOUT_CLASS = ("auto", "estimate", "none")
_NAME = re.compile(r"[a-z][a-z0-9_]*$")
_DOMAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}$")
MOST_COUNT = (1 << 64) - 1


def names() -> tuple[str, ...]:
    """Return what `energy=` may be, the sensors of other packages included."""
    return ("auto", *BUILT_IN, *_entry_points(), "estimate", "none")


def create(asked: str) -> Sensor:
    """Return the sensor of `NAME` or `NAME:argument`. Raises UsageError and SensorError."""
    name, _, argument = asked.partition(":")
    if argument and name in WITHOUT_CLASS:
        raise UsageError(f'energy="{name}" takes no argument, got {argument!r}')
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


def search(sensor: Sensor, machine: Machine) -> Found | Unavailable:
    """Return what a sensor finds; whatever its code raises or returns, the caller gets one of the two."""
    try:
        found = sensor.find(machine)
    except UsageError:
        raise
    except (SensorError, OSError) as error:
        return Unavailable(str(error), notable=True)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the code of another package; reported as one sentence
        return Unavailable(f"its search failed with {type(error).__name__}: {error}", notable=True)
    wrong = _wrong(sensor, found)
    return found if wrong is None else Unavailable(f"it describes what it found wrongly: {wrong}", notable=True)


def _wrong(sensor: Sensor, found: object) -> str | None:
    """Return what is wrong with a sensor's answer, as a clause."""
    if isinstance(found, Unavailable):
        return None
    if not isinstance(found, Found) or not found.domains:
        return "find() returns Found with domains, or Unavailable"
    if not all(isinstance(one, LeftOut) for one in found.left_out):
        return "what is left out is a LeftOut each"
    names = [domain.name for domain in found.domains]
    return next((why for domain in found.domains if (why := _wrong_domain(sensor, domain, names)) is not None), None)


def _wrong_domain(sensor: Sensor, domain: Domain, names: Sequence[str]) -> str | None:
    if not _DOMAIN.match(domain.name) or names.count(domain.name) > 1:
        return f"{domain.name!r} is no name of a domain, or there are two of it"
    if domain.source != sensor.name:
        return f"the source of {domain.name} is {domain.source!r} instead of its name"
    if not is_between(domain.unit_j, SMALLEST_UNIT, LARGEST_UNIT):
        return f"{domain.name} has {domain.unit_j} joules a count"
    if domain.modulus is not None and not is_between(domain.modulus, 2, MOST_COUNT):
        return f"the count of {domain.name} wraps at {domain.modulus}"
    return None


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
    except (Exception, SystemExit) as error:
        raise SensorError(
            f"the sensor {entry.name} of {package} cannot be loaded: {type(error).__name__}: {error}; "
            f"reinstall {package}, or take it out"
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Sensor)):
        raise SensorError(f"the sensor {entry.name} of {package} is no tprof.sensors.Sensor: report it to its authors")
    return loaded
