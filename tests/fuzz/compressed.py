"""A compressed session and changes of it: of its files, and of what a checksum would keep a search from reaching."""

from __future__ import annotations

import functools
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np
from patches import patched
from support import earlier_blocks, traces

import tprof
from tprof.trace import layout, packed
from tprof.trace.compress import compress

RECORDS, RECORDS_A_BLOCK = 1200, 500
STREAM = "threads/00000000.samples"
FILES, SQUEEZED, PLAIN = range(3)


@functools.cache
def compressed_session() -> dict[str, bytes]:
    """Return the files of a compressed session by name; its first thread has three blocks, one of an earlier format."""
    t_ns = np.arange(RECORDS) * 10**6
    instance = np.where(np.arange(RECORDS) % 2, 0, np.arange(RECORDS) // 2 + 1)
    task = np.where(instance == 0, -1, instance % 2)
    counts = {"cpu_ns": t_ns // 2, "instructions": t_ns // 2 * 3 + np.arange(RECORDS) ** 2 % 1000}
    thread = {"t_ns": t_ns, "instance": instance, "task": task} | counts
    with tempfile.TemporaryDirectory() as place:
        path = traces.write(Path(place) / "s.tprof", threads=[thread])
        rows = tprof.load(path).threads[0].read().view(np.uint8).reshape(RECORDS, -1)
        compress(path)
        blocks = [
            (packed.encode if at else earlier_blocks.encode)(rows[at : at + RECORDS_A_BLOCK], at)
            for at in range(0, RECORDS, RECORDS_A_BLOCK)
        ]
        packed.packed_path(path / STREAM).write_bytes(packed.file_header(rows.shape[1]) + b"".join(blocks))
        return traces.contents(path)


def changed(data: bytes) -> dict[str, bytes]:
    """Return the session with changes: of its files, or of one block whose length and checksum are made right.

    The first two bytes say which of the three, and in which block; the others are as `patched` takes them.
    """
    files = compressed_session()
    way, number = data[0] % 3 if data else FILES, data[1] if len(data) > 1 else 0
    if way == FILES:
        return patched(data[2:], files)
    name = STREAM + packed.ENDING
    return {**files, name: _with_block(files[name], number, way, data[2:])}


def _with_block(whole: bytes, number: int, way: int, data: bytes) -> bytes:
    blocks = list(_blocks(whole))
    start, stop = blocks[number % len(blocks)]
    header = whole[start : start + layout.BLOCK_HEADER.itemsize]
    is_zlib = np.frombuffer(header, layout.BLOCK_HEADER)["codec"][0] == layout.CODEC_ZLIB
    bits = zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS
    body = whole[start + layout.BLOCK_HEADER.itemsize : stop]
    parts = patched(data, {"body": zlib.decompress(body, bits) if way == PLAIN else body, "header": header})
    body = zlib.compress(parts["body"], wbits=bits) if way == PLAIN else parts["body"]
    header = bytearray(parts["header"].ljust(layout.BLOCK_HEADER.itemsize, b"\0"))  # a change may cut it
    fields = np.frombuffer(header, layout.BLOCK_HEADER, 1)
    fields["length"], fields["checksum"] = len(body), zlib.crc32(body)
    return whole[:start] + bytes(header) + body + whole[stop:]


def _blocks(whole: bytes) -> list[tuple[int, int]]:
    """Return where each block begins, with its header, and ends."""
    found, at = [], layout.PACKED_HEADER.itemsize
    while at < len(whole):
        header = np.frombuffer(whole, layout.BLOCK_HEADER, 1, at)[0]
        found.append((at, at + layout.BLOCK_HEADER.itemsize + int(header["length"])))
        at = found[-1][1]
    return found


def changes(_: Path) -> list[bytes]:
    """Return changes to begin with: of each file, of each block's header and content."""
    numbers = range(len(compressed_session()))
    of_files = [
        struct.pack("<BBHHQ", FILES, 0, number, offset, 1) for number in numbers for offset in (8, 24, 32, 64, 4096)
    ]
    of_blocks = [
        struct.pack("<BBHHQ", way, block, part, offset, 1)
        for way in (SQUEEZED, PLAIN)
        for block in range(3)
        for part in (0, 1)
        for offset in (0, 8, 16, 24, 28, 32, 40, 2000)
    ]
    return [*of_files, *of_blocks]
