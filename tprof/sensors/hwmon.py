"""Energy and power of the kernel's hwmon drivers: GPUs of AMD and Intel, processors without RAPL, boards, supplies.

A channel is `energyN_input` (µJ) or `powerN_average` or `powerN_input` (µW) of a device in /sys/class/hwmon, as
Documentation/hwmon/sysfs-interface.rst of the kernel has them. hwmon.csv says what known channels cover. One that it
does not list is read if it is asked for by its driver's name, and then counts as a part of the machine of its own:
whether it is inside another domain, nobody knows but who wired the board.

Reading may take a driver milliseconds (a bus, a mailbox, the firmware). A channel is read more seldom the longer it
takes.
"""

from __future__ import annotations

import csv
import re
import time
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, ClassVar

from tprof.errors import SensorError

from .advice import HWMON_GROUP
from .contract import MICRO, Accuracy, Domain, Found, LeftOut, Omission, Quality, Quantity, Reading, Sensor, Unavailable
from .topology import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .contract import Machine

SHORTEST_PERIOD_S, LONGEST_PERIOD_S = 0.01, 1.0
READ_SHARE = 0.02
"""Most of the thread's time that reading may take."""
_CHANNEL = re.compile(r"(energy|power)(\d+)_(input|average)$")


@dataclass(frozen=True)
class Known:
    """A line of hwmon.csv."""

    driver: str
    label: str
    domain: str
    scope: str
    update_s: str
    relative_error: str
    covers: str
    source: str


@dataclass(frozen=True)
class Channel:
    """A channel of a device: its file, which changes with the device's number, and the domain, which does not."""

    path: Path
    driver: str
    label: str
    device: int
    shows: Quantity

    @property
    def number(self) -> str:
        """Return the channel's number."""
        match = _CHANNEL.match(self.path.name)
        assert match is not None  # noqa: S101 - only such files are channels
        return match[2]


class Hwmon(Sensor):
    """All channels, or those of one driver."""

    name = "hwmon"
    covers = "whatever the kernel's hardware monitoring drivers measure"
    subject: ClassVar[str | None] = None
    argument_words: ClassVar[str | None] = "the name of a driver such as ina226"
    scopes: ClassVar[tuple[str, ...]] = ()
    drivers: ClassVar[tuple[str, ...]] = ()

    def find(self, machine: Machine) -> Found | Unavailable:
        """Return the readable channels that the table knows, or those of the driver that is named."""
        place = machine.root / "sys/class/hwmon"
        channels = [channel for channel in _channels(place) if self._is_wanted(channel)]
        domains: dict[str, Domain] = {}
        left_out: list[LeftOut] = []
        unreadable: list[str] = []
        for channel in channels:
            domain = self._domain(channel)
            if domain is None:
                if not self.scopes:
                    why = f'what it covers is not known: energy="hwmon:{channel.driver}" reads it'
                    left_out.append(LeftOut(f"{channel.driver} {channel.label or channel.path.name}", why))
            elif domain.name in domains:
                why = f"another channel is called {domain.name}, too"
                left_out.append(LeftOut(f"{channel.driver} {channel.path.name}", why, Omission.UNREADABLE))
            elif (problem := _unreadable(channel.path)) is not None:
                left_out.append(LeftOut(domain.name, problem, Omission.UNREADABLE, HWMON_GROUP))
                unreadable.append(problem)
            else:
                domains[domain.name] = domain
        if domains:
            return Found(tuple(domains.values()), tuple(left_out))
        if unreadable:
            return Unavailable(unreadable[0], (HWMON_GROUP,), notable=True)
        return Unavailable(f"{place} has no energy or power of {self._wanted_words()}")

    def open(self, machine: Machine, domains: tuple[Domain, ...]) -> ChannelReader:
        """Find the channels again, since devices change their numbers when a driver is loaded anew."""
        names = {domain.name for domain in domains}
        found = {}
        for channel in _channels(machine.root / "sys/class/hwmon"):
            domain = self._domain(channel) if self._is_wanted(channel) else None
            if domain is not None and domain.name in names and domain.name not in found:
                found[domain.name] = channel
        if len(found) < len(names):
            lost = ", ".join(sorted(names - set(found)))
            raise SensorError(f"{lost} is not in {machine.root}/sys/class/hwmon any more: load its driver again")
        return ChannelReader(found, domains)

    def _is_wanted(self, channel: Channel) -> bool:
        if self.argument:
            return channel.driver == self.argument
        return not self.drivers or channel.driver in self.drivers

    def _wanted_words(self) -> str:
        return self.argument or " or ".join(self.drivers) or "a device that tprof knows"

    def _domain(self, channel: Channel) -> Domain | None:
        known, match = _known(channel)
        if known is None or match is None:
            if not self.argument:
                return None
            label = re.sub(r"[^A-Za-z0-9_.-]+", "-", channel.label).strip("-") or f"channel-{channel.number}"
            name = f"{channel.driver}-{channel.device}-{label}"
            known = Known(channel.driver, "", name, channel.driver, "", "", f"{channel.label or name}, as wired", "")
        elif self.scopes and known.scope not in self.scopes:
            return None
        groups = match.groups() if match is not None else ()
        name = known.domain.format(*("", *groups), n=channel.device) if match is not None else known.domain
        package = int(name.rpartition("-")[2]) if known.scope == "package" and name[-1].isdigit() else None
        update = read_text(channel.path.with_name(f"power{channel.number}_average_interval"))
        accuracy = Accuracy(
            update_s=float(known.update_s) if known.update_s else _interval_s(update), resolution=MICRO,
            relative_error=float(known.relative_error) if known.relative_error else None, shows=channel.shows,
            covers=known.covers,
        )  # fmt: skip
        return Domain(
            name, known.scope, package, self.name, Quality.MEASURED, MICRO, accuracy=accuracy,
            within="gpu" if known.scope == "gpu-package" else None,
            details=(("driver", channel.driver), ("label", channel.label), ("source", known.source)),
        )  # fmt: skip


