"""The tiled Cholesky on the runtime, recorded or not, and with the same kernels on its peers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil
from threadpoolctl import threadpool_limits
from tprof.benchmarks.catalogue import usable_cpus
from tprof.benchmarks.peers import OURS, PEERS, Peer
from tprof.benchmarks.programs import cholesky

import tprof
from tprof.sensors.processor import describe_host

from .factored import ONE_WORKER, RECORDED, TWO_WORKERS, Factored
from .timing import take_turns

if TYPE_CHECKING:
    from pathlib import Path

    from tprof.benchmarks.figures import Figure


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
    """Measure the Cholesky in interleaved rounds, with one thread in BLAS for all alike.

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
