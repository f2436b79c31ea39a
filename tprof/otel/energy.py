"""Estimates the energy of spans as they end: their CPU time at this process's latest joules per second of CPU time.

A profile shares the joules of each sensor reading, and is what to trust. These figures are there at once, for the
backends that get the spans. A thread of tprof's own reads the joules, so spans only multiply.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tprof import _core
from tprof.errors import TprofError
from tprof.session.own_thread import OwnThread
from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Span

    from tprof.live.usage import ProcessMeter

MOST_NAMES = 10_000
"""Names of spans that are kept apart; a service that puts identifiers into names would fill the memory."""
ENERGY, CPU, QUALITY = "tprof.energy_j", "tprof.cpu_s", "tprof.energy_quality"
FIRST_S, PERIOD_S = 0.15, 1.0
LAG_S = 0.04
"""Longer than an estimate's joules lag behind."""
LEAST_CPU_S = 0.1
"""With less CPU time since the last reading of joules, a rate would follow its noise."""


class Rate:
    """Joules of this process per second of its CPU time, in the last second or so.

    Attributes
    ----------
    now : the rate and its quality; None while it is not known
    """

    def __init__(self) -> None:
        """Begin without a recording."""
        self.now: tuple[float, str] | None = None
        self._generation = 0
        self._thread: OwnThread | None = None

    def follow(self) -> None:
        """Start the thread that reads the joules of this recording, unless it runs; cheap then."""
        generation = _core.generation()
        if generation in (0, self._generation):
            return
        self.pause()
        self.now, self._generation = None, generation
        this_process.pause_around_forks(self)
        self.resume()

    def pause(self) -> None:
        """End the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()

    def resume(self) -> None:
        """Start it again."""
        if self._generation and self._generation == _core.generation():
            with suppress(RuntimeError):  # no thread can be started: there are no estimates
                self._thread = OwnThread(self._run, "tprof-spans")

    def forget(self) -> None:
        """Begin anew in a forked child."""
        self.now, self._generation, self._thread = None, 0, None

    def _run(self, thread: OwnThread) -> None:
        with suppress(TprofError, OSError):  # the session has ended and is gone
            self._read_until_end(thread, self._generation)

    def _read_until_end(self, thread: OwnThread, generation: int) -> None:
        member = this_process.membership
        if member is None or thread.is_over(FIRST_S):
            return
        from tprof.live.usage import ProcessMeter  # noqa: PLC0415 - NumPy, not in a thread of the program

        meter = member.meter()
        window = _Window(ProcessMeter(meter.session, meter.static_w))
        quality = "estimate" if meter.quality != "measured" else "share of measured"
        while not thread.is_over(FIRST_S if self.now is None else PERIOD_S) and _core.generation() == generation:
            window.read_clock()
            if thread.is_over(LAG_S):
                return
            rate = window.read()
            if rate is not None:
                self.now = rate, quality


class _Window:
    """The time between two readings of a process's joules, with its CPU time."""

    def __init__(self, process: ProcessMeter) -> None:
        self._process = process
        self._before: tuple[int, float] | None = None  # until when joules are known, and the CPU time then
        self._clock = [(_core.now_ns(), _core.used_ns())]

    def read_clock(self) -> None:
        """Read the CPU time, shortly before the joules: these are known up to about now."""
        self._clock.append((_core.now_ns(), _core.used_ns()))

    def read(self) -> float | None:
        """Return the joules per second of CPU time since the last window; None if that was too little."""
        self.read_clock()
        self._process.read()
        until_ns = self._process.until_ns
        if until_ns < self._clock[0][0]:
            return None
        used_ns = self._used_ns(until_ns)
        if self._before is None:
            self._before = until_ns, used_ns
            return None
        before_ns, used_before_ns = self._before
        used_s = (used_ns - used_before_ns) * 1e-9
        if used_s < LEAST_CPU_S:
            return None
        energy_j = self._process.since(before_ns)
        self._before = until_ns, used_ns
        while len(self._clock) > 2 and self._clock[1][0] <= until_ns:
            del self._clock[0]
        return energy_j / used_s

    def _used_ns(self, t_ns: int) -> float:
        """Return the CPU time at a time, on a line between the readings around it."""
        for (begin_ns, begin_used_ns), (end_ns, end_used_ns) in pairwise(self._clock):
            if t_ns <= end_ns:
                return begin_used_ns + (end_used_ns - begin_used_ns) * (t_ns - begin_ns) / (end_ns - begin_ns)
        return self._clock[-1][1]


@dataclass(frozen=True, slots=True)
class LatestSpan:
    """The span of a name that ended last and was sampled: its identity in hexadecimal, energy and end in UNIX time."""

    trace_id: str
    span_id: str
    energy_j: float
    time_s: float


class SpanEnergy:
    """The estimates of this process: of each span that ends, and the latest span of each name."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._rate = Rate()
        self._latest: dict[str, LatestSpan] = {}
        this_process.reset_in_child(self._forget)

    def _forget(self) -> None:
        self._rate.forget()
        self._latest = {}

    def begin(self) -> None:
        """Follow the joules of the recording; called as spans start."""
        self._rate.follow()

    def end(self, span: Span, instance: _core.Span, *, attributes: bool) -> None:
        """Estimate the energy of a span that is about to end, and attach it if asked."""
        if self._rate.now is None:
            return
        rate, quality = self._rate.now
        cpu_s = instance.cpu_s()
        energy_j = rate * cpu_s
        self._keep(span, energy_j)
        if attributes and _has_room(span):
            span.set_attributes({ENERGY: energy_j, CPU: cpu_s, QUALITY: quality})

    def latest(self, name: str) -> LatestSpan | None:
        """Return the latest span of a name; None without one."""
        return self._latest.get(name)

    def _keep(self, span: Span, energy_j: float) -> None:
        context = span.get_span_context()
        known = span.name in self._latest or len(self._latest) < MOST_NAMES
        if context is not None and context.trace_flags.sampled and known:
            found = LatestSpan(f"{context.trace_id:032x}", f"{context.span_id:016x}", energy_j, time.time())
            self._latest[span.name] = found


def _has_room(span: Span) -> bool:
    """Whether attributes can be added without dropping one of the program's."""
    most: int | None = getattr(getattr(span, "_attributes", None), "maxlen", None)
    return most is None or len(span.attributes or ()) + 3 <= most


span_energy = SpanEnergy()
"""That of this process."""
