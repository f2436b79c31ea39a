"""The powercap interface: zones below /sys/class/powercap, identified by name, never by number.

The total follows the kernel's documentation: package zones and DRAM; `core` and `uncore` are parts of a package,
`psys` includes it, a zone of `intel-rapl-mmio` mirrors that of `intel-rapl` with the same domain, and on AMD every die
mirrors its socket. Each domain outside the total has a reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.trace.plain_values import whole

from . import advice
from .contract import Accuracy, Domain, FileReader, Found, LeftOut, Omission, Quality, Sensor, Unavailable
from .topology import is_amd, is_x86, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from .contract import Machine

PACKAGE = re.compile(r"package-(\d+)(?:-die-(\d+))?$")
PSYS = re.compile(r"psys(-\d+)?$")
"""Of the first package that has it, and of others: the kernel gives these its number."""
MIRROR = "intel-rapl-mmio"
UNIT_J = 1e-6
UPDATE_S = 0.001
"""Of RAPL's registers."""
SIMULATED = "simulated"
"""A file that marks the tree of a simulation, whose readings are never labelled as measured."""


@dataclass(frozen=True)
class Zone:
    """A zone of sysfs: its folder, its `name`, and that of its parent zone."""

    folder: Path
    name: str
    parent: str | None

    @property
    def control(self) -> str:
        """Its control type, `intel-rapl` or `MIRROR`."""
        return self.folder.name.partition(":")[0]


class Powercap(Sensor):
    """The zones of RAPL."""

    name = "powercap"
    covers = "packages and DRAM of x86 processors, by the kernel's powercap files"
    subject = "processor"

    def find(self, machine: Machine) -> Found | Unavailable:
        """Return the readable domains and those left out with the reason, or the reason why there are none."""
        return _find(machine.root, machine.architecture)


def _find(root: Path, machine: str | None) -> Found | Unavailable:
    search = root / "sys/class/powercap"
    zones = _zones(search)
    if not zones:
        return _why_nothing(search, machine)
    quality = Quality.SIMULATED if (root / SIMULATED).exists() else Quality.MEASURED
    amd, known, left_out = is_amd(root), list[tuple[Zone, Domain]](), list[LeftOut]()
    for zone in zones:
        domain = _domain(zone, search, quality, amd=amd)
        if domain is None:
            left_out.append(LeftOut(zone.folder.name, f"its name {zone.name!r} is not one that tprof knows"))
        else:
            known.append((zone, domain))
    if (twice := _twice(known)) is not None:
        return Unavailable(f"{search} has {twice}: whether they show the same joules is not known", notable=True)
    return _readable(known, left_out, search, amd=amd)


def _readable(
    known: list[tuple[Zone, Domain]], left_out: list[LeftOut], search: Path, *, amd: bool
) -> Found | Unavailable:
    """Read one zone of each counter, whichever of those that show it can be read."""
    read: dict[str, Domain] = {}
    failed: dict[str, tuple[Domain, str]] = {}
    for zone, domain in known:
        counter = f"package-{domain.package}" if amd and domain.scope == "package" else domain.name
        if counter in read:
            left_out.append(_repeated(zone, domain))
        elif (problem := _unreadable(zone.folder / "energy_uj")) is None:
            read[counter] = domain
        else:
            failed.setdefault(counter, (domain, problem))
    unread = [_unread(*failed[counter]) for counter in failed if counter not in read]
    if not any(domain.counted for domain in read.values()):
        why = unread[0].why if unread else f"{search} has no package zone"
        return Unavailable(why, (advice.POWERCAP_GROUP,) if unread else (), notable=bool(unread))
    left_out += [*unread, *(LeftOut(one.name, _why_not_counted(one)) for one in read.values() if not one.counted)]
    return Found(tuple(read.values()), tuple(left_out))


def _twice(known: list[tuple[Zone, Domain]]) -> str | None:
    """Return two zones that count and have one name, in words."""
    first: dict[tuple[str, str], str] = {}
    for zone, domain in known:
        other = first.setdefault((zone.control, domain.name), zone.folder.name)
        if domain.counted and other != zone.folder.name:
            return f"two zones of {domain.name} ({other} and {zone.folder.name})"
    return None


