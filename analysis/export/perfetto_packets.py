"""A file of Perfetto's packets, written as they come: framed, deflated by the block, with names written once.

The packets are those of the `perfetto` package's generated classes. `TracePacket.compressed_packets` holds a deflated
block of packets, which Perfetto's page and its trace processor read as if they stood in the file themselves.
"""

from __future__ import annotations

import zlib
from hashlib import blake2b
from typing import IO, Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

BLOCK_BYTES = 1 << 19
LEVEL = 6
PACKET = b"\x0a"
"""The field of a trace that holds a packet."""
NEEDS_STATE = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
STATE_CLEARED = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
SEQUENCE_CLOCK = 64
"""The first of the clocks that each sequence of packets defines for itself."""


class PacketFile:
    """Packets in a file, deflated by the block."""

    def __init__(self, file: IO[bytes]) -> None:
        """Write to a file."""
        self._file, self._block = file, bytearray()

    def write(self, packet: bytes) -> None:
        """Add a serialized packet. Raises OSError."""
        self._block += PACKET + varint(len(packet)) + packet
        if len(self._block) >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is not written yet. Raises OSError."""
        packet = TracePacket(compressed_packets=zlib.compress(self._block, LEVEL)).SerializeToString()
        self._file.write(PACKET + varint(len(packet)) + packet)
        self._block.clear()


def varint(number: int) -> bytes:
    """Return the length of a packet as it stands before it."""
    if number < 1 << 7:
        return bytes((number,))
    out = bytearray()
    while number >= 1 << 7:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def unique_id(*words: object) -> int:
    """Return a number of 64 bits for a track or a flow, the same for the same words, so that traces can be joined."""
    text = "\0".join(map(str, words)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little") | 1


class Sequence:
    """A sequence of packets with times of its own clock, each relative to the one before, and names written once."""

    def __init__(self, file: PacketFile, number: int, start_ns: int, clock: int, *, defaults: Any) -> None:
        """Begin at a time of one of the trace's clocks; `defaults` are those of the sequence's track events."""
        self._file, self.number = file, number
        self._last_ns = start_ns
        self._names: dict[str, dict[str, int]] = {}
        first = TracePacket(trusted_packet_sequence_id=number, sequence_flags=STATE_CLEARED)
        first.clock_snapshot.clocks.add(clock_id=clock, timestamp=start_ns)
        first.clock_snapshot.clocks.add(clock_id=SEQUENCE_CLOCK, timestamp=0, is_incremental=True)
        first.trace_packet_defaults.timestamp_clock_id = SEQUENCE_CLOCK
        first.trace_packet_defaults.track_event_defaults.CopyFrom(defaults)
        file.write(first.SerializeToString())

    def packet(self) -> Any:
        """Return a packet of this sequence, to be filled and written any number of times."""
        return TracePacket(trusted_packet_sequence_id=self.number, sequence_flags=NEEDS_STATE)

    def number_of(self, kind: str, name: str) -> int:
        """Return the number of a name in a field of `InternedData`, written at its first use."""
        known = self._names.setdefault(kind, {})
        number = known.get(name)
        if number is None:
            number = known[name] = len(known) + 1
            packet = self.packet()
            packet.timestamp = 0
            entry = getattr(packet.interned_data, kind).add(iid=number)
            if kind == "debug_annotation_string_values":
                entry.str = name.encode("utf-8", "replace")
            else:
                entry.name = name
            self._file.write(packet.SerializeToString())
        return number

    def write(self, packet: Any, t_ns: int) -> None:
        """Write a packet with a time that is not before the last one."""
        packet.timestamp = t_ns - self._last_ns
        self._last_ns = t_ns
        self._file.write(packet.SerializeToString())
