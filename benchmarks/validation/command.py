"""`scripts/bench validate`: how wrong each model is where the truth is known, and measured pairs of kernels."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tprof.cli.options import AsJson, Quick
from tprof.cli.progress import bar, status
from tprof.cli.render import dump, show_tables
from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


def validate(  # noqa: PLR0913 - one parameter an option
    seeds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Simulated runs of each case; default 20, with --assumptions 30."),
    ] = None,
    case: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this case; may be repeated.")] = None,
    quick: Quick = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the result as a page of HTML.", metavar="FILE.html")] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Measure the paper's pairs of kernels on this machine, which is calibrated.")
    ] = False,
    session: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With --pairs: keep the recording in this directory.")
    ] = None,
    watts: Annotated[
        bool, typer.Option("--watts", help="What is assumed without a sensor, tried on public measurements.")
    ] = False,
    assumptions: Annotated[
        bool,
        typer.Option("--assumptions", help="Whether fitted's intervals hold, or it warns, where its assumptions fail."),
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --assumptions: add each run to this file; make only those it lacks."),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="The TProf paper's tables 1 to 4 and figure 11, computed beside it.")
    ] = False,
    native: Annotated[
        bool, typer.Option("--native", help="Run libraries' pools of threads, and compare whom they are credited to.")
    ] = False,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Multiply on an NVIDIA GPU: joules beside its counter read by hand, and Zeus.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a processor with known power, and print each model's error beside the others'."""
    mode = _mode(
        {
            "published": published,
            "native": native,
            "watts": watts,
            "gpu": gpu,
            "pairs": pairs,
            "assumptions": assumptions,
        },
        {"seeds": seeds, "case": case, "quick": quick, "plot": plot, "session": session, "keep": keep},
    )
    if mode in _WITHOUT_OPTIONS:
        _WITHOUT_OPTIONS[mode](as_json=as_json)
        return
    if mode == "pairs":
        _measure_pairs(session, as_json=as_json)
        return
    if mode == "assumptions":
        _try_assumptions(tuple(case or ()), seeds, keep, quick=quick, as_json=as_json)
        return
    from benchmarks.validation import chosen
    from benchmarks.validation import validate as validation
    from benchmarks.validation.validation_text import tables

    extent = validation.QUICK if quick else validation.FULL
    if seeds is not None:
        extent = replace(extent, seeds=seeds, coverage_seeds=seeds * extent.coverage_seeds // extent.seeds)
    cases = chosen(tuple(case or ()))
    if plot is not None:
        _refuse_folder(plot)
    with bar("simulating") as report:
        result = validation.measure(extent, cases=cases, progress=partial(report, "simulating"))
    if plot is not None:
        from benchmarks.validation.validation_text import write_page

        write_page(result, plot)
    if as_json:
        dump(result)
    else:
        show_tables(tables(result), sys.stdout)


_TAKES = {
    "published": ((), "--published computes what the paper prints and takes --json only"),
    "native": ((), "--native runs programs of its own and takes --json only"),
    "gpu": ((), "--gpu measures on this machine's GPU and takes --json only"),
    "watts": ((), "--watts fits published figures and takes --json only"),
    "pairs": (
        ("session",),
        "--pairs measures and takes --session and --json only; without it everything is simulated",
    ),
    "assumptions": (
        ("seeds", "case", "quick", "keep"),
        "--keep goes with --assumptions, which takes --case, --seeds, --quick and --json beside it",
    ),
}
"""Options that each kind of validation takes, and what is said if others are given."""


def _mode(modes: Mapping[str, bool], options: Mapping[str, object]) -> str | None:
    """Return which kind of validation is requested, None for the simulated models; refuse what it does not take."""
    given = {name for name, value in options.items() if value not in (None, False)}
    asked = [name for name, on in modes.items() if on]
    asked += [name for name, option in (("pairs", "session"), ("assumptions", "keep")) if option in given]
    if not asked:
        return None
    mode = asked[0]
    takes, refusal = _TAKES[mode]
    if not modes[mode] or set(asked) != {mode} or not given <= set(takes):
        raise UsageError(refusal)
    return mode


def _recompute_paper(*, as_json: bool) -> None:
    from benchmarks.validation import paper_recomputed

    found = paper_recomputed.recomputed()
    if as_json:
        dump({name: [row.as_plain() for row in rows] for name, rows in found.items()})
    else:
        show_tables(paper_recomputed.tables(found), sys.stdout)


def _try_assumed_watts(*, as_json: bool) -> None:
    from benchmarks.validation import assumed_watts
    from benchmarks.validation.validation_text import assumed_watts as assumed_watts_tables

    result = assumed_watts.result()
    if as_json:
        dump(result)
    else:
        show_tables(assumed_watts_tables(result), sys.stdout)


def _try_native_pools(*, as_json: bool) -> None:
    from benchmarks.validation.native_pools import measure, skipped
    from benchmarks.validation.validation_text import native_pools

    with status("running") as report:
        rows = measure(progress=lambda name, done, of: report(f"{name} ({done} of {of})"))
    if as_json:
        dump({"native": rows, "skipped": skipped()})
    else:
        show_tables([native_pools(rows, skipped())], sys.stdout)


def _measure_gpu(*, as_json: bool) -> None:
    from benchmarks.validation.gpu_series import measure
    from benchmarks.validation.validation_text import gpu_series

    with status("measuring") as report:
        rows = measure(progress=lambda name, done, of: report(f"{name} ({done} of {of})"))
    if as_json:
        dump({"gpu": rows})
    else:
        show_tables([gpu_series(rows)], sys.stdout)


_WITHOUT_OPTIONS = {
    "published": _recompute_paper,
    "native": _try_native_pools,
    "watts": _try_assumed_watts,
    "gpu": _measure_gpu,
}


def _try_assumptions(
    keys: tuple[str, ...], seeds: int | None, keep: Path | None, *, quick: bool, as_json: bool
) -> None:
    from benchmarks.validation import assumption_runs
    from benchmarks.validation.assumptions import chosen_assumptions
    from benchmarks.validation.validation_text import assumptions_table

    series = assumption_runs.QUICK if quick else assumption_runs.FULL
    if seeds is not None:
        series = replace(series, runs=seeds)
    cases = chosen_assumptions(keys)
    with bar("simulating") as report:
        result = assumption_runs.measure(cases, series, keep=keep, progress=partial(report, "simulating"))
    if as_json:
        dump(result)
    else:
        show_tables([assumptions_table(result)], sys.stdout)


def _measure_pairs(session: Path | None, *, as_json: bool) -> None:
    import tempfile

    from benchmarks import published
    from benchmarks.validation.pairs_here import record_pairs, slice_pairs
    from benchmarks.validation.validation_text import measured_pairs
    from tprof.sensors.topology import describe_host
    from tprof.trace import load_session

    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        with status("measuring") as report:
            path = record_pairs(
                session or Path(folder), progress=lambda name, done, of: report(f"{name} ({done} of {of})")
            )
        rows = slice_pairs(load_session(path))
    result = {"processor": describe_host()["processor"], "pairs": rows, "published": published.table_3()}
    if as_json:
        dump(result)
    else:
        show_tables([measured_pairs(result)], sys.stdout)


def _refuse_folder(path: Path) -> None:
    """Raises UsageError before minutes of work, not after, if a plot cannot be written there."""
    if os.path.isdir(path) or not os.path.isdir(path.absolute().parent):
        raise UsageError(
            f"cannot write the plot to {path}: name a file in a directory that exists, such as validation.html"
        )
