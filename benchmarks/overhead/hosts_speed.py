"""How long the profile of a job takes, and how much memory: by the number of hosts, and of processes that analyse them.

The parts are the same synthetic trace, whose files are linked, so that 64 hosts need the disk of one.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tprof.benchmarks.machine_description import describe_machine
from tprof.benchmarks.measured_figures import Figure, result_of

from tprof.trace import ClusterTrace, HostPart, load, load_session
from tprof.trace.cluster import write_hosts

from .attribution_speed import write_synthetic
from .children import in_child, memory_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CORES = 4
PART = 4
"""The part of the hosts whose time shows whether time is linear in hosts."""


@dataclass(frozen=True)
class Extent:
    """How much is measured: hosts of the job, samples of each, processes that analyse them together, and rounds."""

    hosts: int = 64
    samples: int = 500_000
    workers: int = 2
    rounds: int = 3


FULL = Extent()
PAPER = Extent(samples=5_000_000, rounds=1)
QUICK = Extent(hosts=4, samples=20_000, rounds=1)


class _Case(NamedTuple):
    """One profile in a process of its own."""

    cpu_s: float
    seconds: float
    peak_bytes: float


@dataclass(frozen=True)
class _Round:
    """The cases of a round; of several processes the CPU time is that of the busiest."""

    one: _Case
    few: _Case
    every: _Case
    pooled: _Case


def measure(extent: Extent = FULL, *, directory: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Measure the profile of a job.

    Parameters
    ----------
    extent
        `FULL` for figures, `PAPER` with five million samples a host, `QUICK` to see that it works.
    directory
        Where traces are made and removed; by default the folder for temporary files.

    Returns
    -------
    dict
        `machine` (as `describe_machine`), `effort`, and `figures`: plain values as `Figure.as_plain`.
    """
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="tprof-hosts-", dir=directory) as base:
        part = Path(base) / "part.tprof"
        in_child(write_synthetic, part, CORES, extent.samples)
        counts = (extent.hosts // PART, extent.hosts)
        few, every = (_job(Path(base) / f"{count}.tprof", part, count) for count in counts)
        rounds = [
            _Round(
                one=_Case(*in_child(_analyse_part, part)),
                few=_Case(*in_child(_analyse, few, 1)),
                every=_Case(*in_child(_analyse, every, 1)),
                pooled=_Case(*in_child(_analyse, every, extent.workers)),
            )
            for _ in range(extent.rounds)
        ]
    return result_of(extent, _figures(extent, rounds), machine)


def _figures(extent: Extent, rounds: list[_Round]) -> list[Figure]:
    """Return the figures; ratios are of CPU time, which other programs of the machine hardly disturb."""
    label = f"{extent.hosts} hosts of {extent.samples:,} samples"
    busiest = tuple(one.pooled.cpu_s / one.every.cpu_s for one in rounds)
    return [
        Figure(
            f"{label}, most memory", tuple(one.every.peak_bytes / one.one.peak_bytes for one in rounds), "× one host",
            1.5, "without the table of instances",
        ),
        Figure(
            f"{label}, CPU time", tuple(one.every.cpu_s / (PART * one.few.cpu_s) for one in rounds), "× linear", 1.2,
            f"beside {PART} times that of {extent.hosts // PART} hosts",
        ),
        Figure(
            f"{label}, CPU time of the busiest of {extent.workers} processes", busiest, "× one process",
            1.2 / extent.workers, f"1/{extent.workers} = {1 / extent.workers:.2g} at best",
        ),
        Figure(
            "most memory of one of these", tuple(one.pooled.peak_bytes / one.one.peak_bytes for one in rounds),
            "× one host", 1.5,
        ),
        Figure(f"{label}, time with one process", tuple(one.every.seconds for one in rounds), "s"),
        Figure(f"{label}, time with {extent.workers}", tuple(one.pooled.seconds for one in rounds), "s"),
        Figure("one host, time", tuple(one.one.seconds for one in rounds), "s"),
    ]  # fmt: skip


def _job(job: Path, part: Path, count: int) -> Path:
    """Make a job whose parts are links to the files of one."""
    hosts = []
    for number in range(count):
        place = job / "hosts" / f"node{number:03d}"
        for file in _files(part):
            (place / file.parent).mkdir(parents=True, exist_ok=True)
            os.link(part / file, place / file)
        hosts.append(HostPart(place.name, place))
    write_hosts(job, hosts, engine="synthetic")
    return job


def _files(part: Path) -> Iterator[Path]:
    return (path.relative_to(part) for path in part.rglob("*") if path.is_file())


def _analyse_part(part: Path) -> tuple[float, float, float]:
    import_module("tprof.analysis.profile")  # loading pandas is no part of the analysis
    clock = _Clock()
    load_session(part).profile().summary()
    return *clock.read(), memory_bytes("VmHWM")


def _analyse(job: Path, workers: int) -> tuple[float, float, float]:
    import_module("tprof.analysis.profile")
    trace = load(job)
    assert isinstance(trace, ClusterTrace)  # noqa: S101 - for the type checker
    if workers == 1:
        clock = _Clock()
        trace.profile(tables=False).summary()
        return *clock.read(), memory_bytes("VmHWM")
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
        list(pool.map(abs, range(workers)))  # they are there
        spent_s: dict[int, float] = {}
        peaks_bytes: dict[int, int] = {}

        def timed(analyse: Callable[[HostPart], Any], parts: Iterable[HostPart]) -> Iterator[Any]:
            for found, pid, cpu_s, peak_bytes in pool.map(partial(_timed, analyse), parts):
                spent_s[pid] = spent_s.get(pid, 0.0) + cpu_s
                peaks_bytes[pid] = peak_bytes
                yield found

        clock = _Clock()
        trace.profile(tables=False, map=timed).summary()
        own_s, seconds = clock.read()
    return max(spent_s.values()) + own_s, seconds, max(peaks_bytes.values())


def _timed(analyse: Callable[[HostPart], Any], part: HostPart) -> tuple[Any, int, float, int]:
    """Analyse a part; returns the process too, its CPU time and its peak memory."""
    begin_s = time.process_time()
    return analyse(part), os.getpid(), time.process_time() - begin_s, memory_bytes("VmHWM")


class _Clock:
    """CPU time and time of this process."""

    def __init__(self) -> None:
        self._cpu_s, self._begin_s = time.process_time(), time.perf_counter()

    def read(self) -> tuple[float, float]:
        return time.process_time() - self._cpu_s, time.perf_counter() - self._begin_s
