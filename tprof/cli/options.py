"""Options that several commands take, and what is read from them."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.errors import UsageError
from tprof.trace.plain_values import is_finite, number, shown
from tprof.trace.user_files import UnreadableError, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprof.analysis import Profile
    from tprof.trace import ClusterTrace, Trace

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Session = Annotated[Path, typer.Argument(help="Session directory.")]
SessionOrJob = Annotated[Path, typer.Argument(metavar="SESSION", help="Session directory, or a job of several hosts.")]
Parallel = Annotated[
    int | None,
    typer.Option(
        "--parallel",
        metavar="N",
        min=1,
        help="Processes for the hosts of a job (1).",
    ),
]
Model = Annotated[str, typer.Option(help="auto, cputime, fitted, ipc, fesc or linear.")]
Coefficients = Annotated[str | None, typer.Option(metavar="NAME|FILE.json|a=..", help="Of the linear model.")]
Energy = Annotated[
    str, typer.Option(help="auto, none, estimate, or sensors such as perf or perf,nvml: tprof sensors lists them.")
]
Watts = Annotated[str | None, typer.Option(metavar="IDLE,PER_CORE", help="Watts for the estimate.")]
Counters = Annotated[str, typer.Option(help="auto, none, or names with commas.")]
Verbose = Annotated[
    bool, typer.Option("-v", "--verbose", help="Print what is chosen and why, on standard error; TPROF_LOG does too.")
]
Co2 = Annotated[
    str | None,
    typer.Option(
        "--co2", metavar="G|ZONE", help="Show emissions too: grams of CO2 a kWh, or a zone such as DE or WORLD."
    ),
]
Price = Annotated[
    str | None, typer.Option("--price", metavar="0.30", help="Show the cost too: of a kWh, as 0.30 or '0.30 EUR'.")
]
Between = Annotated[
    str | None,
    typer.Option("--between", metavar="START,END", help="Only these seconds of the recording; either may be left out."),
]
Quick = Annotated[bool, typer.Option("--quick", help="See that it works; no figures to quote.")]

MOST_KEYS_BYTES = 200_000_000
"""With more keys than this, several million tasks, a job's critical path is found only if instances are asked for."""


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
    parallel: int | None = None,
    instances: bool = False,
    between: str | None = None,
) -> Iterator[Profile]:
    """Load and attribute a session, or all parts of a job, in so many processes. Raises TprofError.

    Its table of instances is made when somebody asks for it. A report reads parts again, so the block is where the
    profile is used.
    """
    from tprof.trace import ClusterTrace, SumsTrace, load

    trace, given, window = load(session), read_coefficients(coefficients), read_between(between)
    if isinstance(trace, SumsTrace):
        if given is not None:
            raise UsageError(f"{session} keeps sums by CPU time only: leave --coefficients out")
        yield trace.profile(model, **window)
    elif not isinstance(trace, ClusterTrace):
        yield _profile(trace, model, coefficients=given, **window)
    else:
        yield _job_profile(trace, model, instances=instances, parallel=parallel, coefficients=given, **window)


def _profile(trace: Trace, model: str, **options: Any) -> Profile:
    """Attribute the session of one host, with a bar, without a table of instances."""
    from .progress import bar

    with bar("reading") as progress:
        return trace.profile(model, tables=False, progress=progress, **options)


def _job_profile(trace: ClusterTrace, model: str, *, instances: bool, parallel: int | None, **options: Any) -> Profile:
    """Attribute the parts of a job, with a bar; the critical path is found where dask's tasks are not too many."""
    from tprof.analysis.profile.parallel_maps import Processes
    from tprof.trace.directory import HOSTS, KEYS

    from .progress import bar

    keys_bytes = sum(path.stat().st_size for path in trace.path.glob(f"{HOSTS}/*/{KEYS}/*.jsonl"))
    has_path = instances or 0 < keys_bytes <= MOST_KEYS_BYTES
    shared = None if parallel is None or parallel == 1 else Processes(parallel)
    with bar("reading") as progress:
        return trace.profile(model, tables=False, path=has_path, progress=progress, map=shared, **options)


def read_between(text: str | None) -> dict[str, Any]:
    """Read START,END in seconds, of which either may be empty, as options of a profile. Raises UsageError."""
    if text is None:
        return {}
    begin, comma, end = text.partition(",")
    try:
        found = {name: number(word.strip()) for name, word in (("start_s", begin), ("end_s", end)) if word.strip()}
    except ValueError:
        found = {}
    if not (comma and found):
        raise UsageError(f"--between must be seconds of the recording as 10,20 or 10, or ,20, got {shown(text)}")
    return found


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
