"""`tprof check`: whether runs take more than a baseline allows, for continuous integration."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.analysis.compare.figure_texts import NO_BOUND, chance, change, either, is_unbounded
from tprof.analysis.quantities import AT_MOST_NOTE
from tprof.errors import TprofError, UsageError
from tprof.trace.plain_values import counted, shown

from .options import AsJson, Model
from .render import Column, clean, dump, filled, fitting, lines_of, reason_lines, width_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from tprof.analysis.compare.baseline import Baseline
    from tprof.analysis.compare.check import Check, Checked
    from tprof.analysis.compare.run_figures import RunFigures

REGRESSION_STATUS = 1
FIGURES = {"energy": "energy_mean_j", "total": "energy_j", "time": "duration_mean_s"}
WORDS = {"energy_mean_j": "energy of an instance", "energy_j": "energy of all instances", "duration_mean_s": "time"}
MARKS = {"over": "❌", "maybe over": "⚠️", "within": "✅"}
SUMMARY = "GITHUB_STEP_SUMMARY"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check)


def check(  # noqa: PLR0913 - one parameter an option
    sessions: Annotated[list[Path], typer.Argument(metavar="SESSION...", help="One or several runs.")],
    baseline: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Compare with this baseline.")] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Make a baseline of the runs; compare nothing.")
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Compare, then replace the baseline by the runs.")] = False,
    max_increase: Annotated[
        list[str] | None,
        typer.Option("--max-increase", metavar="[TASK=]5%", help="For all tasks, or for those a pattern fits."),
    ] = None,
    figure: Annotated[str, typer.Option(help="energy (of an instance), total (of all) or time.")] = "energy",
    min_share: Annotated[
        str, typer.Option("--min-share", metavar="1%", help="Judge no task with a smaller part of the whole.")
    ] = "1%",
    strict: Annotated[bool, typer.Option("--strict", help="Fail also if the increase may be noise.")] = False,
    any_machine: Annotated[
        bool, typer.Option("--any-machine", help="Compare although the baseline is of another machine.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
    github: Annotated[
        bool, typer.Option("--github", help="Add the table to the summary of the GitHub job, and annotate failures.")
    ] = False,
    model: Model = "auto",
    as_json: AsJson = False,
) -> None:
    """Exit with 1 if a task takes more than a baseline allows. Example: tprof check a.tprof --baseline base.json."""
    try:
        from tprof.analysis.compare.baseline import limits_of

        limits = limits_of(max_increase or [], "--max-increase")
        if (baseline is None) == (save is None):
            raise UsageError("give either --baseline FILE to compare with, or --save FILE to make one")
        if save is not None:
            _save(save, *_runs(sessions, model), limits)
            return
        assert baseline is not None  # noqa: S101 - one of them is there
        base = _baseline(baseline, figure)
        runs, _ = _runs(sessions, model, base if figure != "time" else None)
        found = _compared(base, runs, limits, figure=figure, least_share=_part(min_share), any_machine=any_machine)
    except TprofError as error:
        raise UsageError(str(error)) from error  # status 1 is for regressions alone
    over = found.over(strict=strict)
    if as_json:
        dump(as_plain(found, strict=strict))
    elif markdown:
        print(markdown_of(found, strict=strict))
    else:
        show(found, sys.stdout, strict=strict)
    if github:
        _tell_github(found, strict=strict)
    if update:
        from tprof.analysis.compare.baseline import write_baseline

        write_baseline(baseline, runs, {**base.limits, **limits})
        print(f"updated {baseline}", file=sys.stderr)
    elif over:
        raise typer.Exit(REGRESSION_STATUS)


def _runs(sessions: Sequence[Path], model: str, base: Baseline | None = None) -> tuple[list[RunFigures], str]:
    """Return the runs by one model, that of the baseline unless another one is asked for, and a sentence on it."""
    from tprof.analysis.compare.one_model import AUTO, cannot_share
    from tprof.comparison import figures_by_one_model

    from .progress import bar

    name = base.model if base is not None and model == AUTO else model
    with bar("reading") as progress:
        try:
            return figures_by_one_model(sessions, name, progress=progress)
        except UsageError as error:
            raise error if name == model else cannot_share(name, error) from None


def _save(path: Path, runs: Sequence[RunFigures], why: str, limits: Mapping[str, float]) -> None:
    from tprof.analysis.compare.baseline import write_baseline

    if os.path.lexists(path):
        raise UsageError(f"{path} exists: compare with it by --baseline {path}, and replace it by --update")
    write_baseline(path, runs, limits)
    print(path)
    if why:
        print(f"tprof: {why}", file=sys.stderr)


def _baseline(path: Path, figure: str) -> Baseline:
    from tprof.analysis.compare.baseline import read_baseline

    if figure not in FIGURES:
        raise UsageError(f"--figure must be one of {', '.join(FIGURES)}, got {shown(figure)}")
    return read_baseline(path)


def _compared(
    base: Baseline,
    runs: Sequence[RunFigures],
    limits: Mapping[str, float],
    *,
    figure: str,
    least_share: float,
    any_machine: bool,
) -> Check:
    from tprof.analysis.compare import check as judge

    return judge.check(
        base.runs,
        runs,
        {**base.limits, **limits},
        figure=FIGURES[figure],
        least_share=least_share,
        any_machine=any_machine,
    )


def _part(text: str) -> float:
    from tprof.analysis.compare.baseline import parse_limit

    try:
        return parse_limit(text)
    except ValueError:
        raise UsageError(f"--min-share takes a percentage such as 1%, got {shown(text)}") from None


def as_plain(found: Check, *, strict: bool) -> dict[str, Any]:
    """Return the result as plain values."""
    return {
        "failed": bool(found.over(strict=strict)),
        "figure": found.figure,
        "quality": found.quality,
        "model": found.model,
        "runs": {"baseline": found.base_runs, "now": found.runs},
        "tasks": [vars(one) for one in found.tasks],
        "warnings": list(found.warnings),
        "unread": list(found.unread),
    }


def show(found: Check, stream: TextIO, *, strict: bool) -> None:
    """Print the result as text."""
    width = width_of(stream)
    names = [_no_command(clean(one.task)) for one in found.tasks]
    cells = _cells(found)
    columns = [Column(heading, tuple(texts), len(cells) - use) for use, (heading, texts) in enumerate(cells.items())]
    print(*reason_lines(found.unread, width), _title(found), sep="\n", file=stream)
    print(*lines_of("task", names, fitting(names, columns, width), width), sep="\n", file=stream)
    notes = [*_notes(found, strict=strict), *(f"warning: {clean(text)}" for text in found.warnings)]
    print("", *(filled(text, width) for text in notes), sep="\n", file=stream)


def _no_command(name: str) -> str:
    """Return a name for the begin of a line; GitHub's runner obeys lines that begin with two colons."""
    return name.replace(":", "\\x3a", 1) if name.lstrip().startswith("::") else name


