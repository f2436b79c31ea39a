"""Stores the calibrated power model of this machine in the user's configuration directory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError
from tprof.trace.plain_values import shown
from tprof.trace.power_model import problem_of
from tprof.trace.user_files import UnreadableError, read_json
from tprof.trace.whole_file import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping

# Indented in the manifest it is about thirty times as large, and manifests above 8 MiB are not read.
MOST_BYTES = 64 << 10
AGAIN = 'run "tprof calibrate" again'


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
