"""The named counters, with their parameters for perf_event_open.

Generic events are the kernel's own mapping (linux/perf_event.h). `l2_refs` has none: it is Intel's L2_RQSTS.REFERENCES
(event 0x24, umask 0xff on client and server cores since Skylake) and is offered on Intel only. None of the
hardware events has run on hardware here; each is opened, run and read before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

HARDWARE, SOFTWARE, CACHE, RAW = 0, 1, 3, 4
LLC_READ_ACCESS = 2


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
