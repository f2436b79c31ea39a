"""No sensor: watts of the idle machine and of each busy core, given or assumed, times how busy it was.

The assumed watts are round numbers for a server core under load (a 2020s package of 16 cores and 120 W draws
about a quarter of that when idle). They give a sense of proportion; every figure made of them is called an
estimate.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tprof.errors import UsageError
from tprof.trace.bounds import MAX_WATTS

from .contract import Choice, Domain, Estimate, EstimateReader, Quality

if TYPE_CHECKING:
    from .topology import Cpu

ENVIRONMENT = "TPROF_WATTS"
ASSUMED_PER_CORE_W = 6.0
ASSUMED_IDLE_PER_CORE_W = 2.0


def parse_watts(text: str) -> tuple[float, float]:
    """Return idle watts and watts per busy core of "IDLE,PER_CORE". Raises UsageError."""
    try:
        idle, per_core = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(_wrong(text)) from None
    if not all(0 <= watts <= MAX_WATTS for watts in (idle, per_core)) or idle + per_core == 0:
        raise UsageError(_wrong(text))
    return idle, per_core


def _wrong(text: str) -> str:
    allowed = f"two numbers not below 0 such as 12,6, got {text!r} (at most {MAX_WATTS:g} each)"
    return f"watts must be IDLE,PER_CORE, {allowed}"


def estimate(topology: tuple[Cpu, ...], watts: tuple[float, float] | str | None) -> Choice:
    """Return one estimated domain a package, and a note that says what it is made of.

    Parameters
    ----------
    topology
        The machine's processors.
    watts
        Idle watts of the machine and watts per busy core; None: the environment's `TPROF_WATTS`, else assumed.
    """
    given = watts if watts is not None else os.environ.get(ENVIRONMENT)
    if given is None:
        idle_w, per_core_w = ASSUMED_IDLE_PER_CORE_W * len(topology), ASSUMED_PER_CORE_W
    elif isinstance(given, str):
        idle_w, per_core_w = parse_watts(given)
    else:
        idle_w, per_core_w = parse_watts(",".join(str(float(part)) for part in given))
    packages = sorted({cpu.package for cpu in topology})
    share_w = idle_w / len(packages)
    domains = tuple(
        _domain(package, tuple(cpu.cpu for cpu in topology if cpu.package == package), share_w, per_core_w)
        for package in packages
    )
    how = "given" if given is not None else "assumed; give yours with --watts IDLE,PER_CORE"
    note = f"energy is an ESTIMATE: {idle_w:g} W idle plus {per_core_w:g} W per busy core ({how})"
    return Choice(
        domains=domains,
        notes=(note,),
        static_power_w={domain.name: share_w for domain in domains},
        estimate=Estimate(idle_w, per_core_w, given is not None),
    )


def _domain(package: int, cpus: tuple[int, ...], idle_w: float, per_core_w: float) -> Domain:
    reader = EstimateReader(idle_w, per_core_w, cpus)
    name = f"package-{package}"
    return Domain(name, "package", package, "estimate", Quality.ESTIMATED, 1e-6, None, True, reader)  # noqa: FBT003