def _repeated(zone: Zone, domain: Domain) -> LeftOut:
    """Return why a zone is left out whose counter is read already."""
    if zone.control == MIRROR:
        return LeftOut(zone.folder.name, f"it mirrors intel-rapl's {zone.name}")
    if domain.scope == "package":
        return LeftOut(domain.name, advice.mirrored_die(domain.package))
    return LeftOut(zone.folder.name, f"another zone is called {domain.name}")


def _unread(domain: Domain, problem: str) -> LeftOut:
    if domain.counted:
        return LeftOut(domain.name, problem, Omission.UNREADABLE, advice.POWERCAP_GROUP)
    return LeftOut(domain.name, f"{_why_not_counted(domain)}; {problem}")


def _zones(search: Path) -> list[Zone]:
    try:
        found = [folder for folder in search.iterdir() if folder.name.startswith("intel-rapl")]
        folders = sorted(found, key=lambda folder: (folder.name.startswith(MIRROR), folder.name))
    except OSError:
        return []
    names = {folder.name: name for folder in folders if (name := read_text(folder / "name")) is not None}
    return [
        Zone(folder, names[folder.name], names.get(folder.name.rpartition(":")[0]))
        for folder in folders
        if folder.name in names and ":" in folder.name
    ]


def _why_nothing(search: Path, machine: str | None) -> Unavailable:
    if not is_x86(machine):
        return Unavailable(f"{search} has no RAPL: only x86 processors count their energy there")
    if search.is_dir() and any(search.iterdir()):
        why = f"{search} holds links that lead nowhere: this container hides the host's powercap"
        return Unavailable(why, (advice.CONTAINER,), notable=True)
    if search.is_dir():
        why = f"{search} is empty: the processor has no RAPL, or its driver (intel_rapl_msr) is not loaded"
        return Unavailable(why, (advice.POWERCAP_DRIVER,))
    return Unavailable(f"{search} does not exist: a virtual machine, or a kernel without powercap")


def _unreadable(path: Path) -> str | None:
    try:
        path.read_text(encoding="ascii")
    except OSError as error:
        return f"cannot read {path}: {(error.strerror or str(error)).lower()}"
    except ValueError:
        return f"cannot read {path}: it is not text"
    return None


def _domain(zone: Zone, search: Path, quality: Quality, *, amd: bool) -> Domain | None:
    around = PACKAGE.match(zone.parent or "")
    own = PACKAGE.match(zone.name)
    match = own or around
    package = int(match.group(1)) if match else None
    if own:
        scope, name, counted = "package", zone.name, True
    elif PSYS.match(zone.name):
        scope, name, counted = "psys", zone.name, False
    elif around and zone.name in {"core", "uncore", "dram"}:
        suffix = (zone.parent or "").removeprefix("package-")
        scope = "one-core" if amd and zone.name == "core" else zone.name
        name, counted = f"{zone.name}-{suffix}", zone.name == "dram"
    else:
        return None
    top, part = (zone.name, None) if zone.parent is None else (zone.parent, zone.name)
    reader = FileReader(str(zone.folder / "energy_uj"), str(search), top, part)
    accuracy = Accuracy(update_s=UPDATE_S, resolution=UNIT_J)
    modulus = _modulus(zone.folder)
    return Domain(name, scope, package, "powercap", quality, UNIT_J, modulus, counted, reader, accuracy=accuracy)


def _modulus(folder: Path) -> int | None:
    """Return the largest count plus one; None if unknown, so that wraps are not corrected."""
    largest = whole(read_text(folder / "max_energy_range_uj") or "", (1 << 63) - 1)
    return largest + 1 if largest else None


def _why_not_counted(domain: Domain) -> str:
    reasons = {
        "core": "it is a part of its package",
        "uncore": "it is a part of its package",
        "one-core": "on this processor it is the energy of one core only, and a part of its package",
        "psys": "it stands around the packages and would count them twice",
    }
    return reasons[domain.scope]
