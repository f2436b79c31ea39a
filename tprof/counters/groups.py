"""The named counters, and the choice of those that this machine opens, with their parameters for perf_event_open.

A table of the processor's family says which event a counter is (`tprof/processors/tables`). For a processor in none of
them it is the kernel's generic event of linux/perf_event.h, whose meaning differs between processors. If the cores are
of several kinds, each kind has a PMU with events of its own. A thread's counter is the sum of what they count.

None of the hardware events has run on hardware here; each is opened, run and read before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof import _core
from tprof.errors import SensorError, UsageError
from tprof.processors import encode
from tprof.sensors.advice import explain_perf_error

from . import papi
from .pmus import read_pmus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tprof.processors import Core

    from .pmus import Pmu


HARDWARE, SOFTWARE = 0, 1
GENERIC = {"cycles": 0, "instructions": 1, "cache-references": 2, "cache-misses": 3, "stalled-cycles-frontend": 7}
"""Configs of the kernel's generic events, by the names that perf gives them."""
PMU_TYPE_SHIFT = 32
"""A generic event of one PMU among several has that PMU's type from this bit of its config on."""
KERNEL = "kernel"
"""The group of events that the kernel counts itself, on cores of all kinds."""


@dataclass(frozen=True)
class Counter:
    """A column that can be counted: its unit, and perf's type and config of the kernel's event, if it has one."""

    column: str
    unit: str
    type: int
    config: int | None


@dataclass(frozen=True)
class Event:
    """An event: its column, and its perf type and config."""

    column: str
    type: int
    config: int


INSTRUCTIONS = Counter("instructions", "instructions", HARDWARE, GENERIC["instructions"])
CYCLES = Counter("cycles", "cycles", HARDWARE, GENERIC["cycles"])
LLC_MISSES = Counter("llc_misses", "misses", HARDWARE, GENERIC["cache-misses"])
LLC_REFS = Counter("llc_refs", "references", HARDWARE, GENERIC["cache-references"])
L2_REFS = Counter("l2_refs", "references", HARDWARE, None)
STALLS_FRONTEND = Counter("stalls_frontend", "cycles", HARDWARE, GENERIC["stalled-cycles-frontend"])
PAGE_FAULTS = Counter("page_faults", "faults", SOFTWARE, 2)
CONTEXT_SWITCHES = Counter("context_switches", "switches", SOFTWARE, 3)
CPU_MIGRATIONS = Counter("cpu_migrations", "migrations", SOFTWARE, 4)

DEFAULT = (INSTRUCTIONS, CYCLES, LLC_MISSES)
SOFTWARE_EVENTS = (PAGE_FAULTS, CONTEXT_SWITCHES, CPU_MIGRATIONS)
BY_NAME = {counter.column: counter for counter in (*DEFAULT, LLC_REFS, L2_REFS, STALLS_FRONTEND, *SOFTWARE_EVENTS)}

if TYPE_CHECKING:
    Probe = Callable[[Event], tuple[int, int, int, int]]


