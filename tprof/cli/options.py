"""Options that several commands take, and what is read from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tprof.errors import UsageError
from tprof.trace.plain_values import is_finite, number, shown
from tprof.trace.user_files import UnreadableError, read_json

if TYPE_CHECKING:
    from tprof.analysis import Profile

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Session = Annotated[Path, typer.Argument(help="Session directory.")]
Model = Annotated[str, typer.Option(help="auto, cputime, fitted, ipc, fesc or linear.")]
Coefficients = Annotated[str | None, typer.Option(metavar="NAME|FILE.json|a=..", help="Of the linear model.")]
Energy = Annotated[
    str, typer.Option(help="auto, none, estimate, or sensors such as perf or perf,nvml: tprof sensors lists them.")
]
Watts = Annotated[str | None, typer.Option(metavar="IDLE,PER_CORE", help="Watts for the estimate.")]
Counters = Annotated[str, typer.Option(help="auto, none, or names with commas.")]
Quick = Annotated[bool, typer.Option("--quick", help="See that it works; no figures to quote.")]


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
        pairs = [part.partition("=") for part in text.split(",")]
        return {key.strip(): number(value.strip()) for key, _, value in pairs}
    except ValueError:
        raise UsageError(f"--coefficients must be a name, a file or a=1.5,b=2,c=3,C1=4, got {text!r}") from None


def _from_file(path: Path) -> dict[str, float]:
    try:
        values = read_json(path)
    except UnreadableError as error:
        raise UsageError(_cannot_read(path, error.reason)) from None
    if not isinstance(values, dict):
        raise UsageError(_cannot_read(path, "it holds no object"))
    wrong = next((key for key, value in values.items() if not is_finite(value)), None)
    if wrong is not None:
        raise UsageError(_cannot_read(path, f"{shown(wrong)} is {shown(values[wrong])}, which is no number"))
    coefficients = {key: float(value) for key, value in values.items()}
    from tprof.analysis.models.linear import coefficients_of

    try:
        coefficients_of(coefficients)
    except UsageError as error:
        raise UsageError(_cannot_read(path, str(error))) from None
    return coefficients


def _cannot_read(path: Path, reason: str) -> str:
    return f"cannot read coefficients of {path}: {reason}; give a JSON object of names and numbers"
