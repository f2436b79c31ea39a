"""`tprof summary`: accounts and tasks of a session in the terminal; the tables are those of other commands, too."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.analysis.quantities import AT_MOST_NOTE, ONE_INSTANCE_NOTE, at_most, mean_energy
from tprof.errors import UsageError
from tprof.trace.plain_values import counted, listed, shown

from .footprint import rates_of, show_footprint, with_footprint
from .options import AsJson, Between, Co2, Coefficients, Model, Parallel, Price, SessionOrJob, opened
from .render import (
    DASH,
    Column,
    clean,
    dump,
    filled,
    fitting,
    folded,
    interval,
    lines_of,
    percent,
    quantity,
    reason_lines,
    width_of,
)
from .summary_of_functions import function_lines, functions_as_plain
from .summary_of_hosts import host_columns, host_lines, job_energy
from .summary_of_waits import waits_as_plain, waits_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TextIO

    import pandas as pd

    from tprof.analysis import Profile
    from tprof.analysis.profile.answer import Answer

    Row = Mapping[Any, Any]

MOST_WARNINGS = 20
LEAST_CORRELATED = 10  # fewer points correlate by chance
COLUMNS = (
    "task", "instances", "energy", "share", "mean", "time", "power", "dynamic", "power-interval", "own-time", "sd",
    "edp", "correlation", "gpu", "native", "native-time", "spinning",
)  # fmt: skip
DEFAULT_COLUMNS = frozenset(COLUMNS[:7])
MOST_TASKS = 100
"""Rows of the table unless all are asked for."""
PAGE_WIDTH = 120
"""Cells that a table takes at most if nobody asks for more columns."""
NATIVE_COLUMNS = frozenset(COLUMNS[-3:])
"""Not shown unless native threads serve tasks, or they are asked for."""
_LEAST_SHARE = 0.0005
"""Less is written as 0.0 %."""
_POOL_THREADS = "thread _handle_"
"""How the threads begin that multiprocessing's pools run for themselves."""
GPU_COLUMNS = frozenset({"gpu"})
"""Not shown unless a GPU is measured, or they are asked for."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("summary")(summary)


def summary(  # noqa: PLR0913 - one parameter an option
    session: SessionOrJob,
    model: Model = "auto",
    coefficients: Coefficients = None,
    between: Between = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Show these columns of the tasks, in this order.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every task and all columns, however wide they are together.")
    ] = False,
    by: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="Sum the tasks by host or by labels, such as rank.")
    ] = None,
    parallel: Parallel = None,
    co2: Co2 = None,
    price: Price = None,
    as_json: AsJson = False,
) -> None:
    """Print where the joules went, task by task. Example: tprof summary blur.tprof --model cputime."""
    chosen = _chosen(columns)
    if by is not None and (chosen is not None or everything):
        raise UsageError("--by has columns of its own: leave --columns and --all out")
    if chosen is not None and everything:
        raise UsageError("--columns names the columns and --all takes every one: leave one of them out")
    if as_json and (chosen is not None or everything):
        given = "--all" if everything else "--columns"
        raise UsageError(f"--json prints every column, whatever is asked for: leave {given} out")
    from .summary_by import by_as_plain, names_of, show_by

    rates, names = rates_of(co2, price), None if by is None else names_of(by)
    with opened(session, model, coefficients, parallel=parallel, instances=by is not None, between=between) as profile:
        if as_json:
            found = as_plain(profile) if names is None else by_as_plain(profile, names)
            dump({**found, **with_footprint(profile, rates)})
            return
        if names is None:
            show(profile, sys.stdout, columns=chosen, everything=everything)
        else:
            show_by(profile, sys.stdout, names)
        show_footprint(profile, rates, sys.stdout)


def _chosen(columns: str | None) -> list[str] | None:

    if columns is None:
        return None
    names = [name.strip().lower() for name in columns.split(",") if name.strip()]
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or not names:
        raise UsageError(f"--columns takes names of {', '.join(COLUMNS)}, got {listed(unknown) or shown(columns)}")
    return names


def as_plain(profile: Profile) -> dict[str, Any]:
    """Return accounts, tasks and info as `dump` takes them; of a job also its hosts."""
    from tprof.analysis.profile.answer import answer_of

    tables = {"accounts": profile.accounts, "tasks": profile.summary()}
    if profile.job is not None:
        tables = {"hosts": profile.hosts, **tables, "tasks_by_host": profile.by_host()}
    return {
        "answer": answer_of(profile).as_plain(),
        **{name: table.reset_index().to_dict("records") for name, table in tables.items()},
        "info": profile.info,
        **functions_as_plain(profile),
        **waits_as_plain(profile),
    }


def show(
    profile: Profile,
    stream: TextIO,
    *,
    top: int | None = None,
    columns: Sequence[str] | None = None,
    everything: bool = False,
) -> None:
    """Print the hosts of a job, accounts, tasks, what was found, what stands behind them and warnings.

    Parameters
    ----------
    profile : what is shown
    stream : to which it is printed: a terminal gets what fits into its width, at most 120 cells of columns
    top : so many tasks only; None: `MOST_TASKS`
    columns : of `COLUMNS`, those of the tasks to show; None: those that fit
    everything : show all columns of the tasks, whatever the width
    """
    from tprof.analysis.profile.answer import answer_of
    from tprof.analysis.profile.provenance import finding_texts, lead_in_text, source_texts, warning_texts

    width = width_of(stream)
    label = f" ({profile.info['quality']})"
    answer = answer_of(profile)
    print(*answer_lines(answer, width, run_line(profile, label)), "", sep="\n", file=stream)
    if functions := function_lines(profile, width):
        print(*functions, "", sep="\n", file=stream)
    table = TaskTable(width, top, columns, everything, host_columns(profile))
    tasks = task_lines(profile.summary(), shared_by(profile.info), table)
    if hosts := host_lines(profile, label, width):
        print(*hosts, "", sep="\n", file=stream)
    if accounts := account_lines(profile, label, width):
        print(*accounts, "", sep="\n", file=stream)
    print(*tasks, sep="\n", file=stream)
    if found := finding_texts(profile.info):
        print("", f"Findings{label}", *(filled(f"- {clean(text)}", width) for text in found), sep="\n", file=stream)
    lines = [
        *legend_lines(profile.summary()),
        *filter(None, [lead_in_text(profile.info)]),
        *_over_budget(profile),
        *_native_lines(profile, label),
        *waits_lines(profile, label),
        *map(clean, source_texts(profile)),
        *_warnings(answer.unsaid(warning_texts(profile.info))),
    ]
    print("", *(filled(text, width) for text in lines), sep="\n", file=stream)


def shared_by(info: Mapping[str, Any]) -> str:
    """Return what stands beside the title of a table of tasks: the quality of the joules, and the model behind them."""
    models = [info["model"]] if isinstance(info["model"], str) else info["model"]
    return f" ({', by '.join(filter(None, [info['quality'], clean(' and '.join(models))]))})"


def run_line(profile: Profile, label: str) -> str:
    """Return how long the run took, its energy and mean power; of a job, on how many hosts."""
    duration_s, sums = float(profile.info["duration_s"]), profile.measured_by_quality
    seconds = quantity(duration_s, "s")
    if profile.job is not None:
        return f"{job_energy(profile)} in {seconds}."
    what = "The run" if profile.info.get("between_s") is None else "This window of the run"
    if not (duration_s > 0 and sums):
        return f"{what} took {seconds}."
    watts = quantity(profile.measured_j / duration_s, "W")
    return f"{what} took {seconds} and {quantity(profile.measured_j, 'J')}, {watts} on average{label}."


def _warnings(texts: Sequence[str]) -> list[str]:
    shown = [f"warning: {clean(text)}" for text in texts[:MOST_WARNINGS]]
    more = len(texts) - len(shown)
    return [*shown, *([f"and {more:,} more warnings: tprof summary --json prints them all"] if more else ())]


def answer_lines(answer: Answer, width: int | None, run: str = "") -> list[str]:
    """Return the lines of the answer: why there are no tasks, the `run`, which task takes most, what would help."""
    remedies = (f"- {one.text}" for one in answer.remedies)
    sentences = [run, answer.headline, answer.certainty, *remedies]
    return [*reason_lines(answer.reasons, width), *(folded(clean(text), width) for text in sentences if text)]


def account_lines(profile: Profile, label: str, width: int | None) -> list[str]:
    """Return a line a domain; only the first figure of an unresolved one is `not resolved`, the others are dashes.

    Where each host of a job has one domain the table of hosts has them, so there are no lines.
    """
    accounts = profile.accounts
    if profile.job is not None and not profile.job.has_domains:
        return []
    columns = []
    is_mixed = len(accounts["quality"].unique()) > 1
    further = [name for name in ("spin_j", "unidentified_j") if (accounts[name] > 0).any()]
    for name in ("measured_j", "tasks_j", "runtime_j", "other_j", "idle_j", *further):
        shown = quantity if name == "measured_j" else _known
        heading = {"measured_j": "energy", "spin_j": "spinning"}.get(name, name.removesuffix("_j"))
        columns.append(Column(heading, tuple(shown(float(value), "J") for value in accounts[name])))
    if is_mixed:
        columns.append(Column("quality", tuple(accounts["quality"])))
    keys = [key if isinstance(key, tuple) else (key,) for key in accounts.index]
    heading = " and ".join(str(name) for name in accounts.index.names)
    return [
        f"Accounts{'' if is_mixed else label}",
        *lines_of(heading, [" ".join(clean(part) for part in key) for key in keys], columns, width),
        *_beside(profile, width),
    ]


def _beside(profile: Profile, width: int | None) -> list[str]:
    """Return a sentence on a host's domains whose joules are in no task, since others have them in it."""
    if profile.job is not None:
        return []
    beside = [one["name"] for one in profile.info["domains"] if not one["counted"]]
    if not beside or len(beside) == len(profile.info["domains"]):
        return []
    why = {str(one["name"]): str(one["why"]) for one in profile.info["left_out"] if {"name", "why"} <= one.keys()}
    parts = [clean(name) + (f" ({clean(why[name])})" if name in why else "") for name in beside]
    return [filled(f"not in the total, nor in the tasks: {', '.join(parts)}", width)]


