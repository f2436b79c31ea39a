"""Accounts and tasks as tables for a terminal and as plain values for JSON."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .text_table import Column, filled, fitting, lines_of, width_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TextIO

    from tprof.analysis import Profile
    from tprof.benchmarks.validation.validation_text import Table

    Row = Mapping[Any, Any]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
NOT_RESOLVED = "not resolved"
PREFIXES = ((1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_DASH = "–"
LEAST_CORRELATED = 10  # fewer points correlate by chance


def clean(text: object) -> str:
    """Return a text whose characters that would steer a terminal are shown as escapes."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), str(text))


def quantity(value: float, unit: str) -> str:
    """Write a figure with three digits and a prefix, `not resolved` for NaN."""
    if math.isnan(value):
        return NOT_RESOLVED
    for factor, prefix in PREFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"0 {unit}" if value == 0 else f"< 1 n{unit}"


def percent(value: float) -> str:
    """Write a share."""
    return _DASH if math.isnan(value) else f"{100 * value:.1f} %"


def dump(value: Any, stream: TextIO | None = None) -> None:
    """Print strict JSON; what is not a number becomes null."""
    print(json.dumps(plain(value), allow_nan=False, indent=2), file=stream or sys.stdout)


def plain(value: Any) -> Any:
    """Turn numpy's scalars into Python's, and NaN and infinities into None."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def as_plain(profile: Profile) -> dict[str, Any]:
    """Return accounts, tasks and info as plain values."""
    tables = {"accounts": profile.accounts, "tasks": profile.summary()}
    return {
        **{name: [plain(row) for row in table.reset_index().to_dict("records")] for name, table in tables.items()},
        "info": plain(profile.info),
        **({} if profile.runtime is None else _runtime_as_plain(profile)),
    }


def _runtime_as_plain(profile: Profile) -> dict[str, Any]:
    tables = {"waits": profile.waits().reset_index(), "workers": profile.starvation}
    rows = {name: [plain(row) for row in table.to_dict("records")] for name, table in tables.items()}
    return {"runtime": plain(profile.runtime), **rows}


def show(
    profile: Profile,
    stream: TextIO,
    *,
    top: int | None = None,
    columns: Sequence[str] | None = None,
    everything: bool = False,
) -> None:
    """Print accounts, tasks, what stands behind them and warnings.

    Parameters
    ----------
    profile : what is shown
    stream : to which it is printed: a terminal gets what fits into its width, anything else the whole
    top : so many tasks only; None: all
    columns : of `COLUMNS`, those of the tasks to show; None: what there is room for
    everything : show all columns of the tasks, whatever the width
    """
    from tprof.analysis.profile.provenance import doubt_text, lead_in_text

    from .runtime_text import runtime_lines

    width = width_of(stream)
    label = f" ({profile.info['quality']})"
    tasks = _tasks(profile, label, _Shown(width, top, columns, everything))
    print(*_accounts(profile, label, width), "", *tasks, sep="\n", file=stream)
    lines = [
        *_left_open(profile),
        *filter(None, (doubt_text(profile.info), lead_in_text(profile.info))),
        *_over_budget(profile),
        *runtime_lines(profile.runtime, label),
        f"{clean(profile.info['sensor'])}; {clean(profile.info['model_why'])}",
        *(f"warning: {clean(warning)}" for warning in profile.info["warnings"]),
    ]
    print("", *(filled(text, width) for text in lines), sep="\n", file=stream)


def show_tables(tables: Iterable[Table], stream: TextIO) -> None:
    """Print tables of text, each with its note."""
    from rich import table as rich
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, width=None if stream.isatty() else 160)
    for shown in tables:
        table = rich.Table(title=shown.title, title_justify="left")
        for place, heading in enumerate(shown.headings):
            table.add_column(heading, justify="left" if place < shown.texts else "right", overflow="fold")
        for row in shown.rows:
            table.add_row(*(Text(clean(cell)) for cell in row))
        console.print(table)
        console.print(Text(shown.note))
        console.print()


def _accounts(profile: Profile, label: str, width: int | None) -> list[str]:
    """Return a line a domain; of one that is not resolved that is said once."""
    accounts = profile.accounts
    columns = []
    for name in ("measured_j", "tasks_j", "runtime_j", "other_j", "idle_j"):
        heading = name.removesuffix("_j")
        if name == "measured_j":
            heading = "estimated" if profile.info["quality"] == "estimated" else heading
            cells = tuple(quantity(float(value), "J") for value in accounts[name])
        else:
            cells = tuple(_known(float(value), "J") for value in accounts[name])
        columns.append(Column(heading, cells))
    return [f"Accounts{label}", *lines_of("domain", [clean(name) for name in accounts.index], columns, width)]


@dataclass(frozen=True)
class _Shown:
    """What of the tasks is shown: on how wide a terminal, how many, which columns."""

    width: int | None
    top: int | None
    columns: Sequence[str] | None
    everything: bool


def _tasks(profile: Profile, label: str, shown: _Shown) -> list[str]:
    summary = profile.summary()
    table = summary if shown.top is None else summary.head(shown.top)
    rows: list[Row] = list(table.to_dict("records"))
    names = [clean(name) for name in table.index]
    columns = {
        key: Column(heading, tuple(cell(row) for row in rows), use, is_further=key not in DEFAULT_COLUMNS)
        for use, (key, (heading, cell)) in enumerate(reversed(_TASK_COLUMNS.items()))
    }
    in_order = [columns[key] for key in dict.fromkeys(shown.columns or COLUMNS) if key != "task"]
    asked = shown.everything or shown.columns is not None
    kept = in_order if asked else fitting(names, in_order, shown.width)
    # What was asked for is shown whole, in a narrow terminal on lines that it folds.
    width = None if asked and len(fitting(names, in_order, shown.width)) < len(in_order) else shown.width
    more = len(summary) - len(table)
    return [
        f"Tasks{label}",
        *lines_of("task", names, kept, width),
        *([f"and {more:,} more tasks, of less energy each: tprof summary shows all"] if more else ()),
    ]


def _left_open(profile: Profile) -> list[str]:
    """Say once what the marks of figures that are not resolved stand for."""
    summary = profile.summary()
    known = summary["energy_mean_high_j"].notna()
    notes = []
    if (known & ~summary["resolved"]).any():
        notes.append(
            "≤: not resolved: the 95 % interval of the mean energy above static power reaches zero, and this is its "
            "upper end; longer runs and more instances narrow it"
        )
    if not known.all():
        notes.append("–: not resolved: no valid reading of a sensor covers these instances")
    return notes


def _over_budget(profile: Profile) -> list[str]:
    """Say which tasks had a budget for their instances, and how many took more."""
    summary = profile.summary()
    if "over_budget" not in summary:
        return []
    return [
        f"{clean(name)}: over budget: {int(row['over_budget']):,} of {int(row['instances']):,} "
        f"(more than {quantity(float(row['budget_j']), 'J')} each, {profile.info['quality']})"
        for name, row in summary[summary["over_budget"].notna()].iterrows()
    ]


def _known(value: float, unit: str) -> str:
    return _DASH if math.isnan(value) else quantity(value, unit)


def _mean(row: Row) -> str:
    """Write a mean with its 95 % interval in the mean's unit, or what it is at most where it is not resolved."""
    mean_j, low_j, high_j = (float(row[name]) for name in ("energy_mean_j", "energy_mean_low_j", "energy_mean_high_j"))
    if math.isnan(mean_j) or math.isnan(high_j):
        return _DASH
    if not row["resolved"]:
        return f"≤ {quantity(high_j, 'J')}"
    factor, prefix = next(((factor, prefix) for factor, prefix in PREFIXES if mean_j >= factor), PREFIXES[-1])
    low, mean, high = (f"{value / factor:.3g}" for value in (low_j, mean_j, high_j))
    return f"{mean} ({low} … {high}) {prefix}J"


