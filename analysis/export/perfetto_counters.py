"""The counters of a trace of Perfetto, and what a budget did as moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent, TrackEventDefaults
from tprof.analysis.names import shown

from .counters import CounterValues, counters_of
from .perfetto_packets import PacketFile, Sequence, unique_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from tprof.trace.decisions import Decision

    from .hosts import Host

CHUNK = 100_000


class Tracks(NamedTuple):
    """Where the counters of a host go."""

    file: PacketFile
    clock: int
    next_sequence: Callable[[], int]
    group: int
    shift_ns: int

    def counter(self, one: CounterValues) -> None:
        """Write a counter."""
        t_ns, values = one.t_ns, one.values
        track = self.describe(one.name, one.unit, one.description)
        begin_ns = int(t_ns[0]) + self.shift_ns
        defaults = TrackEventDefaults(track_uuid=track)
        sequence = Sequence(self.file, self.next_sequence(), begin_ns, self.clock, defaults=defaults)
        packet = sequence.packet()
        event = packet.track_event
        event.type = TrackEvent.TYPE_COUNTER
        for at in range(0, len(t_ns), CHUNK):
            part = slice(at, at + CHUNK)
            for at_ns, value in zip((t_ns[part] + self.shift_ns).tolist(), values[part].tolist(), strict=True):
                event.double_counter_value = value
                sequence.write(packet, at_ns)

    def describe(self, name: str, unit: str | None = None, description: str = "") -> int:
        """Describe a track below the group, a counter's if it has a unit; returns its number."""
        packet = TracePacket(trusted_packet_sequence_id=1)
        described = packet.track_descriptor
        described.uuid, described.parent_uuid = unique_id(self.group, name), self.group
        described.name, described.description = name, description
        if unit is not None:
            described.counter.unit_name = unit
        self.file.write(packet.SerializeToString())
        return int(described.uuid)


def write_counters(file: PacketFile, host: Host, clock: int, next_sequence: Callable[[], int]) -> None:
    """Write the counters of a host."""
    profile = host.profile
    packet = TracePacket(trusted_packet_sequence_id=1)
    described = packet.track_descriptor
    described.uuid = unique_id(profile.trace.path.name, host.name, "energy")
    title = f"energy ({profile.info['quality']})"
    described.name = shown(f"{host.name}: {title}" if host.name else title)
    file.write(packet.SerializeToString())
    tracks = Tracks(file, clock, next_sequence, described.uuid, host.shift_ns)
    for one in counters_of(profile):
        tracks.counter(one)
    moments = [one for one in profile.trace.decisions if one.kind == "acted"]
    if moments:
        _write_moments(tracks, moments)


def _write_moments(tracks: Tracks, moments: list[Decision]) -> None:
    defaults = TrackEventDefaults(track_uuid=tracks.describe("decisions"))
    begin_ns = moments[0].t_ns + tracks.shift_ns
    sequence = Sequence(tracks.file, tracks.next_sequence(), begin_ns, tracks.clock, defaults=defaults)
    packet = sequence.packet()
    packet.track_event.type = TrackEvent.TYPE_INSTANT
    for one in moments:
        packet.track_event.name = shown(f"{one.policy}: {one.why or one.kind}")
        sequence.write(packet, one.t_ns + tracks.shift_ns)
