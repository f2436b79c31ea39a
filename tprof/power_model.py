"""Keeps the calibrated power model of this machine in the user's configuration directory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError
from tprof.trace.power_model import problem_of
from tprof.trace.whole_file import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping

AGAIN = 'run "tprof calibrate" again'


def model_path() -> Path:
    """Return where the model is kept."""
    base = os.environ.get("XDG_CONFIG_HOME")
    # The specification of XDG_CONFIG_HOME asks to ignore a relative one.
    folder = Path(base) if base and Path(base).is_absolute() else Path.home() / ".config"
    return folder / "tprof" / "power-model.json"


def read_model(processor: str | None, path: Path | None = None) -> tuple[dict[str, Any] | None, str | None]:
    """Return the model kept for this processor, and what a user should know if there is one that is not used.

    Parameters
    ----------
    processor
        The machine's; a model of another is not used.
    path
        Of the file; by default `model_path()`.
    """
    path = path or model_path()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None, None
    except (OSError, UnicodeDecodeError) as error:
        return None, f"the power model in {path} was not used: {error}; {AGAIN}"
    try:
        model = json.loads(text)
    except ValueError:
        return None, f"the power model in {path} was not used: it is no JSON; {AGAIN}"
    problem = problem_of(model)
    if problem is None and model.get("processor") is None:
        problem = "it does not say which processor it was measured on"
    elif problem is None and model["processor"] != processor:
        problem = f"it is of another processor ({model.get('processor')})"
    if problem is not None:
        return None, f"the power model in {path} was not used: {problem}; {AGAIN}"
    return dict(model), None


def write_model(model: Mapping[str, Any], path: Path | None = None) -> Path:
    """Keep the model, whole or not at all; returns where.

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
