"""The layout of the trace format, documented in docs/trace-format.md and mirrored in csrc/layout.h."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

MAGIC = b"TPROF\r\n\x1a"
MAJOR = 1
MINOR = 9
BESIDE_MAJOR = 2
"""Of a stream whose records are in other files beside it, so that earlier readers refuse it."""
ENDIAN = 0x01020304
HEADER_BYTES = 4096
DESCRIPTION_BYTES = 3640
MAX_COLUMNS = 13
NAME_BYTES = 128
UNUSED = "_unused_"
NO_TASK = 0xFFFF_FFFF
NO_THREAD = 0xFFFF_FFFF
NO_CPU = 0xFFFF
NO_WORKER = 0xFFFF
NO_STACK = 0xFFFF_FFFF
PACKED_MAGIC = b"TPROFZ\r\n"
PACKED_MAJOR = 2
BLOCK_MARK = 0x4B434C42
CODEC_ZLIB, CODEC_DEFLATE = 1, 2
MOST_WORDS = 16


HEADER = np.dtype(
    {
        "names": [
            "magic", "major", "minor", "endian", "kind", "header_bytes", "window_bytes", "record_bytes",
            "process", "thread", "pid", "tid", "start_ns", "absent", "committed", "flushed",
            "dropped_enospc", "dropped_io", "dropped_reentrant", "first_drop_ns", "packed", "segment_records",
            "end_reason", "end_flags", "end_ns", "end_columns", "modulus", "unit",
            "thread_name", "description_bytes", "description",
        ],
        "formats": [
            "V8", "<u2", "<u2", "<u4", "<u4", "<u4", "<u4", "<u4",
            "<u4", "<u4", "<u4", "<u4", "<u8", "<u8", "<u8", "<u8",
            "<u8", "<u8", "<u8", "<u8", "<u8", "<u8",
            "<u4", "<u4", "<u8", f"{MAX_COLUMNS}<u8", "<u8", "<f8",
            f"V{NAME_BYTES}", "<u4", f"V{DESCRIPTION_BYTES}",
        ],
        "offsets": [
            0, 8, 10, 12, 16, 20, 24, 28,
            32, 36, 40, 44, 48, 56, 64, 72,
            80, 88, 96, 104, 112, 120,
            128, 132, 136, 144, 248, 256,
            320, 448, 452,
        ],
        "itemsize": HEADER_BYTES,
    }
)  # fmt: skip
"""The first 4096 bytes of a file of samples, readings, events, native threads or stacks."""

PACKED_HEADER = np.dtype(
    [("magic", "V8"), ("major", "<u4"), ("endian", "<u4"), ("record_bytes", "<u4"), ("", "V4"), ("segment", "<u8")]
)
"""The first 32 bytes of a file of compressed records."""

BLOCK_HEADER = np.dtype(
    [
        ("mark", "<u4"),
        ("codec", "<u4"),
        ("first", "<u8"),
        ("count", "<u4"),
        ("length", "<u4"),
        ("checksum", "<u4"),
        ("grouped_by", "u1"),
        ("", "V3"),
        ("methods", f"V{MOST_WORDS}"),
    ]
)
"""Before each block of compressed records."""

READING = np.dtype(
    [
        ("t_ns", "<u8"),
        ("value", "<u8"),
        ("window_ns", "<u4"),
        ("flags", "<u2"),
        ("error", "<u2"),
        ("suspended_ns", "<u8"),
    ]
)

EVENT = np.dtype(
    [
        ("t_ns", "<u8"),
        ("instance", "<u8"),
        ("other", "<u8"),
        ("task", "<u4"),
        ("worker", "<u2"),
        ("kind", "u1"),
        ("flags", "u1"),
    ]
)

NATIVE = np.dtype(
    [
        ("t_ns", "<u8"),
        ("value", "<u8"),
        ("tid", "<u4"),
        ("task", "<u4"),
        ("thread", "<u4"),
        ("part", "<u2"),
        ("kind", "u1"),
        ("flags", "u1"),
    ]
)

STACK = np.dtype(
    [
        ("t_ns", "<u8"),
        ("cpu_ns", "<u8"),
        ("tid", "<u4"),
        ("other", "<u4"),
        ("number", "<u4"),
        ("part", "<u2"),
        ("kind", "u1"),
        ("flags", "u1"),
    ]
)

SAMPLE_HEAD = [
    ("t_ns", "<u8"),
    ("instance", "<u8"),
    ("task", "<u4"),
    ("cpu", "<u2"),
    ("kind", "u1"),
    ("flags", "u1"),
]


SAMPLE_BYTES = range(40, 24 + 8 * MAX_COLUMNS + 1, 8)
"""How long a sample may be: what its columns need."""
FIRST_SAMPLE_BYTES = (64, 128)
"""The same in files of major version 1."""


def column_count(record_bytes: int) -> int:
    """Return how many columns a sample of this size has: 2 in 40 bytes, 13 in 128."""
    return (record_bytes - 24) // 8


@lru_cache(maxsize=16)
def sample_dtype(columns: tuple[str, ...]) -> np.dtype[np.void]:
    """Return the dtype of samples whose columns have these names; an unused place has the name "".

    Parameters
    ----------
    columns
        Two to thirteen names, in order.
    """
    named = [(name or f"{UNUSED}{place}", "<u8") for place, name in enumerate(columns)]
    return np.dtype(SAMPLE_HEAD + named)
