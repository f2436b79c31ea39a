"""The descriptors that a process has open."""

from pathlib import Path


def perf_descriptors() -> int:
    """Return how many of them are perf's counters."""
    found = 0
    for path in Path("/proc/self/fd").iterdir():
        try:
            found += "perf_event" in str(path.readlink())
        except OSError:  # that of the listing itself
            continue
    return found
