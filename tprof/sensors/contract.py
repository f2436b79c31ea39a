"""The interface between sensors and recorder: domains, how to read each, and the reasons for those left out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tprof.trace.kinds import Quality

if TYPE_CHECKING:
    from .advice import Remedy

__all__ = ["Choice", "Domain", "Estimate", "EstimateReader", "FileReader", "PerfReader", "Quality"]


@dataclass(frozen=True)
class FileReader:
    """A file with a count (powercap's energy_uj).

    Attributes
    ----------
    path : the file.
    search : directory in which to search for its zone by name if the path is missing.
    zone, subzone : content of the zone's `name` file, and of its part's.
    """

    path: str
    search: str
    zone: str
    subzone: str | None = None


@dataclass(frozen=True)
class PerfReader:
    """An event of the kernel's power PMU, open on one processor of the package."""

    type: int
    config: int
    cpu: int


@dataclass(frozen=True)
class EstimateReader:
    """Watts of the idle package and of each busy core, times how long these processors were busy."""

    idle_w: float
    per_core_w: float
    cpus: tuple[int, ...]


@dataclass(frozen=True)
class Domain:
    """The domain of one energy counter.

    Attributes
    ----------
    name : package-0, core-0, dram-0, psys.
    scope : package, core, uncore, dram, psys.
    package : physical package, None for the whole machine.
    source, quality : its interface, and the origin of its figures.
    unit_j : joules per count.
    modulus : the count wraps to 0 at this value; None: not known.
    counted : whether it belongs in a total.
    reader : how it is read.
    """

    name: str
    scope: str
    package: int | None
    source: str
    quality: Quality
    unit_j: float
    modulus: int | None
    counted: bool
    reader: FileReader | PerfReader | EstimateReader


@dataclass(frozen=True)
class Estimate:
    """The watts behind an estimate.

    Attributes
    ----------
    idle_w, per_core_w : of the idle machine, and of each busy core.
    given : whether the user gave them; otherwise they are assumed.
    idle_factor, per_core_factor : error factors of assumed watts, 95 %.
    processor : description of the assumed processor.
    """

    idle_w: float
    per_core_w: float
    given: bool
    idle_factor: float | None = None
    per_core_factor: float | None = None
    processor: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the manifest's entry."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Choice:
    """The sensors of a recording."""

    domains: tuple[Domain, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    static_power_w: dict[str, float] = field(default_factory=dict)
    estimate: Estimate | None = None
    energy_filtering: str = "unknown"


@dataclass(frozen=True)
class Unavailable:
    """The reason why an interface is not available, and the remedies."""

    why: str
    remedies: tuple[Remedy, ...] = ()
