"""Traces of Perfetto: slices of thread tracks, counters, power rails and batteries.

Packets of a sequence share names that stand in it once, a clock of their own and defaults. Times become CLOCK_MONOTONIC
where the trace says how its clocks relate. What the trace processor would derive from the kernel's events is no part of
this.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tprof.errors import TraceError

from .perfetto_clocks import Clocks
from .perfetto_packets import FOREIGN, packets
from .timeline import UNKNOWN, Counter, Slice, ThreadSlices, Timeline

if TYPE_CHECKING:
    from .source import Source

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
CLEARED = 1
THREAD_TIME = 1
FACTS = "tprof."
OWN_CATEGORY = "tprof"
DEEPEST_TRACK = 64


@dataclass
class _Sequence:
    """What the packets of a sequence share."""

    names: dict[str, dict[int, str]] = field(default_factory=dict)
    clock: int = 0
    track: int = 0
    extra: tuple[int, ...] = ()
    totals: dict[int, int] = field(default_factory=dict)


class _Open(NamedTuple):
    begin_ns: int
    name: str
    cpu_ns: int
    args: dict[str, Any]
    is_own: bool


@dataclass
class _Track:
    """A track as its descriptor has it."""

    name: str = ""
    parent: int = 0
    thread: tuple[int, int] | None = None
    unit: str = ""
    counts: bool = False
    is_thread_time: bool = False
    is_incremental: bool = False
    multiplier: int = 1
    total: float = 0.0


class PerfettoReader:
    """Collects the packets of a file."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.timeline = Timeline()
        self._clocks = Clocks()
        self._sequences: dict[int, _Sequence] = {}
        self._tracks: dict[int, _Track] = {}
        self._open: dict[int, list[_Open]] = {}
        self._rails: dict[int, str] = {}
        self._thread_names: dict[tuple[int, int], str] = {}
        self._others: dict[int, ThreadSlices] = {}
        self._marks: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._last_ns = 0

    def read(self, source: Source) -> Timeline:
        """Read a whole file. Raises TraceError with a clause, UsageError without the package."""
        known = False
        for packet in packets(source):
            known = known or bool(packet.ListFields())
            self._packet(packet)
        if not known:
            raise TraceError(FOREIGN)
        self._close()
        self.timeline.wall_ns = self._clocks.wall_ns
        for key, name in self._thread_names.items():
            if key in self.timeline.threads:
                self.timeline.threads[key].name = name
        for key, marks in self._marks.items():
            if key in self.timeline.threads:
                self.timeline.threads[key].marks = sorted(marks)
        return self.timeline

    def _packet(self, packet: Any) -> None:
        number = packet.trusted_packet_sequence_id
        sequence = self._state(number, packet)
        # The time of every packet counts: that of the next one may be relative to it.
        at_ns = None
        if packet.HasField("timestamp"):
            at_ns = self._clocks.time_ns(number, packet.timestamp_clock_id or sequence.clock, packet.timestamp)
        if packet.HasField("track_descriptor"):
            self._learn_track(packet.track_descriptor)
        elif packet.HasField("process_tree"):
            for thread in packet.process_tree.threads:
                self._thread_names.setdefault((thread.tgid, thread.tid), thread.name)
        elif packet.HasField("chrome_events"):
            self._learn_facts(packet.chrome_events.metadata)
        elif at_ns is not None:
            self._timed(sequence, packet, at_ns)

    def _timed(self, sequence: _Sequence, packet: Any, at_ns: int) -> None:
        """Take in what happened at a time."""
        if packet.HasField("track_event"):
            self._event(sequence, packet.track_event, at_ns)
        elif packet.HasField("power_rails"):
            self._power_rails(packet.trusted_packet_sequence_id, packet.power_rails, at_ns)
        elif packet.HasField("battery"):
            self._battery(packet.battery, at_ns)

    def _state(self, number: int, packet: Any) -> _Sequence:
        """Return what packets of a sequence share, with what this one adds."""
        sequence = self._sequences.setdefault(number, _Sequence())
        if packet.sequence_flags & CLEARED:
            sequence = self._sequences[number] = _Sequence()
        if packet.HasField("clock_snapshot"):
            self._clocks.learn(number, packet.clock_snapshot)
        if packet.HasField("trace_packet_defaults"):
            defaults = packet.trace_packet_defaults
            sequence.clock = defaults.timestamp_clock_id
            sequence.track = defaults.track_event_defaults.track_uuid
            sequence.extra = tuple(defaults.track_event_defaults.extra_counter_track_uuids)
        if packet.HasField("interned_data"):
            self._learn_names(sequence, packet.interned_data)
        return sequence

    @staticmethod
    def _learn_names(sequence: _Sequence, data: Any) -> None:
        for kind in ("event_names", "event_categories", "debug_annotation_names"):
            known = sequence.names.setdefault(kind, {})
            for entry in getattr(data, kind):
                known[entry.iid] = entry.name

    def _learn_track(self, descriptor: Any) -> None:
        track = self._tracks.setdefault(descriptor.uuid, _Track())
        track.name = descriptor.name or descriptor.static_name or track.name
        track.parent = descriptor.parent_uuid or track.parent
        if descriptor.HasField("thread"):
            thread = descriptor.thread
            track.thread = (thread.pid, thread.tid)
            if thread.thread_name or track.name:
                self._thread_names[track.thread] = thread.thread_name or track.name
        if descriptor.HasField("counter"):
            counter = descriptor.counter
            units = {1: "ns", 3: "bytes"}
            track.unit = counter.unit_name or units.get(counter.unit, "")
            track.counts, track.is_incremental = True, counter.is_incremental
            track.is_thread_time = counter.type == THREAD_TIME
            track.multiplier = counter.unit_multiplier or 1

    def _learn_facts(self, metadata: Any) -> None:
        for entry in metadata:
            if entry.name.startswith(FACTS) and len(entry.string_value) < 1 << 20:
                try:
                    value = json.loads(entry.string_value)
                except (ValueError, RecursionError):
                    value = entry.string_value
                self.timeline.facts[entry.name.removeprefix(FACTS)] = value

    def _event(self, sequence: _Sequence, event: Any, at_ns: int) -> None:
        uuid = event.track_uuid if event.HasField("track_uuid") else sequence.track
        self._last_ns = max(self._last_ns, at_ns)
        cpu_ns = self._extra(sequence, event)
        if event.type == BEGIN:
            args = self._args(sequence, event)
            name = event.name or sequence.names.get("event_names", {}).get(event.name_iid) or "(unnamed)"
            is_own = OWN_CATEGORY in event.categories
            self._open.setdefault(uuid, []).append(_Open(at_ns, name[:1000], cpu_ns, args, is_own))
        elif event.type == END:
            stack = self._open.get(uuid)
            if stack:
                self._ended(uuid, stack.pop(), at_ns, cpu_ns)
            else:
                self.timeline.leave_out("ends without a begin")
        elif event.type == COUNTER:
            self._count(sequence, uuid, event, at_ns)
        elif event.HasField("legacy_event") and event.legacy_event.phase == ord("X"):
            name = event.name or sequence.names.get("event_names", {}).get(event.name_iid) or "(unnamed)"
            end_ns = at_ns + event.legacy_event.duration_us * 1000
            self._ended(uuid, _Open(at_ns, name[:1000], UNKNOWN, {}, is_own=False), end_ns, UNKNOWN)
        elif event.type != INSTANT:
            self.timeline.leave_out("events of unknown kind")

    def _extra(self, sequence: _Sequence, event: Any) -> int:
        """Return the thread's CPU time of an event; -1 without one."""
        tracks = tuple(event.extra_counter_track_uuids) or sequence.extra
        found = UNKNOWN
        for uuid, value in zip(tracks, event.extra_counter_values, strict=False):
            track = self._tracks.get(uuid)
            if track is None:
                continue
            total = value
            if track.is_incremental:
                total = sequence.totals[uuid] = sequence.totals.get(uuid, 0) + value
            if track.is_thread_time and 0 <= total * track.multiplier < 1 << 62:
                found = total * track.multiplier
        return found

    def _args(self, sequence: _Sequence, event: Any) -> dict[str, Any]:
        """Return those debug annotations that an export of tprof writes and a session can hold."""
        names = sequence.names.get("debug_annotation_names", {})
        found: dict[str, Any] = {}
        for one in event.debug_annotations:
            name = one.name or names.get(one.name_iid)
            if name == "instance":
                found[name] = one.uint_value
            elif name == "cpu":
                found[name] = one.int_value
            elif name == "failed":
                found[name] = one.bool_value
        return found

    def _thread_of(self, uuid: int) -> tuple[int, int] | None:
        for _ in range(DEEPEST_TRACK):
            track = self._tracks.get(uuid)
            if track is None:
                return None
            if track.thread is not None:
                return track.thread
            uuid = track.parent
        return None

    def _ended(self, uuid: int, one: _Open, end_ns: int, end_cpu_ns: int) -> None:
        if one.is_own:
            return
        track = self._tracks.get(uuid)
        key = track.thread if track is not None else None
        if key is not None:
            thread = self.timeline.threads.setdefault(key, ThreadSlices(*key))
        else:
            thread = self._others.setdefault(uuid, ThreadSlices(0, 0, self._tracks.get(uuid, _Track()).name))
        has_cpu = min(one.cpu_ns, end_cpu_ns) >= 0
        self.timeline.add(
            thread,
            Slice(
                one.begin_ns, max(end_ns, one.begin_ns), one.name, instance=one.args.get("instance", 0),
                cpu=one.args.get("cpu", UNKNOWN), failed=one.args.get("failed", False),
                begin_cpu_ns=one.cpu_ns if has_cpu else UNKNOWN, end_cpu_ns=end_cpu_ns if has_cpu else UNKNOWN,
            ),
        )  # fmt: skip

    def _count(self, sequence: _Sequence, uuid: int, event: Any, at_ns: int) -> None:
        track = self._tracks.setdefault(uuid, _Track())
        if track.is_thread_time:
            key = self._thread_of(uuid)
            total = event.counter_value
            if track.is_incremental:
                total = sequence.totals[uuid] = sequence.totals.get(uuid, 0) + total
            if key is not None and 0 <= total * track.multiplier < 1 << 62:
                self._marks.setdefault(key, []).append((at_ns, total * track.multiplier))
            return
        value = event.double_counter_value if event.HasField("double_counter_value") else event.counter_value
        if track.is_incremental:
            track.total += value
            value = track.total
        counter = self.timeline.counters.get(uuid)
        if counter is None:
            counter = self.timeline.counters[uuid] = Counter(track.name or f"counter {uuid}", track.unit)
        self.timeline.point(counter, at_ns, float(value) * track.multiplier)

    def _power_rails(self, number: int, rails: Any, at_ns: int) -> None:
        for one in rails.rail_descriptor:
            self._rails[one.index] = one.rail_name
        for one in rails.energy_data:
            name = f"power.{self._rails.get(one.index, one.index)}"
            counter = self.timeline.counters.setdefault(("rail", one.index), Counter(name, "uWs"))
            time_ns = self._clocks.time_ns(number, 0, one.timestamp_ms * 1_000_000) if one.timestamp_ms else at_ns
            self.timeline.point(counter, at_ns if time_ns is None else time_ns, float(one.energy))

    def _battery(self, battery: Any, at_ns: int) -> None:
        name = f"batt.{battery.name}." if battery.name else "batt."
        if battery.HasField("energy_counter_uwh"):
            made = Counter(f"{name}energy", "uWh", falls=True)
            counter = self.timeline.counters.setdefault(("battery energy", battery.name), made)
            self.timeline.point(counter, at_ns, float(battery.energy_counter_uwh))
        elif battery.HasField("current_ua") and battery.HasField("voltage_uv"):
            # Its sign differs between systems.
            counter = self.timeline.counters.setdefault(("battery power", battery.name), Counter(f"{name}power", "W"))
            watts = abs(battery.current_ua * battery.voltage_uv) * 1e-12
            self.timeline.point(counter, at_ns, watts)

    def _close(self) -> None:
        """End what has no end, and take other tracks for threads where there are no threads."""
        for uuid, stack in self._open.items():
            for one in stack:
                if not one.is_own:
                    self.timeline.leave_out("ends that are missing (the last event stands for them)")
                self._ended(uuid, one, max(self._last_ns, one.begin_ns), UNKNOWN)
        if not self.timeline.threads:
            self.timeline.threads.update(self._others)
        elif self._others:
            count = sum(len(one.begin_ns) for one in self._others.values())
            self.timeline.left_out["slices of tracks that are no threads"] = count
