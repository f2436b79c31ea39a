"""The tiled Cholesky on the runtime, recorded or not, and with the same kernels on its peers.

Not every machine can hold its rounds to a target; the notes of the figures say why.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil
from threadpoolctl import threadpool_limits
from tprof.benchmarks.machine_description import usable_cpus
from tprof.benchmarks.measured_figures import Figure
from tprof.benchmarks.programs import cholesky

import tprof
from benchmarks.peers import OURS, PEERS, Peer
from tprof.sensors.topology import describe_host
from tprof.trace.plain_values import counted

from .timing import ratios, take_turns

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RECORDED, ONE_WORKER, TWO_WORKERS = "tprof, recorded", "tprof, 1 worker", "tprof, 2 workers"
RECORDING_PERCENT, OVER_BEST, TWO_OVER_ONE = 3.0, 1.1, 1 / 1.7
FREE_SHARE = 0.9  # of the workers' processors: 1.7 times as fast cannot be asked of less than 1.8 processors


@dataclass
class Factoring:
    """Factors a new matrix at each call; the first call's factor is checked.

    Attributes
    ----------
    peer, workers, rows, tile_rows : what factors what.
    trace : where it is recorded, if it is.
    processor_s : processor time of this process that each call took.
    others : processors that were busy with other programs meanwhile, on average over each call.
    """

    peer: Peer
    workers: int
    rows: int
    tile_rows: int
    trace: Path | None = None
    processor_s: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        """Return the seconds it took."""
        tiles = cholesky.make_matrix(self.rows, self.tile_rows)
        begin_s, begin_own_s, begin_all_s = time.perf_counter(), time.process_time(), _busy_s()
        if self.trace is None:
            duration_s = self.peer.run_cholesky(tiles, self.workers)
        else:
            with tprof.record(self.trace, energy="estimate", counters="none", overwrite=True):
                duration_s = self.peer.run_cholesky(tiles, self.workers)
        elapsed_s, own_s = time.perf_counter() - begin_s, time.process_time() - begin_own_s
        self.processor_s.append(own_s)
        self.others.append(max(0.0, _busy_s() - begin_all_s - own_s) / elapsed_s)
        if len(self.processor_s) == 1:
            cholesky.check(tiles, whole=False)
        return duration_s


def measure_factoring(directory: Path, rows: int, tile_rows: int, workers: int, *, rounds: int) -> list[Figure]:
    """Measure the Cholesky in interleaved rounds, with one thread in BLAS for all.

    Raises
    ------
    WrongResultError
        If one of them got a wrong factor.
    """
    subjects = {
        OURS.name: Factoring(OURS, workers, rows, tile_rows),
        RECORDED: Factoring(OURS, workers, rows, tile_rows, directory / "cholesky.tprof"),
        ONE_WORKER: Factoring(OURS, 1, rows, tile_rows),
        **{peer.name: Factoring(peer, workers, rows, tile_rows) for peer in PEERS if peer.is_installed()},
    }
    if usable_cpus() > 1:
        subjects[TWO_WORKERS] = Factoring(OURS, 2, rows, tile_rows)
    with threadpool_limits(1):
        taken = take_turns(subjects, rounds=rounds)
    count = rows // tile_rows
    factored = Factored(
        label=f"Cholesky, {count:,} × {count:,} tiles of {tile_rows:,}",
        workers=workers,
        duration_s=taken,
        processor_s={name: tuple(one.processor_s[1:]) for name, one in subjects.items()},
        others=tuple(share for one in subjects.values() for share in one.others[1:]),
        processors=describe_host()["cpus"],
    )
    return factored.figures()


def _busy_s() -> float:
    """Return how long this machine's processors have been busy, time that a hypervisor gave to others included."""
    times = psutil.cpu_times()._asdict()
    return float(sum(times[name] for name in ("user", "nice", "system", "irq", "softirq", "steal")))


@dataclass(frozen=True)
class Factored:
    """Rounds of all subjects: the runtime, recorded or on fewer workers too, and its peers.

    Who meets other programs on a processor depends on when it sleeps, so times on a busy machine compare the kernel's
    choices. They are shown then, and have no target; the processor time stays comparable.

    Attributes
    ----------
    label : what was factored.
    workers : of the runtime and of each peer.
    duration_s, processor_s : subject's name to seconds, and to processor time of the process, (rounds,).
    others : processors that were busy with other programs, run by run.
    processors : of the machine.
    """

    label: str
    workers: int
    duration_s: Mapping[str, tuple[float, ...]]
    processor_s: Mapping[str, tuple[float, ...]]
    others: tuple[float, ...]
    processors: int

    def figures(self) -> list[Figure]:
        """Return them in the order in which they are to be read."""
        best = self._best()
        recorded = tuple(100 * (ratio - 1) for ratio in ratios(self.duration_s[RECORDED], self.duration_s[OURS.name]))
        return [
            Figure(f"{self.label}: {OURS.name}", self.duration_s[OURS.name], "s", note=counted(self.workers, "worker")),
            *(self._peer(peer.name) for peer in PEERS),
            self._figure(
                "tprof over the best peer",
                ratios(self.duration_s[OURS.name], self.duration_s[best]),
                "×",
                OVER_BEST,
                f"best by its median: {best}",
            ),
            self._processor("tprof over that peer", OURS.name, best),
            self._figure("what recording adds", recorded, "%", RECORDING_PERCENT),
            self._processor("recorded over not", RECORDED, OURS.name),
            *self._two_workers(),
        ]

    def _best(self) -> str:
        """Return the one peer whose median is the least: the best of each round would be chosen by chance."""
        names = [peer.name for peer in PEERS if peer.name in self.duration_s]
        return min(names, key=lambda name: statistics.median(self.duration_s[name]))

    def _peer(self, name: str) -> Figure:
        if name not in self.duration_s:
            return Figure(f"{self.label}: {name}", (), "s", note="not installed")
        return Figure(f"{self.label}: {name}", self.duration_s[name], "s")

    def _two_workers(self) -> list[Figure]:
        what = "2 workers over 1"
        if TWO_WORKERS not in self.duration_s:
            note = "there is one processor"
            return [Figure(f"{self.label}: time, {what}", (), "×", TWO_OVER_ONE, note, comparable=False)]
        values = ratios(self.duration_s[TWO_WORKERS], self.duration_s[ONE_WORKER])
        return [
            self._figure(f"time, {what}", values, "×", TWO_OVER_ONE, "the target is 1.7 times as fast"),
            self._processor(what, TWO_WORKERS, ONE_WORKER),
        ]

    def _figure(self, what: str, values: tuple[float, ...], unit: str, target: float, note: str = "") -> Figure:
        others = statistics.median(self.others)
        is_free = self.processors - others > FREE_SHARE * min(self.workers, self.processors)
        if not is_free:
            busy = f"not held to it: other programs kept {others:.1f} of {self.processors} processors busy"
            note = f"{note}; {busy}" if note else busy
        return Figure(f"{self.label}: {what}", values, unit, target, note, comparable=is_free)

    def _processor(self, what: str, above: str, below: str) -> Figure:
        values = ratios(self.processor_s[above], self.processor_s[below])
        return Figure(f"{self.label}: processor time, {what}", values, "×", note="other programs do not count in it")
