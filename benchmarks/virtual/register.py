"""Puts a register's raw counts, which wrap, in place of the joules that `write_trace` was given.

`write_trace` takes joules that never fall, as a runtime has them. A kernel's file shows a register that wraps, and its
reader's way through `modulus` is part of what is to be validated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tprof.trace import layout

from .sensor import BITS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def put_register(file: Path, counts: NDArray[np.uint64], unit_j: float) -> None:
    """Write raw counts into a file of readings.

    Parameters
    ----------
    file
        `readings/<domain>.readings` of a trace.
    counts
        (m,) one a reading.
    unit_j
        Joules of one count.
    """
    content = bytearray(file.read_bytes())
    header = np.frombuffer(content, layout.HEADER, 1)
    header["unit"], header["modulus"] = unit_j, 1 << BITS
    records = np.frombuffer(content, layout.READING, len(counts), layout.HEADER_BYTES)
    records["value"] = counts
    file.write_bytes(content)
