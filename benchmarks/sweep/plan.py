"""The points of a sweep, their order and their state."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .order import What

FORMAT = 2
WAITING, DONE, FAILED = "waiting", "done", "failed"


@dataclass
class Point:
    """One run.

    Attributes
    ----------
    frequency_hz : asked for, and held by each policy as nearly as it can; None: left as it is.
    workers, repeat : repeat counts from 1.
    state : waiting, done or failed; a run that was interrupted waits again.
    facts : of a run that is done: held (what each policy took), lasted_s, model, quality, sensor, temperatures,
        warnings; of one that failed: why.
    """

    frequency_hz: int | None
    workers: int
    repeat: int
    state: str = WAITING
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What its files are called; kHz, as two settings may lie closer than a MHz."""
        setting = "" if self.frequency_hz is None else f"{self.frequency_hz // 1000}kHz-"
        return f"{setting}{self.workers}w-{self.repeat}"


@dataclass
class Plan:
    """All points in the order in which they run; each repeat is a block of all settings, shuffled.

    Drift (a room that warms up) so falls on all settings alike, and a sweep that was cut short still has most
    settings equally often.

    Attributes
    ----------
    identity : of the program and the machine, see `identity`.
    changes : what of that changed while the sweep was under way, in words.
    written : whether every file of the finished sweep is.
    """

    what: What
    frequencies_hz: tuple[int, ...] | None
    workers: tuple[int, ...]
    repeats: int
    seed: int
    points: list[Point]
    identity: dict[str, str | int | None] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    written: bool = False

    @classmethod
    def drawn(
        cls, what: What, frequencies_hz: tuple[int, ...] | None, workers: tuple[int, ...], *, repeats: int, seed: int
    ) -> Plan:
        """Put the points in an order that the seed decides."""
        order = random.Random(seed)  # noqa: S311 - an order, no secret
        points = []
        for repeat in range(1, repeats + 1):
            settings = list(product(frequencies_hz or (None,), workers))
            order.shuffle(settings)
            points += [Point(hz, count, repeat) for hz, count in settings]
        return cls(what, frequencies_hz, workers, repeats, seed, points)

    @property
    def waiting(self) -> list[Point]:
        """What is still to run."""
        return self._in(WAITING)

    @property
    def done(self) -> list[Point]:
        """What has run."""
        return self._in(DONE)

    @property
    def failed(self) -> list[Point]:
        """What was tried and failed."""
        return self._in(FAILED)

    def _in(self, state: str) -> list[Point]:
        return [point for point in self.points if point.state == state]

    def try_again(self) -> None:
        """Let what failed wait again."""
        for point in self.failed:
            point.state, point.facts = WAITING, {}

    def as_plain(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "format": FORMAT,
            "what": self.what.as_plain(),
            "frequencies_hz": None if self.frequencies_hz is None else list(self.frequencies_hz),
            "workers": list(self.workers),
            "repeats": self.repeats,
            "seed": self.seed,
            "identity": self.identity,
            "changes": self.changes,
            "written": self.written,
            "points": [asdict(point) for point in self.points],
        }
