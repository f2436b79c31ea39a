"""The named counters, with their parameters for perf_event_open, and the choice of those that this machine opens.

Generic events are the kernel's own mapping (linux/perf_event.h). `l2_refs` has none: it is Intel's L2_RQSTS.REFERENCES
(event 0x24, umask 0xff on client and server cores since Skylake) and is offered on Intel only. None of the
hardware events has run on hardware here; each is opened, run and read before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tprof import _core
from tprof.errors import SensorError, UsageError
from tprof.sensors.advice import explain_perf_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


HARDWARE, SOFTWARE, RAW = 0, 1, 4


@dataclass(frozen=True)
class Event:
    """A counter: its column, its unit, and its perf type and config."""

    column: str
    unit: str
    type: int
    config: int


INSTRUCTIONS = Event("instructions", "instructions", HARDWARE, 1)
CYCLES = Event("cycles", "cycles", HARDWARE, 0)
LLC_MISSES = Event("llc_misses", "misses", HARDWARE, 3)
LLC_REFS = Event("llc_refs", "references", HARDWARE, 2)
L2_REFS = Event("l2_refs", "references", RAW, 0xFF24)
STALLS_FRONTEND = Event("stalls_frontend", "cycles", HARDWARE, 7)
PAGE_FAULTS = Event("page_faults", "faults", SOFTWARE, 2)
CONTEXT_SWITCHES = Event("context_switches", "switches", SOFTWARE, 3)
CPU_MIGRATIONS = Event("cpu_migrations", "migrations", SOFTWARE, 4)

DEFAULT = (INSTRUCTIONS, CYCLES, LLC_MISSES)
SOFTWARE_EVENTS = (PAGE_FAULTS, CONTEXT_SWITCHES, CPU_MIGRATIONS)
BY_NAME = {event.column: event for event in (*DEFAULT, LLC_REFS, L2_REFS, STALLS_FRONTEND, *SOFTWARE_EVENTS)}

if TYPE_CHECKING:
    Probe = Callable[[Event], tuple[int, int, int, int]]


@dataclass(frozen=True)
class CounterPlan:
    """The counters of a recording.

    Attributes
    ----------
    source : "perf" (hardware), "software" or "none".
    events : one per column, in order.
    why : the reason for this source, as a clause.
    notes : sentences for the user.
    """

    source: str
    events: tuple[Event, ...]
    why: str
    notes: tuple[str, ...] = ()


def probe_event(event: Event) -> tuple[int, int, int, int]:
    """Open, run and read the event for this thread: errno, value, enabled_ns, running_ns."""
    kernel = event.type == SOFTWARE
    result = _core.perf_open_probe(type=event.type, config=event.config, pid=0, cpu=-1, exclude_kernel=not kernel)
    if kernel and result[0] != 0 and event.column == "page_faults":
        result = _core.perf_open_probe(type=event.type, config=event.config, pid=0, cpu=-1, exclude_kernel=True)
    return result


def choose(
    counters: str | Sequence[str] = "auto",
    *,
    requested: Sequence[str] = (),
    root: Path = Path("/"),
    probe: Probe = probe_event,
) -> CounterPlan:
    """Choose the counters of a recording.

    Parameters
    ----------
    counters
        "auto": instructions, cycles and LLC misses if the processor has them, else page faults, context
        switches and migrations; "none"; or names of counters, which are added to instructions and cycles.
    requested
        Further counters of "auto", if available, for a calibrated model.
    root
        Directory above /proc.
    probe
        Tries an event.

    Raises
    ------
    UsageError
        If a name is unknown.
    SensorError
        If a counter that was requested by name does not count here.
    """
    if counters == "none":
        return CounterPlan("none", (), "as asked")
    if counters == "auto":
        return _best(probe, requested)
    named = _named(counters.split(",") if isinstance(counters, str) else counters)
    if L2_REFS in named and not _is_intel(root):
        raise SensorError("the counter l2_refs is known for Intel processors only: leave it out here")
    for event in named:
        problem = _problem(event, probe)
        if problem is not None:
            raise SensorError(
                f'the counter {event.column} does not count here: {problem}; leave it out or use counters="auto"'
            )
    return CounterPlan("perf" if any(event.type != SOFTWARE for event in named) else "software", named, "as asked")


def _named(names: Sequence[str]) -> tuple[Event, ...]:
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise UsageError(f"counters must be auto, none or some of {', '.join(BY_NAME)}, got {unknown[0]!r}")
    asked = [BY_NAME[name] for name in names]
    if any(event.type != SOFTWARE for event in asked):
        asked = [*DEFAULT, *asked]
    return tuple(dict.fromkeys(asked))


def _best(probe: Probe, requested: Sequence[str]) -> CounterPlan:
    events = dict.fromkeys([*DEFAULT, *(BY_NAME[name] for name in requested if name in BY_NAME)])
    problems = [(event, _problem(event, probe)) for event in events]
    working = tuple(event for event, problem in problems if problem is None)
    if {event.column for event in working} >= {"instructions", "cycles"}:
        missing = [f"no {event.column}: {problem}" for event, problem in problems if problem is not None]
        return CounterPlan("perf", working, "the processor's counters can be read", tuple(missing))
    why = f"no hardware counters: {problems[0][1]}"
    software = tuple(event for event in SOFTWARE_EVENTS if _problem(event, probe) is None)
    if software:
        return CounterPlan("software", software, why)
    return CounterPlan("none", (), f"{why}; nor the kernel's software events: {_problem(SOFTWARE_EVENTS[0], probe)}")


def _problem(event: Event, probe: Probe) -> str | None:
    """Return the reason why an event does not count here, or None. It must run: an open one may never be scheduled."""
    error, _, _, running_ns = probe(event)
    if error != 0:
        return explain_perf_error(error)
    if running_ns == 0:
        return "it opens but never runs, since all hardware counters are taken (the NMI watchdog holds one)"
    return None


def _is_intel(root: Path) -> bool:
    for path in (root / "proc/cpuinfo", Path("/proc/cpuinfo")):
        try:
            return "GenuineIntel" in path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return False
