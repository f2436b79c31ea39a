"""The points of a sweep, their order and their state, kept in `sweep-plan.json` so that a sweep can go on.

The file is read back with distrust.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError, UsageError
from tprof.trace.plain_values import shown
from tprof.trace.user_files import UnreadableError, read_json

from .order import What

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


FORMAT = 2
WAITING, DONE, FAILED = "waiting", "done", "failed"
FILE = "sweep-plan.json"
STATES = (WAITING, DONE, FAILED)
TEXTS = ("model", "quality", "sensor")
MOST_BYTES = 64 << 20
"""Of a plan and of a run's rows, with a kilobyte for each run or task."""


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

    Drift (a room that warms up) so affects all settings equally, and a sweep that was cut short still has most
    settings equally often.

    Attributes
    ----------
    identity : of the program and the machine, see `folder.identity_of`.
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
        """Set what failed to wait again."""
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


def save_plan(plan: Plan, folder: Path) -> None:
    """Write it whole or not at all. Raises TprofError."""
    write_json(folder / FILE, plan.as_plain())


def load_plan(folder: Path) -> Plan | None:
    """Return the plan that a folder holds, None if there is none. Raises UsageError for one that cannot be read."""
    path = folder / FILE
    try:
        return _from_plain(read_json(path, MOST_BYTES))
    except UnreadableError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        why = error.reason
    except KeyError as error:
        why = f"it lacks {error}"
    except (ValueError, TypeError, AttributeError) as error:
        why = str(error)
    raise UsageError(
        f"{path} is not a plan that this version of tprof reads ({why}): choose another folder with -o DIR"
    )


def write_json(path: Path, value: Any) -> None:
    """Write plain values whole or not at all. Raises TprofError."""
    draft = path.with_name(f".{path.name}.new")
    try:
        draft.write_text(json.dumps(value, allow_nan=False, indent=1) + "\n", "utf-8")
        os.replace(draft, path)  # noqa: PTH105 - the one that replaces
    except OSError as error:
        raise unwritable(path, draft, error) from error


def unwritable(path: Path, draft: Path, error: OSError) -> TprofError:
    """Return what to raise for a file that could not be written; the unfinished file is removed."""
    if draft.is_file():
        draft.unlink()  # on a full disk it takes space that the next try needs
    return TprofError(f"cannot write {path}: {error.strerror}; make room for it and give the same command again")


def _from_plain(plain: Mapping[str, Any]) -> Plan:
    if plain["format"] != FORMAT:
        raise ValueError(f"its format is {shown(plain['format'])}, not {FORMAT}")
    frequencies_hz = plain["frequencies_hz"]
    plan = Plan(
        what=_what(dict(plain["what"])),
        frequencies_hz=None if frequencies_hz is None else tuple(_counts(frequencies_hz, "frequencies_hz")),
        workers=tuple(_counts(plain["workers"], "workers")),
        repeats=plain["repeats"],
        seed=plain["seed"],
        points=[_point(one) for one in plain["points"]],
        identity=dict(plain["identity"]),
        changes=_texts(plain["changes"], "changes"),
        written=plain["written"] is True,
    )
    _counts([plan.repeats, plan.seed + 1], "repeats and seed")
    return plan


def _what(plain: dict[str, Any]) -> What:
    several = {name: tuple(_texts(plain[name], name)) for name in ("arguments", "tasks")}
    for name, value in plain.items():
        _expect(name in several or isinstance(value, str) or (name == "watts" and value is None), name)
    return What(**plain | several)


def _point(plain: Mapping[str, Any]) -> Point:
    point = Point(**plain)
    _counts([point.workers, point.repeat, 1 if point.frequency_hz is None else point.frequency_hz], "a point")
    _expect(point.state in STATES and isinstance(point.facts, dict), "the state of a point")
    if point.state == FAILED:
        _expect(isinstance(point.facts["why"], str), f"why {point.name} failed")
    if point.state == DONE:
        facts = point.facts
        _expect(type(facts["lasted_s"]) in (int, float) and facts["lasted_s"] >= 0, f"lasted_s of {point.name}")
        for name in TEXTS:
            _expect(isinstance(facts[name], str), f"{name} of {point.name}")
        _texts(facts["warnings"], f"the warnings of {point.name}")
    return point


def _counts(values: Any, name: str) -> list[int]:
    _expect(isinstance(values, list) and all(type(value) is int and value > 0 for value in values), name)
    return list(values)


def _texts(values: Any, name: str) -> list[str]:
    _expect(isinstance(values, list) and all(isinstance(value, str) for value in values), name)
    return list(values)


def _expect(holds: bool, name: str) -> None:  # noqa: FBT001 - it is what is expected
    if not holds:
        raise ValueError(f"{name} is of another kind")
