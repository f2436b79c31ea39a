"""Chooses the sensors of a recording: those that are asked for, or the best of each subject, with the reasons."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tprof.errors import SensorError, UsageError

from .contract import Choice, Domain, Found, LeftOut, Machine, Omission, Unavailable
from .estimate import estimate
from .nesting import total
from .registry import all_classes, create, search
from .standstill import without_still

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .contract import Sensor

SYSROOT = "TPROF_SYSROOT"
PROCESSOR = "processor"
_OPTION = re.compile(r"[A-Za-z0-9_.-]+=")
_OF_PROCESSORS = {"package", "psys", "machine", "wall"}
"""Scopes with the processors in them: with one of these measured, nothing has to be estimated."""


def sysroot() -> Path:
    """Return the directory above /proc and /sys: the environment's `TPROF_SYSROOT`, else the root."""
    return Path(os.environ.get(SYSROOT) or "/")


def choose(
    energy: str | Sequence[str] = "auto",
    *,
    root: Path,
    watts: tuple[float, float] | str | None = None,
    machine: str | None = None,
) -> Choice:
    """Choose the sensors of a recording.

    Parameters
    ----------
    energy
        "auto", "none", "estimate", the name of a sensor, `NAME:argument`, or several of them: a sequence, or a text
        with commas, in which a part `KEY=VALUE` belongs to the sensor before it.
    root
        Directory above /proc and /sys.
    watts
        For the estimate: idle watts and watts per busy core.
    machine
        The architecture, as uname names it; by default this one's.

    Raises
    ------
    UsageError
        If there is no sensor of that name.
    SensorError
        If a sensor that is asked for is not available.
    """
    asked = split(energy)
    if asked == ["none"]:
        return Choice((), notes=("no energy is recorded, as asked",))
    if "none" in asked:
        raise UsageError(f'energy="none" stands alone, got {energy!r}')
    here = Machine(root, machine)
    if asked == ["auto"] and watts is not None:
        asked = ["estimate"]
    named = {one: _choice(one, here, watts) for one in asked if one != "auto"}
    if "auto" in asked:
        named["auto"] = _best(here, watts, beside=tuple(named.values()))
    return _joined([named[one] for one in asked])


def split(energy: str | Sequence[str]) -> list[str]:
    """Return the sensors that are asked for, one by one. Raises UsageError."""
    if not isinstance(energy, str):
        asked = list(energy)
    else:
        asked = []
        for part in energy.split(","):
            if asked and _OPTION.match(part):
                asked[-1] += f",{part}"
            else:
                asked.append(part)
    if not asked or not all(isinstance(one, str) and one for one in asked):
        raise UsageError(f'energy must be sensors such as "auto" or "perf,nvml", got {energy!r}')
    if len(set(asked)) < len(asked):
        raise UsageError(f"energy names each sensor once, got {energy!r}")
    return asked


def _choice(asked: str, machine: Machine, watts: tuple[float, float] | str | None) -> Choice:
    if asked == "estimate":
        return estimate(machine.root, watts)
    sensor = create(asked)
    found = search(sensor, machine)
    if isinstance(found, Unavailable):
        raise SensorError(
            f'{sensor.name} gives no energy: {found.why}; run `tprof doctor`, or record with energy="estimate"'
        )
    return _found(sensor, found)


def _found(sensor: Sensor, found: Found) -> Choice:
    by_python = any(domain.reader is None for domain in found.domains)
    return Choice(found.domains, found.left_out, sensors={sensor.name: sensor} if by_python else {})


def _best(machine: Machine, watts: tuple[float, float] | str | None, beside: tuple[Choice, ...]) -> Choice:
    """Return the first sensor of each subject that is available and counts.

    The estimate too, if neither these nor those `beside`, which are asked for by name, have the processors in them.
    """
    classes, failed = all_classes()
    chosen: list[Choice] = []
    missing: list[tuple[type[Sensor], Unavailable]] = []
    subjects: set[str] = set()
    for kind in classes:
        if kind.subject is None or kind.subject in subjects:
            continue
        found = search(kind(), machine)
        if isinstance(found, Found):
            found = without_still(found)
        if isinstance(found, Found):
            subjects.add(kind.subject)
            chosen.append(_found(kind(), found))
        else:
            missing.append((kind, found))
    estimated = not any(domain.scope in _OF_PROCESSORS for choice in (*chosen, *beside) for domain in choice.domains)
    if estimated:
        chosen.insert(0, estimate(machine.root, watts))
    else:
        subjects.add(PROCESSOR)
    left_out = [LeftOut(name, why, Omission.ABSENT) for name, why in failed]
    left_out += [
        _missing(kind, found, is_measured=kind.subject in subjects, estimated=estimated and kind.subject == PROCESSOR)
        for kind, found in missing
        if kind.subject == PROCESSOR or found.notable
    ]
    return _joined([Choice((), tuple(left_out)), *chosen])


def _missing(kind: type[Sensor], found: Unavailable, *, is_measured: bool, estimated: bool) -> LeftOut:
    """Return a sensor that is not available; `is_measured`: another one has its joules."""
    if not found.notable:
        return LeftOut(kind.name, found.why, Omission.ABSENT)
    omission = Omission.BY_DESIGN if is_measured else Omission.UNREADABLE
    return LeftOut(kind.name, found.why, omission, next(iter(found.remedies), None), estimated)


def _joined(choices: Sequence[Choice]) -> Choice:
    """Join what several sensors read: each domain has a name of its own, and nothing is counted twice."""
    domains: list[Domain] = []
    left_out = [one for choice in choices for one in choice.left_out]
    for choice in choices:
        taken = {domain.name: domain.source for domain in domains}
        for domain in choice.domains:
            if domain.name not in taken:
                domains.append(domain)
                continue
            name = f"{domain.name}-{domain.source}"
            left_out.append(LeftOut(name, f"{taken[domain.name]}'s {domain.name} covers the same"))
            domains.append(replace(domain, name=name, counted=False))
    counted, reasons = total(domains)
    return Choice(
        domains=counted,
        left_out=(*left_out, *(LeftOut(name, why) for name, why in reasons)),
        notes=tuple(note for choice in choices for note in choice.notes),
        static_power_w={name: watts for choice in choices for name, watts in choice.static_power_w.items()},
        estimate=next((choice.estimate for choice in choices if choice.estimate is not None), None),
        sensors={name: sensor for choice in choices for name, sensor in choice.sensors.items()},
    )
