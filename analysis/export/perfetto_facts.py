"""What a trace of Perfetto says of itself: the quality of its joules, sensor, model, warnings.

It stands among the metadata of the trace, and as a slice over the whole recording, which people see and can click on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent
from tprof.analysis.names import shown

from .facts import facts_of
from .perfetto_packets import unique_id

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

    from .perfetto_packets import PacketFile

PREFIX = "tprof."


def write_facts(file: PacketFile, profile: Profile, span_ns: tuple[int, int], place: tuple[int, int]) -> None:
    """Write them; `place` is the clock of the times and the number of a sequence."""
    facts, (clock, number) = facts_of(profile), place
    packet = TracePacket(trusted_packet_sequence_id=number)
    for name, value in facts.items():
        text = value if isinstance(value, str) else json.dumps(value)
        packet.chrome_events.metadata.add(name=PREFIX + name, string_value=text)
    file.write(packet.SerializeToString())
    packet = TracePacket(trusted_packet_sequence_id=number)
    track = packet.track_descriptor.uuid = unique_id(profile.trace.path.name, "recording")
    packet.track_descriptor.name = "recording"
    file.write(packet.SerializeToString())
    for kind, at_ns in zip((TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END), span_ns, strict=True):
        packet = TracePacket(trusted_packet_sequence_id=number, timestamp=at_ns, timestamp_clock_id=clock)
        event = packet.track_event
        event.type, event.track_uuid = kind, track
        if kind == TrackEvent.TYPE_SLICE_BEGIN:
            event.name = shown(f"{profile.trace.path.name} ({facts['quality']})")
            event.categories.append("tprof")
            for name, value in facts.items():
                _annotate(event.debug_annotations.add(name=name), value)
        file.write(packet.SerializeToString())


def _annotate(annotation: Any, value: Any) -> None:
    """Set the value of a debug annotation."""
    if isinstance(value, bool):
        annotation.bool_value = value
    elif isinstance(value, int):
        annotation.int_value = value
    elif isinstance(value, float):
        annotation.double_value = value
    elif isinstance(value, dict):
        for name, one in value.items():
            _annotate(annotation.dict_entries.add(name=str(name)), one)
    elif isinstance(value, list):
        for one in value:
            _annotate(annotation.array_values.add(), one)
    else:
        annotation.string_value = shown(str(value))