@dataclass(frozen=True)
class TaskTable:
    """What of the tasks is shown: on how wide a terminal, how many, which columns, and which besides the usual ones."""

    width: int | None
    top: int | None
    columns: Sequence[str] | None
    everything: bool
    further: Mapping[str, tuple[str, Callable[[Row], str]]] = field(default_factory=dict)


def task_lines(summary: pd.DataFrame, label: str, shown: TaskTable) -> list[str]:
    """Return the lines of the table of tasks."""
    if summary.empty:
        return [f"Tasks{label}: none ran"]
    table = summary if shown.everything else _without_trifles(summary)
    table = table if shown.everything else table.head(shown.top or MOST_TASKS)
    rows: list[Row] = list(table.to_dict("records"))
    names = [clean(name) for name in table.index]
    columns = {
        key: Column(heading, tuple(cell(row) for row in rows), use, is_further=key not in DEFAULT_COLUMNS)
        for use, (key, (heading, cell)) in enumerate(reversed([*_TASK_COLUMNS.items(), *shown.further.items()]))
    }
    absent = frozenset() if "native_j" in table else NATIVE_COLUMNS
    absent |= frozenset() if "gpu_j" in table else GPU_COLUMNS
    usual = [*(key for key in COLUMNS if key not in absent), *shown.further]
    in_order = [columns[key] for key in dict.fromkeys(shown.columns or usual) if key != "task"]
    asked = shown.everything or shown.columns is not None
    kept = in_order if asked else _usual(names, in_order, shown.width)
    # What was asked for is shown whole, on lines that a narrow terminal folds.
    width = None if asked and len(fitting(names, in_order, shown.width)) < len(in_order) else shown.width
    folded_away = summary.loc[~summary.index.isin(table.index)]
    others = counted(len(folded_away), "other")
    return [
        f"Tasks{label}",
        *lines_of("task", names, kept, width),
        *(
            [f"{others}: {_known(float(folded_away['energy_j'].sum()), 'J')}; tprof summary --all shows them"]
            if len(folded_away)
            else ()
        ),
    ]