class HwmonProcessor(Hwmon):
    """Processors that neither powercap nor perf knows: Grace, X-Gene, POWER, older AMD."""

    name = "hwmon_processor"
    covers = "processors without RAPL, by their hwmon driver"
    subject = "processor"
    argument_words = None
    scopes = ("package",)


class AmdGpu(Hwmon):
    """GPUs of AMD."""

    name = "amd_gpu"
    covers = "AMD GPUs, by the kernel's amdgpu driver"
    subject = "gpu-amd"
    argument_words = None
    drivers = ("amdgpu",)


class IntelGpu(Hwmon):
    """Graphics cards of Intel."""

    name = "intel_gpu"
    covers = "Intel graphics cards, by the kernel's i915 and xe drivers"
    subject = "gpu-intel"
    argument_words = None
    drivers = ("i915", "xe")


class ChannelReader:
    """Reads the channels' files."""

    def __init__(self, channels: dict[str, Channel], domains: Sequence[Domain]) -> None:
        """Take the channels of the domains."""
        self._channels = channels
        updates_s = [domain.accuracy.update_s for domain in domains if domain.accuracy.update_s]
        self._least_s = max(min(updates_s, default=0.0) / 2, SHORTEST_PERIOD_S)
        self.period_s = self._least_s

    def read(self) -> list[Reading]:
        """Return a value of each; one that cannot be read is missing. Raises OSError if none can."""
        begin_s = time.perf_counter()
        readings, last = [], None
        for name, channel in self._channels.items():
            try:
                value = int(channel.path.read_text(encoding="ascii"))
            except (OSError, ValueError) as error:
                last = error
                readings.append(Reading(name, None))
                continue
            readings.append(Reading(name, value if channel.shows is Quantity.ENERGY else value * MICRO))
        took_s = time.perf_counter() - begin_s
        self.period_s = min(max(self._least_s, took_s / READ_SHARE), LONGEST_PERIOD_S)
        if isinstance(last, OSError) and all(reading.value is None for reading in readings):
            raise last
        return readings

    def close(self) -> None:
        """Nothing is open between two reads."""


@cache
def table() -> tuple[Known, ...]:
    """Return the lines of hwmon.csv."""
    lines = files("tprof.sensors").joinpath("hwmon.csv").read_text("utf-8").splitlines()
    rows = csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="|")
    return tuple(Known(**row) for row in rows)


def _known(channel: Channel) -> tuple[Known | None, re.Match[str] | None]:
    for known in table():
        if known.driver == channel.driver:
            match = re.fullmatch(known.label, channel.label)
            if match is not None:
                return known, match
    return None, None


def _channels(place: Path) -> Iterator[Channel]:
    """Return the channels of all devices, in the order of the devices' own places, which numbers do not change."""
    try:
        folders = sorted(place.iterdir(), key=lambda folder: str(folder.resolve().parent))
    except OSError:
        return
    counts: dict[str, int] = {}
    for folder in folders:
        driver = read_text(folder / "name")
        if driver is None:
            continue
        device = counts[driver] = counts.get(driver, -1) + 1
        found: dict[tuple[str, str], Path] = {}
        for path in sorted(folder.iterdir(), reverse=True):
            match = _CHANNEL.match(path.name)
            if match is not None:
                # The mean comes last in this order: unlike a value of the moment it misses nothing in between.
                found[match[1], match[2]] = path
        has_energy = any(kind == "energy" for kind, _ in found)
        for (kind, number), path in sorted(found.items()):
            if kind == "energy" or not has_energy:
                label = read_text(folder / f"{kind}{number}_label") or read_text(folder / f"{kind}{number}_oem_info")
                yield Channel(path, driver, label or "", device, Quantity(kind))


def _unreadable(path: Path) -> str | None:
    try:
        int(path.read_text(encoding="ascii"))
    except OSError as error:
        return f"cannot read {path}: {(error.strerror or str(error)).lower()}"
    except ValueError:
        return f"cannot read {path}: it holds no number"
    return None


def _interval_s(text: str | None) -> float | None:
    """Return the interval of a mean, which files give in milliseconds."""
    return int(text) / 1000 if text is not None and text.isdigit() and int(text) > 0 else None
