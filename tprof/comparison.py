"""`tprof.compare`: what changed between recordings."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .errors import UsageError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from tprof.analysis.compare import Comparison, RunFigures

    Progress = Callable[[str, int, int], None]
    Sessions = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def compare(
    a: Sessions,
    b: Sessions,
    *,
    model: str = "auto",
    by: Sequence[str] = (),
    start_s: float | None = None,
    end_s: float | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare sessions or jobs, one or several runs a side.

    Parameters
    ----------
    a, b : a session, or the sessions of several runs of the same program
    model : as for `Trace.profile`, the same for all. Where `auto` would take several, all are shared by one
    by : ``"host"`` or names of labels, as for `Profile.by`: groups are compared instead of tasks
    start_s, end_s : a window of each recording, as for `Trace.profile`
    progress : called for each window in which a long recording is read: with what is done, how many of them are, and
        how many there are

    Returns
    -------
    Comparison
        B beside A, task by task and in total, with 95 % intervals and the chance that a difference is noise.

    Raises
    ------
    TraceError
        If a session cannot be read.
    UsageError
        If a side has no session, both sides have the same, or a run has no such label.

    Examples
    --------
    >>> comparison = tprof.compare(["a1.tprof", "a2.tprof"], ["b1.tprof", "b2.tprof"])  # doctest: +SKIP
    >>> comparison.tasks[["energy_mean_a_j", "energy_mean_b_j", "energy_mean_noise"]]  # doctest: +SKIP
    """
    from tprof.analysis.compare import compare_runs  # noqa: PLC0415 - the door to analysis

    window = {name: value for name, value in (("start_s", start_s), ("end_s", end_s)) if value is not None}
    first, second = _paths(a), _paths(b)
    runs, why = figures_by_one_model([*first, *second], model, by=by, window=window, progress=progress)
    return compare_runs(runs[: len(first)], runs[len(first) :], grouped_by=by, model_why=why)


def figures_by_one_model(
    paths: Sequence[str | os.PathLike[str]], model: str = "auto", **reading: Any
) -> tuple[list[RunFigures], str]:
    """Return what sessions say by one power model, and a sentence on it if `auto` would take several; see `compare`."""
    from tprof.analysis.compare.one_model import AUTO, by_one_model  # noqa: PLC0415 - the door to analysis

    runs = [figures_of_session(path, model, **reading) for path in paths]
    if model != AUTO:
        return runs, ""
    return by_one_model(runs, lambda place, name: figures_of_session(paths[place], name, **reading))


def figures_of_session(
    path: str | os.PathLike[str],
    model: str = "auto",
    *,
    by: Sequence[str] = (),
    window: Mapping[str, Any] = MappingProxyType({}),
    progress: Progress | None = None,
) -> RunFigures:
    """Return what a session or a job says of its tasks, without keeping its profile. Raises TprofError.

    The parameters are those of `compare`.
    """
    from tprof.analysis.compare import figures_of  # noqa: PLC0415 - the door to analysis

    from .trace import SumsTrace, load  # noqa: PLC0415 - reads with NumPy
    from .trace.sums_trace import refusal  # noqa: PLC0415 - see above

    trace = load(path)
    if isinstance(trace, SumsTrace):
        raise UsageError(refusal(trace.path))
    profile = trace.profile(model, tables=bool(by), progress=progress, **window)
    return figures_of(profile, by=by, progress=progress)


def _paths(side: Sessions) -> list[str | os.PathLike[str]]:
    return list(side) if isinstance(side, (list, tuple)) else [side]  # type: ignore[list-item]