def _title(found: Check) -> str:
    label = "" if found.figure == "duration_mean_s" else f" ({found.quality})"
    return f"{WORDS[found.figure].capitalize()} beside the baseline{label}"


def _cells(found: Check) -> dict[str, list[str]]:
    unit = "s" if found.figure.endswith("_s") else "J"
    return {
        "": [one.state for one in found.tasks],
        "baseline": [either(one.base, one.base_at_most, unit) for one in found.tasks],
        "now": [either(one.now, one.now_at_most, unit) for one in found.tasks],
        "change (95 %)": [change(vars(one), "") for one in found.tasks],
        "limit": [f"+{100 * one.limit:.3g} %" for one in found.tasks],
        "noise": [chance(one.chance) for one in found.tasks],
    }


def _notes(found: Check, *, strict: bool) -> list[str]:
    over, maybe = ([one for one in found.tasks if one.state == state] for state in ("over", "maybe over"))
    failed = found.over(strict=strict)
    count = counted(len(failed), "task")
    result = f"failed: {count} over the limit" if failed else "passed: no task is surely over its limit"
    notes = [f"{result} ({_count(found.base_runs)} in the baseline, {_count(found.runs)} now)"]
    if found.model and found.figure != "duration_mean_s":
        notes.append(f"joules are shared by the power model {clean(found.model)}, that of the baseline")
    if maybe and not strict:
        notes.append(f"{len(maybe)} may be over, or it is noise: more runs a side decide it; --strict fails for them")
    if over or maybe:
        notes.append("noise: how probable such an increase would be if the task were within its limit")
    if any(math.isfinite(one.base_at_most) or math.isfinite(one.now_at_most) for one in found.tasks):
        notes.append(AT_MOST_NOTE)
    if any(is_unbounded(vars(one), "") for one in found.tasks):
        notes.append(NO_BOUND.replace("as A", "as the baseline"))
    return notes


def _count(runs: int) -> str:
    return counted(runs, "run")


def markdown_of(found: Check, *, strict: bool) -> str:
    """Return the result as Markdown."""
    cells = _cells(found)
    cells[""] = [f"{MARKS.get(one.state, '')} {one.state}".strip() for one in found.tasks]
    head = ["task", *cells]
    rows = [
        [_escaped(clean(one.task)), *texts]
        for one, texts in zip(found.tasks, zip(*cells.values(), strict=True), strict=True)
    ]
    table = [" | ".join(row) for row in (head, ["---", "---", *["---:"] * (len(cells) - 1)], *rows)]
    notes = [*_notes(found, strict=strict), *(f"warning: {clean(text)}" for text in found.warnings)]
    lines = [
        f"### {_title(found)}",
        "",
        *(f"{_escaped(text)}\n" for text in reason_lines(found.unread, None)),
        *(f"| {line} |" for line in table),
        "",
        *(f"- {_escaped(text)}" for text in notes),
    ]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Return text that Markdown and HTML show as it is."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]|#" else letter for letter in text)


def _tell_github(found: Check, *, strict: bool) -> None:
    """Add the result to the summary of the job, and print an annotation for each task that failed."""
    place = os.environ.get(SUMMARY)
    if not place:
        print(f"tprof: --github: {SUMMARY} is not set, so this is no GitHub job; nothing was added", file=sys.stderr)
        return
    try:
        with open(place, "a", encoding="utf-8") as file:  # noqa: PTH123 - a text that the environment gives
            file.write(f"{markdown_of(found, strict=strict)}\n")
    except OSError as error:
        raise TprofError(f"cannot write the job's summary to {place}: {error.strerror}") from error
    for one in found.over(strict=strict):
        print(f"::error title=tprof check::{_annotation(found, one)}", file=sys.stderr)


def _annotation(found: Check, one: Checked) -> str:
    unit = "s" if found.figure.endswith("_s") else "J"
    base, now = either(one.base, one.base_at_most, unit), either(one.now, one.now_at_most, unit)
    text = (
        f"{clean(one.task)}: {WORDS[found.figure]} {base} → {now}, "
        f"{change(vars(one), '')}; limit +{100 * one.limit:.3g} %"
    )
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
