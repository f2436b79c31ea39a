"""`tprof validate`: how wrong each model is where the truth is known, and pairs of kernels where it is measured."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .options import AsJson, Quick
from .progress import bar, status
from .render import dump, show_tables


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("validate", rich_help_panel="Predict and check")(validate)


def validate(  # noqa: PLR0913 - one parameter an option
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Simulated runs of each case; default 20.")
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
    published: Annotated[
        bool, typer.Option("--published", help="The TProf paper's tables 1 to 4 and figure 11, computed beside it.")
    ] = False,
    native: Annotated[
        bool, typer.Option("--native", help="Run libraries' pools of threads, and compare whom they are credited to.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a processor with known power, and print each model's error beside the others'."""
    if native:
        _refuse_beside_native(
            seeds, case, quick or None, plot, pairs or None, session, watts or None, published or None
        )
        _try_native_pools(as_json=as_json)
        return
    if published:
        _refuse_beside_published(seeds, case, quick or None, plot, pairs or None, session, watts or None)
        _recompute_paper(as_json=as_json)
        return
    if watts:
        _refuse_beside_watts(seeds, case, quick or None, plot, pairs or None, session)
        _try_assumed_watts(as_json=as_json)
        return
    if pairs or session is not None:
        _refuse_mixed(pairs=pairs, others=(seeds, case, quick or None, plot))
        _measure_pairs(session, as_json=as_json)
        return
    from dataclasses import replace

    from tprof.benchmarks.validation import chosen
    from tprof.benchmarks.validation import validate as validation
    from tprof.benchmarks.validation.validation_text import tables

    extent = validation.QUICK if quick else validation.FULL
    if seeds is not None:
        extent = replace(extent, seeds=seeds, coverage_seeds=seeds * extent.coverage_seeds // extent.seeds)
    cases = chosen(tuple(case or ()))
    if plot is not None:
        _refuse_folder(plot)
    with bar("simulating") as report:
        result = validation.measure(extent, cases=cases, progress=partial(report, "simulating"))
    if plot is not None:
        from tprof.benchmarks.validation.validation_text import write_page

        write_page(result, plot)
    if as_json:
        dump(result)
    else:
        show_tables(tables(result), sys.stdout)


def _refuse_mixed(*, pairs: bool, others: tuple[object, ...]) -> None:
    from tprof.errors import UsageError

    if not pairs or any(other is not None for other in others):
        raise UsageError("--pairs measures and takes --session and --json only; without it everything is simulated")


def _refuse_beside_watts(*others: object) -> None:
    from tprof.errors import UsageError

    if any(other is not None for other in others):
        raise UsageError("--watts fits published figures and takes --json only")


def _refuse_beside_published(*others: object) -> None:
    from tprof.errors import UsageError

    if any(other is not None for other in others):
        message = "--published computes what the paper prints and takes --json only"
        raise UsageError(message)


def _refuse_beside_native(*others: object) -> None:
    from tprof.errors import UsageError

    if any(other is not None for other in others):
        message = "--native runs programs of its own and takes --json only"
        raise UsageError(message)


def _try_native_pools(*, as_json: bool) -> None:
    from tprof.benchmarks.validation.native_pools import measure
    from tprof.benchmarks.validation.validation_text import native_pools

    with status("running") as report:
        rows = measure(progress=lambda name, done, of: report(f"{name} ({done} of {of})"))
    if as_json:
        dump({"native": rows})
    else:
        show_tables([native_pools(rows)], sys.stdout)


def _recompute_paper(*, as_json: bool) -> None:
    from tprof.benchmarks.validation import paper_recomputed

    found = paper_recomputed.recomputed()
    if as_json:
        dump({name: [row.as_plain() for row in rows] for name, rows in found.items()})
    else:
        show_tables(paper_recomputed.tables(found), sys.stdout)


def _try_assumed_watts(*, as_json: bool) -> None:
    from tprof.benchmarks.validation import assumed_watts
    from tprof.benchmarks.validation.validation_text import assumed_watts as assumed_watts_tables

    result = assumed_watts.result()
    if as_json:
        dump(result)
    else:
        show_tables(assumed_watts_tables(result), sys.stdout)


def _measure_pairs(session: Path | None, *, as_json: bool) -> None:
    import tempfile

    from tprof.benchmarks import published
    from tprof.benchmarks.validation.pairs_here import record_pairs, slice_pairs
    from tprof.benchmarks.validation.validation_text import measured_pairs
    from tprof.sensors.topology import describe_host
    from tprof.trace import load

    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        with status("measuring") as report:
            path = record_pairs(
                session or Path(folder), progress=lambda name, done, of: report(f"{name} ({done} of {of})")
            )
        rows = slice_pairs(load(path))
    result = {"processor": describe_host()["processor"], "pairs": rows, "published": published.table_3()}
    if as_json:
        dump(result)
    else:
        show_tables([measured_pairs(result)], sys.stdout)


def _refuse_folder(path: Path) -> None:
    """Raises UsageError before minutes of work, not after, if a plot cannot be written there."""
    from tprof.errors import UsageError

    if os.path.isdir(path) or not os.path.isdir(path.absolute().parent):
        raise UsageError(
            f"cannot write the plot to {path}: name a file in a directory that exists, such as validation.html"
        )
