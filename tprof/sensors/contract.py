"""The interface between sensors and recorder: what a sensor is, its domains, and how each is read.

A sensor is one class in one file, and one line in `registry.py` or an entry point of another package. It is asked what
there is to read (`Sensor.find`), by `tprof doctor` too, and for a recording it is opened (`Sensor.open`) for the
domains that were chosen. docs/sensors.md describes this with an example; tests/support/sensor_conformance.py tests it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from tprof.errors import UsageError
from tprof.trace.kinds import Omission, Quality

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .advice import Remedy

__all__ = [
    "Accuracy",
    "Choice",
    "Domain",
    "Estimate",
    "EstimateReader",
    "FileReader",
    "Found",
    "LeftOut",
    "Machine",
    "Omission",
    "PerfReader",
    "Quality",
    "Quantity",
    "Reader",
    "Reading",
    "Sensor",
    "Unavailable",
    "Users",
]

MICRO = 1e-6
"""Joules of a count of the recorder where it integrates power."""


class Quantity(StrEnum):
    """What a sensor shows: a count of energy, or power, which the recorder integrates over time."""

    ENERGY = "energy"
    POWER = "power"


@dataclass(frozen=True)
class Accuracy:
    """The error class of a domain's figures: what its maker or measurements say, as data.

    Attributes
    ----------
    update_s : seconds from one update of the value to the next; None: unknown.
    resolution : least step of the value, in joules of a count of energy, in watts of power; None: unknown.
    relative_error : part of the value by which all figures may be off, 95 %; None: not stated.
    shows : energy, or power, whose joules are the recorder's integral between readings.
    covers : the hardware whose energy this is, in a few words, if the name does not tell.
    """

    update_s: float | None = None
    resolution: float | None = None
    relative_error: float | None = None
    shows: Quantity = Quantity.ENERGY
    covers: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return its fields as the manifest and the files of readings hold them."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class FileReader:
    """A file with a count (powercap's energy_uj), which the native thread reads.

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
    """An event of the kernel's power PMU, open on one processor of the package, which the native thread reads."""

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
    """The domain of one energy counter, or of one power meter.

    Attributes
    ----------
    name : package-0, core-0, dram-0, psys, gpu-0, wall; the name of a scope alone (`dram`) covers all of this scope.
    scope : core, uncore, package, psys, dram, gpu, machine, wall, or another word for a part of the machine.
    package : physical package, None for more than one or none.
    source : name of the sensor.
    quality : origin of its figures.
    unit_j : joules of one count, as its reader returns it; power is watts, and the recorder counts µJ.
    modulus : the count wraps to 0 at this value; None: it does not wrap, or not at a known value.
    counted : whether it may belong in a total; `nesting.total` decides, so that nothing is counted twice.
    reader : how the native thread reads it; None: the sensor's own `Reader` does, on the Python thread.
    within : name or scope of the domain that includes it, if it is not `nesting.AROUND[scope]`.
    accuracy : its error class.
    details : further names of the hardware and their values, such as a GPU's uuid, model and pci, for the manifest.
    """

    name: str
    scope: str
    package: int | None
    source: str
    quality: Quality
    unit_j: float = MICRO
    modulus: int | None = None
    counted: bool = True
    reader: FileReader | PerfReader | EstimateReader | None = None
    within: str | None = None
    accuracy: Accuracy = Accuracy()
    details: tuple[tuple[str, str], ...] = ()


class Reading(NamedTuple):
    """One value of a domain.

    Attributes
    ----------
    domain : its name.
    value : a count (whole, not below 0) of a domain with energy, watts (not below 0) of one with power; None: the read
        failed. A failed read is missing, never 0.
    t_ns : when the value was read or valid, CLOCK_MONOTONIC; None: now. Times of a domain increase.
    reopened : whether the count may have been reset since the last reading, so that no joules follow from the two.
    """

    domain: str
    value: float | None
    t_ns: int | None = None
    reopened: bool = False


class Users(NamedTuple):
    """The processes that used a device such as a GPU, which no clock of the processors shows.

    Attributes
    ----------
    domain : the device's.
    since_ns, t_ns : from when to when, CLOCK_MONOTONIC.
    processes : number of each process and the part of that time in which it used the device; None: it had it open, and
        how much it used is not known. One that is not named did not use it.
    """

    domain: str
    since_ns: int
    t_ns: int
    processes: tuple[tuple[int, float | None], ...]


class Reader(Protocol):
    """An open sensor. All its methods are called on the recording's one Python sensor thread.

    Attributes
    ----------
    period_s : seconds from one `read` to the next; a `read` may change it.
    """

    period_s: float

    def read(self) -> Iterable[Reading | Users]:
        """Return the values that are new: one of each domain, or any number from a stream. It does not wait.

        A `SensorError` or `OSError` means that nothing could be read: all domains are missing. After a second one in a
        row the recorder closes the reader and opens the sensor again.
        """

    def close(self) -> None:
        """Release everything; called once."""


@dataclass(frozen=True)
class Machine:
    """The machine on which sensors are searched.

    Attributes
    ----------
    root : directory above /proc, /sys and /dev (`TPROF_SYSROOT`); `/` for this machine itself.
    architecture : as uname names it; None: this one's.
    """

    root: Path
    architecture: str | None = None


class LeftOut(NamedTuple):
    """A domain or sensor that is not read, or not in the total.

    Attributes
    ----------
    name : of it.
    why : the reason, as a clause.
    kind : whether the total lacks its joules.
    remedy : the command that grants it, of several the one that exposes least; None: no command does.
    estimated : whether an estimate stands for its joules, so that the total does not lack them.
    """

    name: str
    why: str
    kind: Omission = Omission.BY_DESIGN
    remedy: Remedy | None = None
    estimated: bool = False


@dataclass(frozen=True)
class Found:
    """What a sensor can read here.

    Attributes
    ----------
    domains : at least one.
    left_out : domains that it does not read, or that are not in the total.
    """

    domains: tuple[Domain, ...]
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class Unavailable:
    """The reason why a sensor is not available, and the remedies.

    Attributes
    ----------
    why : a clause: what is missing, where.
    remedies : commands that grant it, the one that exposes least first.
    notable : whether there is something to measure, so that a recording with `energy="auto"` says why it does not.
    """

    why: str
    remedies: tuple[Remedy, ...] = ()
    notable: bool = False


class Sensor(ABC):
    """A kind of sensor; an object of it is one that was asked for, with its argument.

    Attributes
    ----------
    name : in `energy="NAME"` or `energy="NAME:argument"`: lower-case letters, digits and `_`.
    covers : what it measures, in a few words, for `tprof doctor`.
    subject : what it measures, in one word such as `processor` or `gpu`; of the sensors of one subject `energy="auto"`
        takes the first that is available. None: only by its name.
    argument_words : what stands after the colon, in a few words; None: no argument.
    extra : extra of `tprof-energy` that brings what it needs; None: nothing.
    """

    name: ClassVar[str]
    covers: ClassVar[str]
    subject: ClassVar[str | None] = None
    argument_words: ClassVar[str | None] = None
    extra: ClassVar[str | None] = None

    def __init__(self, argument: str = "") -> None:
        """Keep the argument. Raises UsageError if it is none that the sensor takes; looks at nothing yet."""
        if argument and self.argument_words is None:
            raise UsageError(f'energy="{self.name}" takes no argument, got {argument!r}')
        self.argument = argument

    @abstractmethod
    def find(self, machine: Machine) -> Found | Unavailable:
        """Return what can be read, or why nothing can; called on the thread that starts a recording, and by `doctor`.

        It leaves nothing open and changes nothing. All paths are below `machine.root`.
        """

    def open(self, machine: Machine, domains: tuple[Domain, ...]) -> Reader:
        """Open the sensor for those of its domains that have no `reader`; called on the Python sensor thread.

        Raises SensorError with one sentence: what, where, what to do.
        """
        raise NotImplementedError(f"{self.name} has no domain for {machine.root} that Python reads: {domains}")


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
    """The sensors of a recording.

    Attributes
    ----------
    domains : of all sensors.
    left_out : what is not read, or not in the total.
    notes : sentences for the user.
    static_power_w : by domain, where it is known.
    estimate : the watts behind estimated domains.
    energy_filtering : whether the processor adds noise to its counters.
    sensors : those that the Python thread reads, by the name of their domains' source.
    """

    domains: tuple[Domain, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    static_power_w: dict[str, float] = field(default_factory=dict)
    estimate: Estimate | None = None
    energy_filtering: str = "unknown"
    sensors: dict[str, Sensor] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the manifest's entries on what is left out and what is estimated."""
        return {
            "left_out": [
                {
                    "name": one.name,
                    "why": one.why,
                    "kind": str(one.kind),
                    "command": None if one.remedy is None else one.remedy.command,
                    "estimated": one.estimated,
                }
                for one in self.left_out
            ],
            "estimate": None if self.estimate is None else self.estimate.as_json(),
        }
