"""The least that writing samples can cost: a loop in C that writes the bytes and does nothing else."""

import os

def write_samples(path: str | os.PathLike[str], count: int, by_ticks: bool, /) -> float:
    """Write that many samples of 40 bytes to the file, which is made anew; nanoseconds for all.

    Their times come from the processor's counter of ticks, or from clock_gettime.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
