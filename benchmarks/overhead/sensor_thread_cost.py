"""What the thread that reads the sensors costs, as a share of one core, from the kernel's own account of it.

Where the machine has no energy sensor, a tree of files stands in for powercap, so that the millisecond poll is
measured and not only the slower readings of an estimate. A plain file is cheaper to read than a register through
the kernel: the share is that of the polling, not of a particular sensor.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import tprof
from tprof.errors import TprofError
from tprof.sensors import Machine, Unavailable, sysroot
from tprof.sensors.registry import create
from tprof.session.python_sensors import THREAD_NAME as READERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

THREAD_NAME = "tprof-sensors"
ROOT_VARIABLE = "TPROF_SYSROOT"
LONGEST_BEGIN_S = 1.0
MANY_PROCESSORS, MANY_PACKAGES = 256, 2


def measure_share(
    directory: Path,
    *,
    duration_s: float,
    rounds: int,
    native: bool = False,
    counters: Sequence[str] = (),
    energy: str = "auto",
    thread: str = THREAD_NAME,
) -> tuple[float, ...]:
    """Return the share of one core that a sensor thread takes while the program waits, (rounds,).

    With `native` the thread that reads the sensors follows the process's native threads too, with these counters.
    """
    shares = []
    for _ in range(rounds):
        place = directory / "sensors.tprof"
        with tprof.record(place, energy=energy, counters=counters or "none", overwrite=True, attribute_native=native):
            begin_ns, begin_cpu_ns = time.perf_counter_ns(), cpu_time_ns(thread)
            time.sleep(duration_s)
            cpu_ns = cpu_time_ns(thread) - begin_cpu_ns
            shares.append(cpu_ns / (time.perf_counter_ns() - begin_ns))
    return tuple(shares)


def measure_pyrapl(directory: Path, *, duration_s: float, rounds: int) -> tuple[float, ...]:
    """Return the share of one core of the thread that reads pyRAPL, (rounds,)."""
    return measure_share(directory, duration_s=duration_s, rounds=rounds, energy="pyrapl", thread=READERS)


def pyrapl_problem() -> str | None:
    """Return why pyRAPL reads nothing here, or None."""
    found = create("pyrapl").find(Machine(sysroot()))
    return found.why if isinstance(found, Unavailable) else None


def measure_following(
    directory: Path, threads: int, *, duration_s: float, rounds: int, counters: Sequence[str] = ()
) -> tuple[float, ...]:
    """Return what so many threads without samples, which work now and then, add to that share, (rounds,)."""
    shares = []
    with _working(threads):
        for _ in range(rounds):
            without, following = (
                measure_share(directory, duration_s=duration_s, rounds=1, native=native, counters=counters)[0]
                for native in (False, True)
            )
            shares.append(following - without)
    return tuple(shares)


@contextmanager
def _working(count: int) -> Iterator[None]:
    """Let threads work for some microseconds each 10 ms, so that their clocks move."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.01):
            hashlib.pbkdf2_hmac("sha256", b"", b"", 20)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def measure_sleeper(*, duration_s: float, rounds: int, pause_s: float = 0.001) -> tuple[float, ...]:
    """Return the share of one core of a thread that only wakes each `pause_s` and sleeps again, (rounds,)."""
    shares = []
    for _ in range(rounds):
        begin_ns, begin_cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        while time.perf_counter_ns() - begin_ns < duration_s * 1e9:
            time.sleep(pause_s)
        shares.append((time.thread_time_ns() - begin_cpu_ns) / (time.perf_counter_ns() - begin_ns))
    return tuple(shares)


@contextmanager
def powercap_stand_in(directory: Path) -> Iterator[None]:
    """Let recordings read a powercap tree of plain files below `directory`."""
    zone = directory / "sys/class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    for name, text in {"name": "package-0", "energy_uj": "1000000", "max_energy_range_uj": "262143328850"}.items():
        (zone / name).write_text(text + "\n", encoding="ascii")
    with _root(directory):
        yield


@contextmanager
def processors_stand_in(directory: Path, processors: int) -> Iterator[None]:
    """Let recordings find so many processors, in packages of equal size, and read their busy time from a plain file."""
    cpus = directory / "sys/devices/system/cpu"
    for cpu in range(processors):
        place = cpus / f"cpu{cpu}/topology"
        place.mkdir(parents=True)
        package = cpu * MANY_PACKAGES // processors
        for name, number in {"physical_package_id": package, "die_id": 0, "core_id": cpu}.items():
            (place / name).write_text(f"{number}\n", encoding="ascii")
    (cpus / "online").write_text(f"0-{processors - 1}\n", encoding="ascii")
    ticks = "1234567 234 567890 99887766 4321 0 5678 90 0 0"
    lines = [f"cpu{cpu} {ticks}\n" for cpu in range(processors)]
    (directory / "proc").mkdir()
    (directory / "proc/stat").write_text("".join([f"cpu  {ticks}\n", *lines]), encoding="ascii")
    with _root(directory):
        yield


@contextmanager
def _root(directory: Path) -> Iterator[None]:
    before = os.environ.get(ROOT_VARIABLE)
    os.environ[ROOT_VARIABLE] = os.fspath(directory)
    try:
        yield
    finally:
        if before is None:
            del os.environ[ROOT_VARIABLE]
        else:
            os.environ[ROOT_VARIABLE] = before


def cpu_time_ns(name: str = THREAD_NAME) -> int:
    """Read how long a thread of ours has run (first number of schedstat, nanoseconds); wait for one that begins."""
    deadline_s = time.monotonic() + LONGEST_BEGIN_S
    while (cpu_ns := _find_cpu_time_ns(name)) is None:
        if time.monotonic() > deadline_s:
            raise TprofError(f"no thread {name} in this process: its cost is measured only while a recording runs")
        time.sleep(0.001)
    return cpu_ns


def _find_cpu_time_ns(name: str) -> int | None:
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text(encoding="utf-8", errors="replace").strip() == name:
                return int((task / "schedstat").read_text(encoding="ascii").split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that ended meanwhile
    return None
