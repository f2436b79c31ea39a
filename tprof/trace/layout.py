"""The layout of the trace format, documented in docs/trace-format.md and mirrored in csrc/layout.h."""

from __future__ import annotations

import numpy as np

MAGIC = b"TPROF\r\n\x1a"
MAJOR = 1
MINOR = 5
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


HEADER = np.dtype(
    {
        "names": [
            "magic", "major", "minor", "endian", "kind", "header_bytes", "window_bytes", "record_bytes",
            "process", "thread", "pid", "tid", "start_ns", "absent", "committed", "flushed",
            "dropped_enospc", "dropped_io", "dropped_reentrant", "first_drop_ns",
            "end_reason", "end_flags", "end_ns", "end_columns", "modulus", "unit",
            "thread_name", "description_bytes", "description",
        ],
        "formats": [
            "V8", "<u2", "<u2", "<u4", "<u4", "<u4", "<u4", "<u4",
            "<u4", "<u4", "<u4", "<u4", "<u8", "<u8", "<u8", "<u8",
            "<u8", "<u8", "<u8", "<u8",
            "<u4", "<u4", "<u8", f"{MAX_COLUMNS}<u8", "<u8", "<f8",
            f"V{NAME_BYTES}", "<u4", f"V{DESCRIPTION_BYTES}",
        ],
        "offsets": [
            0, 8, 10, 12, 16, 20, 24, 28,
            32, 36, 40, 44, 48, 56, 64, 72,
            80, 88, 96, 104,
            128, 132, 136, 144, 248, 256,
            320, 448, 452,
        ],
        "itemsize": HEADER_BYTES,
    }
)  # fmt: skip
"""The first 4096 bytes of a file of samples, readings, events or native threads."""

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

SAMPLE_HEAD = [
    ("t_ns", "<u8"),
    ("instance", "<u8"),
    ("task", "<u4"),
    ("cpu", "<u2"),
    ("kind", "u1"),
    ("flags", "u1"),
]


def column_count(record_bytes: int) -> int:
    """Return how many columns a sample of this size has: 5 in 64 bytes, 13 in 128."""
    return (record_bytes - 24) // 8


def sample_dtype(columns: tuple[str, ...]) -> np.dtype[np.void]:
    """Return the dtype of samples whose columns have these names; an unused place has the name "".

    Parameters
    ----------
    columns
        Five or thirteen names, in order.
    """
    named = [(name or f"{UNUSED}{place}", "<u8") for place, name in enumerate(columns)]
    return np.dtype(SAMPLE_HEAD + named)
