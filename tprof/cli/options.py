"""Options that several commands take, and what is read from them."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tprof.errors import UsageError
from tprof.trace.plain_values import is_finite, number, shown
from tprof.trace.user_files import UnreadableError, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprof.analysis import ClusterProfile, Profile

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Session = Annotated[Path, typer.Argument(help="Session directory.")]
SessionOrJob = Annotated[Path, typer.Argument(metavar="SESSION", help="Session directory, or a job of several hosts.")]
Parallel = Annotated[
    int, typer.Option("--parallel", metavar="N", min=1, help="Analyse so many hosts of a job at the same time.")
]
Model = Annotated[str, typer.Option(help="auto, cputime, fitted, ipc, fesc or linear.")]
Coefficients = Annotated[str | None, typer.Option(metavar="NAME|FILE.json|a=..", help="Of the linear model.")]
Energy = Annotated[
    str, typer.Option(help="auto, none, estimate, or sensors such as perf or perf,nvml: tprof sensors lists them.")
]
Watts = Annotated[str | None, typer.Option(metavar="IDLE,PER_CORE", help="Watts for the estimate.")]
Counters = Annotated[str, typer.Option(help="auto, none, or names with commas.")]
Quick = Annotated[bool, typer.Option("--quick", help="See that it works; no figures to quote.")]


def open_profile(session: Path, model: str = "auto", coefficients: str | None = None) -> Profile:
    """Load and attribute the session of one host. Raises TprofError."""
    from tprof.trace import load_session

    return load_session(session).profile(model, coefficients=read_coefficients(coefficients))


@contextmanager
def opened(
    session: Path,
    model: str = "auto",
    coefficients: str | None = None,
    *,
    parallel: int = 1,
    instances: bool = False,
) -> Iterator[Profile | ClusterProfile]:
    """Load and attribute a session, or all parts of a job, so many at the same time. Raises TprofError.

    The profile of a job has its table of instances only if they are asked for. A report reads parts again, so the block
    is where the profile is used.
    """
    from tprof.trace import ClusterTrace, load

    trace, given = load(session), read_coefficients(coefficients)
    if not isinstance(trace, ClusterTrace):
        yield trace.profile(model, coefficients=given)
    elif parallel == 1:
        yield trace.profile(model, coefficients=given, tasks=instances)
    else:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        with ProcessPoolExecutor(parallel, get_context("forkserver")) as pool:
            yield trace.profile(model, coefficients=given, tasks=instances, map=pool.map)


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
