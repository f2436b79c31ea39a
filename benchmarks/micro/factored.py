"""What the rounds of the tiled Cholesky say, and whether they can be held to a target."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.benchmarks.figures import Figure
from tprof.benchmarks.peers import OURS, PEERS

from .timing import ratios

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDED, ONE_WORKER, TWO_WORKERS = "tprof, recorded", "tprof, 1 worker", "tprof, 2 workers"
RECORDING_PERCENT, OVER_BEST, TWO_OVER_ONE = 3.0, 1.1, 1 / 1.7
FREE_SHARE = 0.9  # of the workers' processors: 1.7 times as fast cannot be asked of less than 1.8 processors


@dataclass(frozen=True)
class Factored:
    """Rounds of all subjects: the runtime, recorded or on fewer workers too, and its peers.

    Who meets other programs on a processor depends on when it sleeps, so times on a busy machine compare the kernel's
    choices. They are shown then, and held to no target; the processor time stays comparable.

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
            Figure(f"{self.label}: {OURS.name}", self.duration_s[OURS.name], "s", note=f"{self.workers} workers"),
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
        """Return the one peer whose median is the least: each round's best would be whoever had luck in it."""
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
