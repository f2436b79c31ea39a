"""The points of a sweep, their order and their state, kept in `sweep-plan.json` so that a sweep can go on."""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError, UsageError

from .order import What

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "sweep-plan.json"
FORMAT = 1
WAITING, DONE = "waiting", "done"


@dataclass
class Point:
    """One run.

    Attributes
    ----------
    frequency_hz : asked for; None: left as it is.
    workers, repeat : repeat counts from 1.
    state : waiting or done; a run that was interrupted waits again.
    facts : of a run that is done: frequency_hz that the kernel took, lasted_s, model, quality, temperatures, warnings.
    """

    frequency_hz: int | None
    workers: int
    repeat: int
    state: str = WAITING
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What its files are called."""
        setting = "" if self.frequency_hz is None else f"{self.frequency_hz // 1_000_000}MHz-"
        return f"{setting}{self.workers}w-{self.repeat}"


@dataclass
class Plan:
    """All points in the order in which they run; each repeat is a block of all settings, shuffled.

    Drift (a room that warms up) so falls on all settings alike, and a sweep that was cut short still has most
    settings equally often.
    """

    what: What
    frequencies_hz: tuple[int, ...] | None
    workers: tuple[int, ...]
    repeats: int
    seed: int
    points: list[Point]

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
        return [point for point in self.points if point.state != DONE]

    def same_as(self, other: Plan) -> bool:
        """Tell whether both visit the same points with the same program, in whatever order."""
        return (self.what, self.frequencies_hz, self.workers, self.repeats) == (
            other.what, other.frequencies_hz, other.workers, other.repeats,
        )  # fmt: skip

    def as_plain(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "format": FORMAT,
            "what": self.what.as_plain(),
            "frequencies_hz": None if self.frequencies_hz is None else list(self.frequencies_hz),
            "workers": list(self.workers),
            "repeats": self.repeats,
            "seed": self.seed,
            "points": [asdict(point) for point in self.points],
        }

    def save(self, folder: Path) -> None:
        """Write it whole or not at all. Raises TprofError."""
        write_json(folder / FILE, self.as_plain())


def load_plan(folder: Path) -> Plan | None:
    """Return the plan that a folder holds, None if there is none. Raises UsageError for one that cannot be read."""
    path = folder / FILE
    try:
        return _from_plain(json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{path} is not a plan that this version of tprof reads ({error}): choose another folder with -o DIR"
        raise UsageError(message) from None


def write_json(path: Path, value: Any) -> None:
    """Write plain values whole or not at all. Raises TprofError."""
    draft = path.with_name(f".{path.name}.new")
    try:
        draft.write_text(json.dumps(value, allow_nan=False, indent=1) + "\n", "utf-8")
        os.replace(draft, path)  # noqa: PTH105 - the one that replaces
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}; choose another folder with -o DIR"
        raise TprofError(message) from error


def _from_plain(said: Mapping[str, Any]) -> Plan:
    if said["format"] != FORMAT:
        message = f"its format is {said['format']}"
        raise ValueError(message)
    what = dict(said["what"])
    frequencies_hz = said["frequencies_hz"]
    return Plan(
        what=What(**what | {"arguments": tuple(what["arguments"]), "tasks": tuple(what["tasks"])}),
        frequencies_hz=None if frequencies_hz is None else tuple(frequencies_hz),
        workers=tuple(said["workers"]),
        repeats=said["repeats"],
        seed=said["seed"],
        points=[Point(**point) for point in said["points"]],
    )
