"""A plan kept in `sweep-plan.json`, so that a sweep can go on, and read back with distrust."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError, UsageError
from tprof.trace.plain_values import shown
from tprof.trace.user_files import UnreadableError, read_json

from .order import What
from .plan import DONE, FAILED, FORMAT, WAITING, Plan, Point

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "sweep-plan.json"
STATES = (WAITING, DONE, FAILED)
TEXTS = ("model", "quality", "sensor")
MOST_BYTES = 64 << 20
"""Of a plan and of a run's rows, with a kilobyte for each run or task."""


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
    message = f"{path} is not a plan that this version of tprof reads ({why}): choose another folder with -o DIR"
    raise UsageError(message)


def write_json(path: Path, value: Any) -> None:
    """Write plain values whole or not at all. Raises TprofError."""
    draft = path.with_name(f".{path.name}.new")
    try:
        draft.write_text(json.dumps(value, allow_nan=False, indent=1) + "\n", "utf-8")
        os.replace(draft, path)  # noqa: PTH105 - the one that replaces
    except OSError as error:
        raise unwritable(path, draft, error) from error


def unwritable(path: Path, draft: Path, error: OSError) -> TprofError:
    """Return what to raise for a file that could not be written; what was begun of it is taken away."""
    if draft.is_file():
        draft.unlink()  # on a full disk it holds room that the next try needs
    return TprofError(f"cannot write {path}: {error.strerror}; make room for it and give the same command again")


def _from_plain(plain: Mapping[str, Any]) -> Plan:
    if plain["format"] != FORMAT:
        message = f"its format is {shown(plain['format'])}, not {FORMAT}"
        raise ValueError(message)
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
        message = f"{name} is of another kind"
        raise ValueError(message)
