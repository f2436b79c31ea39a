"""Blocks of compressed records as they were before format 1.9, which readers still take."""

from __future__ import annotations

import zlib

import numpy as np

from tprof.trace import layout


def encode(records, first):
    """Return the block, with its header, of (n, record_bytes) uint8 records; `first` is the number of the first."""
    columns = records.view("<u8").T.copy()
    for column in columns[::2]:
        column[1:] -= column[:-1].copy()
    planes = columns.view(np.uint8).reshape(len(columns), -1, 8).transpose(0, 2, 1)
    stored = zlib.compress(planes.tobytes())
    header = np.zeros((), layout.BLOCK_HEADER)
    header["mark"], header["count"], header["first"] = layout.BLOCK_MARK, len(records), first
    header["length"], header["checksum"], header["codec"] = len(stored), zlib.crc32(stored), layout.CODEC_ZLIB
    header["methods"] = np.void(bytes(1 - place % 2 for place in range(len(columns))).ljust(layout.MOST_WORDS, b"\0"))
    return header.tobytes() + stored
