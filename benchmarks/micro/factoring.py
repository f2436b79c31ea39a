"""The tiled Cholesky on the runtime, recorded or not, and with the same kernels on its peers."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil
from threadpoolctl import threadpool_limits
from tprof.benchmarks.catalogue import usable_cpus
from tprof.benchmarks.figures import Figure
from tprof.benchmarks.peers import OURS, PEERS, Peer
from tprof.benchmarks.programs import cholesky

import tprof
from tprof.host import describe_host

from .timing import ratios, take_turns

if TYPE_CHECKING:
    from pathlib import Path

RECORDED, ONE_WORKER, TWO_WORKERS = "tprof, recorded", "tprof, 1 worker", "tprof, 2 workers"
RECORDING_PERCENT, OVER_BEST, TWO_OVER_ONE = 3.0, 1.1, 1 / 1.7
MOST_TAKEN_AWAY = 0.2  # of two processors: 1.7 times as fast cannot be asked of less than 1.8


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
    label = f"Cholesky, {count:,} × {count:,} tiles of {tile_rows:,}"
    return [
        Figure(f"{label}: {OURS.name}", taken[OURS.name], "s", note=f"{workers} workers"),
        *(_peer_figure(label, peer, taken) for peer in PEERS),
        _over_best(label, taken),
        Figure(
            f"{label}: what recording adds",
            tuple(100 * (ratio - 1) for ratio in ratios(taken[RECORDED], taken[OURS.name])),
            "%",
            RECORDING_PERCENT,
        ),
        *over_one_worker(label, taken, subjects),
    ]


def _busy_s() -> float:
    """Return how long this machine's processors have been busy, time that a hypervisor gave to others included."""
    times = psutil.cpu_times()._asdict()
    return float(sum(times[name] for name in ("user", "nice", "system", "irq", "softirq", "steal")))


def _peer_figure(label: str, peer: Peer, taken: dict[str, tuple[float, ...]]) -> Figure:
    if peer.name not in taken:
        return Figure(f"{label}: {peer.name}", (), "s", note="not installed")
    return Figure(f"{label}: {peer.name}", taken[peer.name], "s")


def _over_best(label: str, taken: dict[str, tuple[float, ...]]) -> Figure:
    """Compare with the one peer whose median is the least: each round's best would be whoever had luck in it."""
    best = min((peer.name for peer in PEERS if peer.name in taken), key=lambda name: statistics.median(taken[name]))
    values = ratios(taken[OURS.name], taken[best])
    return Figure(f"{label}: tprof over the best peer", values, "×", OVER_BEST, f"best by its median: {best}")


def over_one_worker(
    label: str, taken: dict[str, tuple[float, ...]], subjects: dict[str, Factoring]
) -> tuple[Figure, ...]:
    """Compare two workers with one; where other programs left them no two processors there is no target to meet."""
    name = f"{label}: time of 2 workers over 1"
    if TWO_WORKERS not in taken:
        return (Figure(name, (), "×", TWO_OVER_ONE, "there is one processor", comparable=False),)
    two, one = subjects[TWO_WORKERS], subjects[ONE_WORKER]
    taken_away = statistics.median(two.others[1:])
    processors = describe_host()["cpus"]
    spare = processors - taken_away > 2 - MOST_TAKEN_AWAY
    note = "the target is 1.7 times as fast"
    if not spare:
        note = f"not held to it: other programs kept {taken_away:.1f} of {processors} processors busy"
    return (
        Figure(name, ratios(taken[TWO_WORKERS], taken[ONE_WORKER]), "×", TWO_OVER_ONE, note, comparable=spare),
        Figure(
            f"{label}: processor time of 2 workers over 1",
            ratios(two.processor_s[1:], one.processor_s[1:]),
            "×",
            note="1: two workers add no work; other programs do not count in it",
        ),
    )
