"""The packets of a Perfetto trace, one after the other, unpacked where a block of them is deflated."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from tprof.errors import TraceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .source import Source

MOST_BYTES = 256 << 20
LENGTH_DELIMITED, FIXED_64, FIXED_32, VARINT = 2, 1, 5, 0
PACKET_FIELD = 1


def packet_class() -> Any:
    """Return the generated class of packets. Raises UsageError if the package is not installed."""
    try:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket  # noqa: PLC0415 - optional
    except ImportError as error:
        raise UsageError("traces of Perfetto need its classes: run pip install 'tprof-energy[perfetto]'") from error
    return TracePacket


class _Bytes:
    """Bytes that are taken in pieces."""

    def __init__(self, source: Source) -> None:
        self._source, self._block, self._at = source, b"", 0

    def take(self, count: int) -> bytes:
        """Return so many bytes, fewer at the end."""
        while len(self._block) - self._at < count:
            more = self._source.read(max(1 << 20, count))
            if not more:
                break
            self._block, self._at = self._block[self._at :] + more, 0
        taken = self._block[self._at : self._at + count]
        self._at += count
        return taken

    def varint(self) -> int | None:
        """Return a number; None at the end. Raises TraceError."""
        number = shift = 0
        while True:
            byte = self.take(1)
            if not byte:
                if shift:
                    raise TraceError(CUT)
                return None
            number |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:
                return number
            shift += 7
            if shift > 63:
                raise TraceError(FOREIGN)


CUT = "it is cut off in the middle of a packet"
FOREIGN = "it is no trace of Perfetto"


def packets(source: Source) -> Iterator[Any]:
    """Yield the packets of a file. Raises TraceError with a clause, UsageError without the package."""
    made = packet_class()
    for block in _fields(_Bytes(source)):
        yield from _unpacked(made, block)


def _unpacked(made: Any, block: bytes) -> Iterator[Any]:
    packet = _parsed(made, block)
    if not packet.HasField("compressed_packets"):
        yield packet
        return
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(packet.compressed_packets, MOST_BYTES)
    except zlib.error as error:
        raise TraceError(f"a block of its packets cannot be unpacked ({error})") from error
    if inflater.unconsumed_tail:
        raise TraceError("a block of its packets is larger than 256 MB")
    if not inflater.eof:
        raise TraceError(CUT)
    for inner in _fields(_Bytes(_Memory(content))):  # type: ignore[arg-type]
        yield _parsed(made, inner)


class _Memory:
    """A block in memory as a source."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, count: int) -> bytes:
        """Return all of it, then nothing."""
        del count
        content, self._content = self._content, b""
        return content


def _parsed(made: Any, block: bytes) -> Any:
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - optional

    try:
        return made.FromString(block)
    except DecodeError:
        raise TraceError("one of its packets is damaged") from None


def _fields(content: _Bytes) -> Iterator[bytes]:
    """Yield the packets of a trace, going over what else it holds."""
    while (tag := content.varint()) is not None:
        kind, field = tag & 7, tag >> 3
        if kind == LENGTH_DELIMITED:
            length = content.varint()
            if length is None:
                raise TraceError(CUT)
            if length > MOST_BYTES:
                raise TraceError("one of its packets is larger than 256 MB" if field == PACKET_FIELD else FOREIGN)
            block = content.take(length)
            if len(block) < length:
                raise TraceError(CUT)
            if field == PACKET_FIELD:
                yield block
        elif kind == VARINT:
            content.varint()
        elif kind in {FIXED_64, FIXED_32}:
            content.take(8 if kind == FIXED_64 else 4)
        else:
            raise TraceError(FOREIGN)
