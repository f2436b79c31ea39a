"""The powercap interface: zones below /sys/class/powercap, identified by name, never by number.

The total follows the kernel's documentation: package zones and DRAM; `core` and `uncore` are parts of a package,
`psys` includes it, `intel-rapl-mmio` mirrors `intel-rapl`, and on AMD every die mirrors its socket. Each domain
outside the total has a reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tprof.trace.plain_values import whole

from . import advice
from .contract import Accuracy, Domain, FileReader, Found, Quality, Sensor, Unavailable
from .topology import is_amd, is_x86, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from .contract import Machine

PACKAGE = re.compile(r"package-(\d+)(?:-die-(\d+))?$")
PSYS = re.compile(r"psys(-\d+)?$")
"""Of the first package that has it, and of others: the kernel gives these its number."""
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
    left_out: list[tuple[str, str]] = []
    control = "intel-rapl" if any(zone.folder.name.startswith("intel-rapl:") for zone in zones) else "intel-rapl-mmio"
    mirrored = [zone for zone in zones if not zone.folder.name.startswith(f"{control}:")]
    left_out += [(zone.folder.name, f"it mirrors {control}'s {zone.name}") for zone in mirrored]
    domains: list[Domain] = []
    unreadable: list[tuple[str, str]] = []
    for zone in (zone for zone in zones if zone not in mirrored):
        domain = _domain(zone, search, quality)
        problem = _unreadable(zone.folder / "energy_uj")
        if domain is None:
            left_out.append((zone.folder.name, f"its name {zone.name!r} is not one that tprof knows"))
        elif any(domain.name == known.name for known in domains):
            left_out.append((zone.folder.name, f"another zone is called {domain.name}"))
        elif problem is not None:
            unreadable.append((domain.name, problem))
        else:
            domains.append(domain)
    if not any(domain.counted for domain in domains):
        reason = unreadable[0][1] if unreadable else f"{search} has no package zone"
        return Unavailable(reason, (advice.POWERCAP_GROUP,) if unreadable else ())
    left_out += unreadable
    kept = _without_mirrored_dies(domains, is_amd(root), left_out)
    left_out += [(domain.name, _why_not_counted(domain)) for domain in kept if not domain.counted]
    return Found(tuple(kept), tuple(left_out))


def _zones(search: Path) -> list[Zone]:
    try:
        folders = sorted(folder for folder in search.iterdir() if folder.name.startswith("intel-rapl"))
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
        return Unavailable(why, (advice.CONTAINER,))
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


def _domain(zone: Zone, search: Path, quality: Quality) -> Domain | None:
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
        scope, name, counted = zone.name, f"{zone.name}-{suffix}", zone.name == "dram"
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


def _without_mirrored_dies(domains: list[Domain], amd: bool, left_out: list[tuple[str, str]]) -> list[Domain]:  # noqa: FBT001
    """Keep one zone per socket on AMD, where each die has the socket's counter."""
    kept: list[Domain] = []
    seen: set[int | None] = set()
    for domain in domains:
        if amd and domain.scope == "package":
            if domain.package in seen:
                left_out.append((domain.name, advice.mirrored_die(domain.package)))
                continue
            seen.add(domain.package)
        kept.append(replace(domain, scope="one-core") if amd and domain.scope == "core" else domain)
    return kept


def _why_not_counted(domain: Domain) -> str:
    reasons = {
        "core": "it is a part of its package",
        "uncore": "it is a part of its package",
        "one-core": "on this processor it is the energy of one core only, and a part of its package",
        "psys": "it stands around the packages and would count them twice",
    }
    return reasons[domain.scope]
