"""No sensor: watts of the idle machine and of each busy core, given or assumed, times how busy it was.

Given watts are taken as exact. Assumed ones have error factors, which every interval based on them includes. All
figures from either are labelled as estimates.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tprof.errors import UsageError
from tprof.trace.bounds import MAX_WATTS
from tprof.trace.estimate import assumed_words, watts_error
from tprof.trace.plain_values import number, shown

from .assumed import assume
from .contract import Choice, Domain, Estimate, EstimateReader, Quality
from .topology import read_topology

if TYPE_CHECKING:
    from pathlib import Path

    from .topology import Cpu

ENVIRONMENT = "TPROF_WATTS"


def parse_watts(text: str) -> tuple[float, float]:
    """Return idle watts and watts per busy core of "IDLE,PER_CORE". Raises UsageError."""
    try:
        idle, per_core = (number(part.strip()) for part in text.split(","))
    except ValueError:
        raise UsageError(_wrong(text)) from None
    if not all(0 <= watts <= MAX_WATTS for watts in (idle, per_core)) or idle + per_core == 0:
        raise UsageError(_wrong(text))
    return idle, per_core


def _wrong(given: object) -> str:
    allowed = f"two numbers not below 0 such as 12,6, got {shown(given)} (at most {MAX_WATTS:g} each)"
    return f"watts must be IDLE,PER_CORE, {allowed}"


def estimate(root: Path, watts: tuple[float, float] | str | None) -> Choice:
    """Return one estimated domain per package, and a note on its inputs.

    Parameters
    ----------
    root
        Directory above /proc and /sys.
    watts
        Idle watts of the machine and watts per busy core; None: the environment's `TPROF_WATTS`, else assumed.
    """
    topology = read_topology(root)
    made_of = _made_of(root, topology, watts if watts is not None else os.environ.get(ENVIRONMENT))
    packages = sorted({cpu.package for cpu in topology})
    share_w = made_of.idle_w / len(packages)
    domains = tuple(
        _domain(package, tuple(cpu.cpu for cpu in topology if cpu.package == package), share_w, made_of.per_core_w)
        for package in packages
    )
    return Choice(
        domains=domains,
        notes=(_note(made_of),),
        static_power_w={domain.name: share_w for domain in domains},
        estimate=made_of,
    )


def _made_of(root: Path, topology: tuple[Cpu, ...], given: tuple[float, float] | str | None) -> Estimate:
    if given is None:
        assumed = assume(root, topology)
        return Estimate(
            assumed.idle_w, assumed.per_core_w, given=False, idle_factor=assumed.idle_factor,
            per_core_factor=assumed.per_core_factor, processor=assumed.processor,
        )  # fmt: skip
    try:
        text = given if isinstance(given, str) else ",".join(str(float(part)) for part in given)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(_wrong(given)) from None
    return Estimate(*parse_watts(text), given=True)


def _note(made_of: Estimate) -> str:
    text = f"energy is an ESTIMATE: {made_of.idle_w:g} W idle plus {made_of.per_core_w:g} W per busy core"
    if made_of.given:
        return f"{text} (given)"
    return f"{text}, {assumed_words(watts_error({'estimate': made_of.as_json()}), made_of.processor)}"


def _domain(package: int, cpus: tuple[int, ...], idle_w: float, per_core_w: float) -> Domain:
    reader = EstimateReader(idle_w, per_core_w, cpus)
    name = f"package-{package}"
    return Domain(name, "package", package, "estimate", Quality.ESTIMATED, 1e-6, None, True, reader)  # noqa: FBT003
