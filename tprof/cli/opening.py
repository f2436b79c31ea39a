"""From a session and what the user says of the model to its profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError

if TYPE_CHECKING:
    from tprof.analysis import Profile


def open_profile(session: Path, model: str = "auto", coefficients: str | None = None) -> Profile:
    """Load and attribute. Raises TprofError."""
    from tprof.trace import load

    return load(session).profile(model, coefficients=read_coefficients(coefficients))


def read_coefficients(text: str | None) -> str | dict[str, float] | None:
    """Read NAME, FILE.json or a=1,b=2. Raises UsageError."""
    if text is None:
        return None
    if text.endswith(".json"):
        return _from_file(Path(text))
    if "=" not in text:
        return text
    try:
        return {key.strip(): float(value) for key, _, value in (part.partition("=") for part in text.split(","))}
    except ValueError:
        message = f"--coefficients must be a name, a file or a=1.5,b=2,c=3,C1=4, got {text!r}"
        raise UsageError(message) from None


def _from_file(path: Path) -> dict[str, float]:
    try:
        said: Any = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): float(value) for key, value in said.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        message = f"cannot read coefficients of {path}: {error}; give a JSON object of names and numbers"
        raise UsageError(message) from None
