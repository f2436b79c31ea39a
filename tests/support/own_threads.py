"""What the kernel knows of tprof's own threads in this process, which a recording leaves out of the program."""

from contextlib import suppress
from pathlib import Path

SENSORS = "tprof-sensors"


def used_ns() -> int:
    """Return the CPU time of those that run."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in _named("tprof"))


def sensor_waits() -> int:
    """Return how often the thread that reads sensors has waited: once between two polls; 0 if it has not run yet."""
    lines = [line for task in _named(SENSORS) for line in (task / "status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def _named(begin: str) -> list[Path]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if (task / "comm").read_text().startswith(begin):
                found.append(task)
    return found