@dataclass(frozen=True)
class Group:
    """Events that are counted together.

    Attributes
    ----------
    pmu : the PMU's name, or KERNEL.
    core, table : the kind of core and the table that lists it; None if none does.
    part : whether it counts on cores of one kind only, and others on the rest.
    events : of some or all columns.
    """

    pmu: str
    core: str | None
    table: str | None
    part: bool
    events: tuple[Event, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as the manifest has it."""
        events = {event.column: [event.type, event.config] for event in self.events}
        return {"pmu": self.pmu, "core": self.core, "table": self.table, "events": events}


@dataclass(frozen=True)
class CounterPlan:
    """The counters of a recording.

    Attributes
    ----------
    source : "perf" (hardware), "software", "papi" or "none".
    counters : one per column, in order.
    groups : the events that count them.
    papi : PAPI's names of the events, if it counts them.
    why : the reason for this source, as a clause.
    notes : sentences for the user.
    """

    source: str
    counters: tuple[Counter, ...]
    groups: tuple[Group, ...]
    why: str
    notes: tuple[str, ...] = ()
    papi: tuple[str, ...] = ()

    def recorded(self) -> tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...]:
        """Return what the core opens: of each group whether it is a part, and (column, type, config) of its events."""
        places = {counter.column: place for place, counter in enumerate(self.counters)}
        return tuple(
            (group.part, tuple((places[event.column], event.type, event.config) for event in group.events))
            for group in self.groups
        )


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
        "auto": instructions, cycles and LLC misses if the processor has them, else none, since no model uses the
        kernel's own events and they make a sample several times as long; "none"; names of counters, which are added to
        instructions and cycles; "papi": those of "auto" by PAPI; or "papi:" and names of PAPI's events.
    requested
        Further counters of "auto", if available, for a calibrated model.
    root
        Directory above /proc and /sys.
    probe
        Tries an event.

    Raises
    ------
    UsageError
        If a name is unknown.
    SensorError
        If a counter that was requested by name does not count here.
    """
    asked = counters if isinstance(counters, str) else ",".join(counters)
    if papi.is_asked(asked):
        return _by_papi(asked, requested)
    if counters == "none":
        return CounterPlan("none", (), (), "as asked")
    if counters == "auto":
        return _best(read_pmus(root), probe, requested)
    named, pmus = _named(asked.split(",") if asked else ()), read_pmus(root)
    for counter in named:
        problem = problem_of(counter, pmus, probe)
        if problem is not None:
            raise SensorError(
                f'the counter {counter.column} does not count here: {problem}; leave it out or use counters="auto"'
            )
    source = "perf" if any(counter.type != SOFTWARE for counter in named) else "software"
    return CounterPlan(source, named, _groups(named, pmus), "as asked", _unlisted(named, pmus))


def _named(names: Sequence[str]) -> tuple[Counter, ...]:
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise UsageError(f"counters must be auto, none or some of {', '.join(BY_NAME)}, got {unknown[0]!r}")
    asked = [BY_NAME[name] for name in names]
    if any(counter.type != SOFTWARE for counter in asked):
        asked = [*DEFAULT, *asked]
    return tuple(dict.fromkeys(asked))


def _by_papi(asked: str, requested: Sequence[str]) -> CounterPlan:
    named = papi.named_events(asked)
    columns = [*(counter.column for counter in DEFAULT), *requested]
    events = named or {column: papi.PRESETS[column] for column in columns if column in papi.PRESETS}
    papi.begin()
    problems = papi.count_briefly(events)
    needed = named or (INSTRUCTIONS.column, CYCLES.column)
    problem = next((problems[column] for column in needed if problems[column] is not None), None)
    if problem is not None:
        raise SensorError(f'{problem}; use counters="auto"')
    working = {column: name for column, name in events.items() if problems[column] is None}
    counters = tuple(BY_NAME.get(column, Counter(column, "events", HARDWARE, None)) for column in working)
    notes = tuple(f"no {column}: {problem}" for column, problem in problems.items() if problem is not None)
    return CounterPlan("papi", counters, (), "as asked", notes, tuple(working.values()))


def _best(pmus: Sequence[Pmu], probe: Probe, requested: Sequence[str]) -> CounterPlan:
    wanted = dict.fromkeys([*DEFAULT, *(BY_NAME[name] for name in requested if name in BY_NAME)])
    problems = [(counter, problem_of(counter, pmus, probe)) for counter in wanted]
    working = tuple(counter for counter, problem in problems if problem is None)
    if {INSTRUCTIONS, CYCLES} <= set(working):
        missing = [f"no {counter.column}: {problem}" for counter, problem in problems if problem is not None]
        notes = (*missing, *_unlisted(working, pmus))
        return CounterPlan("perf", working, _groups(working, pmus), "the processor's counters can be read", notes)
    return CounterPlan("none", (), (), f"no hardware counters: {problems[0][1]}")


def problem_of(counter: Counter, pmus: Sequence[Pmu], probe: Probe) -> str | None:
    """Return the reason why a counter does not count here, or None.

    It must run, since an event that opens may never be scheduled. Of the events of several kinds of cores those of one
    run: this thread is on a core of that kind.
    """
    events = events_of(counter, pmus)
    if isinstance(events, str):
        return events
    results = [probe(event) for event in events]
    error = next((result[0] for result in results if result[0] != 0), 0)
    if error != 0:
        return explain_perf_error(error)
    if all(running_ns == 0 for _, _, _, running_ns in results):
        return "it opens but never runs, since all hardware counters are taken (the NMI watchdog holds one)"
    return None


def events_of(counter: Counter, pmus: Sequence[Pmu]) -> tuple[Event, ...] | str:
    """Return the events of a counter, one for each PMU (one if there is none), or the reason why there are none."""
    if counter.type == SOFTWARE or not pmus:
        event = _generic(counter, None)
        return event if isinstance(event, str) else (event,)
    events: list[Event] = []
    for pmu in pmus:
        event = _listed(counter, pmu, several=len(pmus) > 1)
        if isinstance(event, str):
            return event
        events.append(event)
    return tuple(events)


def _generic(counter: Counter, pmu: Pmu | None) -> Event | str:
    if counter.config is None:
        return "no table of tprof lists this processor, and the kernel has no generic event for it"
    part = 0 if pmu is None else pmu.type << PMU_TYPE_SHIFT
    return Event(counter.column, counter.type, counter.config | part)


def _listed(counter: Counter, pmu: Pmu, *, several: bool) -> Event | str:
    """Return the event by the PMU's table; the kernel's own where the table says that it counts the same.

    The kernel knows which generic events a hypervisor has masked: their raw encodings would count nothing, as zero.
    """
    if pmu.core is None:
        return _generic(counter, pmu if several else None)
    line = pmu.core.lines.get(counter.column)
    if line is None:
        return f"{pmu.core.name} has no event for it (table {pmu.core.table})"
    if line.generic is not None and not several:
        return Event(counter.column, HARDWARE, GENERIC[line.generic])
    try:
        return Event(counter.column, pmu.type, encode(line.terms, pmu.format))
    except ValueError as error:
        return f"{pmu.name} does not take {line.event}: {error}"


def _groups(counters: Sequence[Counter], pmus: Sequence[Pmu]) -> tuple[Group, ...]:
    """Return one group; with PMUs of several kinds of core one for each, and one of the kernel's own events."""
    if len(pmus) < 2:
        name, core = (pmus[0].name, pmus[0].core) if pmus else (KERNEL, None)
        return (_group(name, core, _events(counters, pmus)),) if counters else ()
    hardware = [counter for counter in counters if counter.type != SOFTWARE]
    software = [counter for counter in counters if counter.type == SOFTWARE]
    events = [events_of(counter, pmus) for counter in hardware]
    parts = [
        _group(pmu.name, pmu.core, [one[place] for one in events if not isinstance(one, str)])
        for place, pmu in enumerate(pmus)
    ]
    own = [_group(KERNEL, None, _events(software, ()))] if software else []
    return (*(replace(part, part=True) for part in parts if part.events), *own)


def _events(counters: Sequence[Counter], pmus: Sequence[Pmu]) -> list[Event]:
    found = [events_of(counter, pmus) for counter in counters]
    return [events[0] for events in found if not isinstance(events, str)]


def _group(name: str, core: Core | None, events: Iterable[Event]) -> Group:
    if core is None:
        return Group(name, None, None, part=False, events=tuple(events))
    return Group(name, core.name, core.table, part=False, events=tuple(events))


def _unlisted(counters: Iterable[Counter], pmus: Sequence[Pmu]) -> tuple[str, ...]:
    """Return a sentence if events whose meaning differs are the kernel's."""
    differing = [
        counter.column for counter in counters if counter.type != SOFTWARE and counter not in (INSTRUCTIONS, CYCLES)
    ]
    names = dict.fromkeys(pmu.processor or pmu.name for pmu in pmus if pmu.core is None)
    if not (differing and names):
        return ()
    are = "is the kernel's generic event" if len(differing) == 1 else "are the kernel's generic events"
    listed = f"no table of tprof lists this processor ({', '.join(names)})"
    return (f"{listed}: {', '.join(differing)} {are}, and what that counts depends on the processor",)