def _at_most(name: str, unit: str, per_mean: Callable[[Row], float]) -> Callable[[Row], str]:
    """Return what writes a figure that goes with the mean energy, or what it is at most."""

    def cell(row: Row) -> str:
        value, high = float(row[name]), float(row["energy_mean_high_j"]) * per_mean(row)
        if math.isnan(value) or math.isnan(high):
            return _DASH
        return quantity(value, unit) if row["resolved"] else f"≤ {quantity(high, unit)}"

    return cell


def _deviation(row: Row) -> str:
    return _DASH if row["instances"] < 2 else _known(float(row["energy_std_j"]), "J")


def _correlation(row: Row) -> str:
    value = float(row["energy_time_corr"])
    return _DASH if math.isnan(value) or row["instances"] < LEAST_CORRELATED else f"{value:.2f}"


def _per_own_s(row: Row) -> float:
    own_s = float(row["own_mean_s"])
    return 1 / own_s if own_s > 0 else math.nan


_TASK_COLUMNS: dict[str, tuple[str, Callable[[Row], str]]] = {
    "energy": ("energy", lambda row: _known(float(row["energy_j"]), "J")),
    "share": ("share", lambda row: percent(float(row["share"]))),
    "mean": ("mean (95 %)", _mean),
    "power": ("power", _at_most("power_w", "W", _per_own_s)),
    "time": ("time", lambda row: _known(float(row["duration_mean_s"]), "s")),
    "instances": ("instances", lambda row: f"{int(row['instances']):,}"),
    "own-time": ("own time", lambda row: _known(float(row["own_mean_s"]), "s")),
    "sd": ("± sd", _deviation),
    "edp": ("EDP", _at_most("edp_js", "Js", lambda row: float(row["own_mean_s"]))),
    "correlation": ("corr(E, t)", _correlation),
}
"""By use, the most useful first; `COLUMNS` has the order in which they stand."""
COLUMNS = (
    "task", "instances", "energy", "share", "mean", "time", "power", "own-time", "sd", "edp", "correlation",
)  # fmt: skip
DEFAULT_COLUMNS = frozenset(COLUMNS[:7])