def _without_trifles(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the tasks without those of no visible share and the threads that Python's pools keep, if there are two."""
    is_trifle = (summary["share"] < _LEAST_SHARE) | summary.index.str.startswith(_POOL_THREADS)
    is_all = bool(is_trifle.all())
    return summary if is_all or is_trifle.sum() < 2 else summary[~is_trifle]


def _usual(names: Sequence[str], columns: Sequence[Column], width: int | None) -> list[Column]:
    """Return the columns that `PAGE_WIDTH` cells hold; without a terminal all the usual ones, beside whole names."""
    kept = fitting(names, columns, PAGE_WIDTH if width is None else min(width, PAGE_WIDTH))
    return kept if width is not None else [one for one in columns if not one.is_further or one in kept]


def legend_lines(summary: pd.DataFrame) -> list[str]:
    """Return the legend of the marks for figures that are not resolved."""
    known = summary["energy_high_j"].notna()
    notes = []
    if summary["energy_mean_at_most_j"].notna().any():
        notes.append(AT_MOST_NOTE)
    if (summary["resolved"] & summary["energy_mean_high_j"].isna()).any():
        notes.append(ONE_INSTANCE_NOTE)
    if not known.all():
        notes.append("–: not resolved: no valid reading of a sensor covers these instances")
    return notes


def _over_budget(profile: Profile) -> list[str]:
    """Return a line for each task with a budget for its instances: how many took more."""
    summary = profile.summary()
    if "over_budget" not in summary:
        return []
    return [
        f"{clean(name)}: over budget: {int(row['over_budget']):,} of {int(row['instances']):,} "
        f"(more than {quantity(float(row['budget_j']), 'J')} each, {profile.info['quality']})"
        for name, row in summary[summary["over_budget"].notna()].iterrows()
    ]


def _native_lines(profile: Profile, label: str) -> list[str]:
    """Return what native threads took, and after which tasks they went on spinning; no lines without any."""
    native = profile.info.get("native")
    if native is None:
        return []
    summary = profile.summary()
    spun = summary[summary["spin_j"] > 0].sort_values("spin_j", ascending=False)
    after = [f"{clean(name)} {quantity(float(row['spin_j']), 'J')}" for name, row in spun.iterrows()]
    parts = [
        f"{quantity(native['tasks_j'], 'J')} in tasks",
        *([f"spinning after {', '.join(after)}"] if after else []),
        *([f"unidentified {quantity(native['unidentified_j'], 'J')}"] if native["unidentified_j"] > 0 else []),
        *([f"outside tasks {quantity(native['outside_j'], 'J')}"] if native["outside_j"] > 0 else []),
    ]
    return [f"Native threads{label}: {quantity(native['cpu_s'], 's')} of CPU time; {'; '.join(parts)}"]


def _known(value: float, unit: str) -> str:
    return DASH if math.isnan(value) else quantity(value, unit)


def _with_interval(name: str, unit: str) -> Callable[[Row], str]:
    """Return what writes a figure with its 95 % interval, or what it is at most where it is not resolved."""
    stem, suffix = name.rsplit("_", 1)
    names = name, f"{stem}_low_{suffix}", f"{stem}_high_{suffix}"

    def cell(row: Row) -> str:
        value, low, high = (float(row[name]) for name in names)
        if math.isnan(value) or math.isnan(high):
            return DASH
        if not row["resolved"]:
            return at_most(high, unit)
        return interval(value, low, high, unit)

    return cell


def _at_most(name: str, unit: str, most: Callable[[Row], float]) -> Callable[[Row], str]:
    """Return what writes a figure, or what it is at most."""

    def cell(row: Row) -> str:
        if row["resolved"]:
            return _known(float(row[name]), unit)
        return DASH if math.isnan(high := most(row)) else at_most(high, unit)

    return cell


def _most_edp(row: Row) -> float:
    return float(row["energy_mean_at_most_j"]) * float(row["own_mean_s"])


def _deviation(row: Row) -> str:
    return DASH if row["instances"] < 2 else _known(float(row["energy_std_j"]), "J")


def _correlation(row: Row) -> str:
    value = float(row["energy_time_corr"])
    return DASH if math.isnan(value) or row["instances"] < LEAST_CORRELATED else f"{value:.2f}"


_TASK_COLUMNS: dict[str, tuple[str, Callable[[Row], str]]] = {
    "energy": ("energy", lambda row: _known(float(row["energy_j"]), "J")),
    "share": ("share", lambda row: percent(float(row["share"]))),
    "mean": ("mean (95 %)", mean_energy),
    "power": ("power", _at_most("power_w", "W", lambda row: float(row["power_high_w"]))),
    "time": ("time", lambda row: _known(float(row["duration_mean_s"]), "s")),
    "instances": ("instances", lambda row: f"{int(row['instances']):,}"),
    "dynamic": ("dynamic (95 %)", _with_interval("dynamic_j", "J")),
    "power-interval": ("power (95 %)", _with_interval("power_w", "W")),
    "own-time": ("own time", lambda row: _known(float(row["own_mean_s"]), "s")),
    "sd": ("± sd", _deviation),
    "edp": (
        "EDP",
        _at_most("edp_js", "Js", _most_edp),
    ),
    "correlation": ("corr(E, t)", _correlation),
    "gpu": ("GPU", lambda row: _known(float(row.get("gpu_j", math.nan)), "J")),
    "native": ("native", lambda row: _known(float(row.get("native_j", math.nan)), "J")),
    "spinning": ("spinning", lambda row: _known(float(row.get("spin_j", math.nan)), "J")),
    "native-time": ("native time", lambda row: _known(float(row.get("native_cpu_s", math.nan)), "s")),
}
"""By use, the most useful first; `COLUMNS` has the order in which they stand."""
