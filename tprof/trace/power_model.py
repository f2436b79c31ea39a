"""The calibrated power model: its fields, the check of their plausibility, and the user's file with this machine's.

    {"format": 1, "processor": "…", "date": "2026-11-20", "tprof": "…", "source": "…", "quality": "measured",
     "coefficients": {"a": …, "b": …, "c": …, "C1": …, "C2": …}, "intervals": {"a": [low, high], …},
     "scales": [[hz, factor], …], "counters": ["instructions", "cycles", …], "residual_share": 0.03, …}

Coefficients are watts per unit of IPC (a), per GB/s of L2 and LLC traffic (b, c), per active core (C1) and of the
package (C2): equation 1 of TProf. The manifest of a session and the user's file have the same format.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError

from .bounds import MAX_HZ, MAX_SCALE, MAX_WATTS, is_between
from .plain_values import is_finite, shown
from .user_files import UnreadableError, read_json, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = 1
COEFFICIENTS = ("a", "b", "c", "C1", "C2")
# Indented in the manifest it is about thirty times as large, and manifests above 8 MiB are not read.
MOST_BYTES = 64 << 10
AGAIN = 'run "tprof calibrate" again'


def problem_of(model: object) -> str | None:
    """Return the reason why this is not a valid power model, or None."""
    if not isinstance(model, dict):
        return "it is no JSON object"
    if model.get("format") != FORMAT:
        return f"its format is {shown(model.get('format'))}, this tprof reads {FORMAT}"
    coefficients, share = model.get("coefficients"), model.get("residual_share")
    factors = f"{1 / MAX_SCALE:g} to {MAX_SCALE:g}"
    rules = {
        f"its coefficients are not {', '.join(COEFFICIENTS)}, each from 0 to {MAX_WATTS:g} watts": (
            isinstance(coefficients, dict) and all(_is_power(coefficients.get(name)) for name in COEFFICIENTS)
        ),
        f"its scales are not pairs of a rising frequency, to {MAX_HZ:g} Hz, and a factor of {factors}": (
            _are_scales(model.get("scales", []))
        ),
        f"its residual_share is no number from 0 to {MAX_SCALE:g}": share is None or is_between(share, 0, MAX_SCALE),
        "its intervals are not pairs of finite numbers by coefficient": _are_intervals(model.get("intervals") or {}),
        "its counters are no list of names": _are_names(model.get("counters", [])),
    }
    return next((why for why, sound in rules.items() if not sound), None)


def _is_power(value: object) -> bool:
    return is_between(value, 0, MAX_WATTS)


def _are_intervals(intervals: object) -> bool:
    return isinstance(intervals, dict) and all(
        isinstance(pair, list) and len(pair) == 2 and all(map(is_finite, pair)) for pair in intervals.values()
    )


def _are_names(names: object) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _are_scales(scales: object) -> bool:
    if not isinstance(scales, list):
        return False
    for pair in scales:
        if not isinstance(pair, list) or len(pair) != 2:
            return False
        if not (is_between(pair[0], 1, MAX_HZ) and is_between(pair[1], 1 / MAX_SCALE, MAX_SCALE)):
            return False
    return all(one[0] < other[0] for one, other in itertools.pairwise(scales))


def model_path() -> Path:
    """Return the path of the model. Raises TprofError for a user without a home directory."""
    base = os.environ.get("XDG_CONFIG_HOME")
    # The specification of XDG_CONFIG_HOME: relative paths are to be ignored.
    if base and Path(base).is_absolute():
        return Path(base) / "tprof" / "power-model.json"
    try:
        return Path.home() / ".config" / "tprof" / "power-model.json"
    except RuntimeError as error:
        raise TprofError("this user has no home directory to keep models in: set HOME or XDG_CONFIG_HOME") from error


def read_model(processor: str | None, path: Path | None = None) -> tuple[dict[str, Any] | None, str | None]:
    """Return the model of this processor, and a note if there is one that is not used.

    Parameters
    ----------
    processor
        The machine's; a model of another processor is not used.
    path
        Of the file; by default `model_path()`.
    """
    try:
        path = path or model_path()
    except TprofError:
        return None, None
    try:
        model = read_json(path, MOST_BYTES)
    except UnreadableError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None, None
        return None, f"the power model in {path} was not used: {error.reason}; {AGAIN}"
    problem = problem_of(model)
    if problem is None and model.get("processor") is None:
        problem = "it does not say which processor it was measured on"
    elif problem is None and model["processor"] != processor:
        another = shown(model["processor"]).strip("'")
        problem = f"it is of another processor ({another})"
    if problem is not None:
        return None, f"the power model in {path} was not used: {problem}; {AGAIN}"
    return dict(model), None


def write_model(model: Mapping[str, Any], path: Path | None = None) -> Path:
    """Store the model atomically; returns its path.

    Raises
    ------
    TprofError
        If it cannot be written.
    """
    path = path or model_path()
    text = json.dumps(model, indent=2, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    except OSError as error:
        message = f"cannot keep the power model in {path}: {error.strerror}; name a file with --output"
        raise TprofError(message) from error
    return path
