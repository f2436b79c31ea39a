"""Accounts and tasks as tables for a terminal and as plain values for JSON."""

from __future__ import annotations

import json
import math
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from tprof.analysis import Profile
    from tprof.benchmarks.validation.show import Table

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
NOT_RESOLVED = "not resolved"
LONGEST_NAME = 80
LEAST_CORRELATED = 10  # fewer points correlate by chance


def clean(text: object) -> str:
    """Return a text whose characters that would steer a terminal are shown as escapes."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), str(text))


def quantity(value: float, unit: str) -> str:
    """Write a figure with three digits and a prefix, `not resolved` for NaN."""
    if math.isnan(value):
        return NOT_RESOLVED
    for factor, prefix in ((1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"0 {unit}" if value == 0 else f"< 1 n{unit}"


def percent(value: float) -> str:
    """Write a share."""
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


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


def show(profile: Profile, stream: TextIO, *, top: int | None = None) -> None:
    """Print accounts, tasks, what stands behind them and warnings."""
    from rich.console import Console
    from rich.text import Text

    from tprof.analysis.info import doubt_text

    from .runtime_text import runtime_lines

    console = Console(file=stream, highlight=False, width=None if stream.isatty() else 160)
    label = f" ({profile.info['quality']})"
    console.print(_accounts(profile, label))
    console.print(_tasks(profile, label, top))
    doubt = doubt_text(profile.info)
    lines = [*([doubt] if doubt else ()), *_unresolved(profile), *_over_budget(profile)]
    for line in (*lines, *runtime_lines(profile.runtime, label)):
        console.print(Text(line))
    console.print(Text(f"{clean(profile.info['sensor'])}; {clean(profile.info['model_why'])}"))
    for warning in profile.info["warnings"]:
        console.print(Text(f"warning: {clean(warning)}"))


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


def _accounts(profile: Profile, label: str) -> Any:
    from rich.table import Table

    table = Table(title=f"Accounts{label}", title_justify="left")
    table.add_column("domain")
    names = ["measured_j", "tasks_j", "runtime_j", "other_j", "idle_j"]
    for name in names:
        heading = name.removesuffix("_j")
        estimated = name == "measured_j" and profile.info["quality"] == "estimated"
        table.add_column("estimated" if estimated else heading, justify="right")
    for domain, row in profile.accounts.iterrows():
        table.add_row(clean(domain), *(quantity(float(row[name]), "J") for name in names))
    return table


def _tasks(profile: Profile, label: str, top: int | None) -> Any:
    from rich.table import Table

    table = Table(title=f"Tasks{label}", title_justify="left")
    headings = (
        "instances", "energy", "share", "mean", "95 % interval", "± sd", "time", "own time", "power", "EDP",
        "corr(E, t)",
    )  # fmt: skip
    table.add_column("task", overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    summary = profile.summary()
    for name, row in (summary if top is None else summary.head(top)).iterrows():
        correlation = float(row["energy_time_corr"])
        table.add_row(
            _escape(name),
            f"{int(row['instances']):,}",
            quantity(float(row["energy_j"]), "J"),
            percent(float(row["share"])),
            quantity(float(row["energy_mean_j"]), "J") if row["resolved"] else NOT_RESOLVED,
            _interval(float(row["energy_mean_low_j"]), float(row["energy_mean_high_j"])),
            "–" if row["instances"] < 2 else quantity(float(row["energy_std_j"]), "J"),
            quantity(float(row["duration_mean_s"]), "s"),
            quantity(float(row["own_mean_s"]), "s"),
            quantity(float(row["power_w"]), "W") if row["resolved"] else NOT_RESOLVED,
            quantity(float(row["edp_js"]), "Js") if row["resolved"] else NOT_RESOLVED,
            "–" if math.isnan(correlation) or row["instances"] < LEAST_CORRELATED else f"{correlation:.2f}",
        )
    return table


def _unresolved(profile: Profile) -> list[str]:
    if profile.summary()["resolved"].all():
        return []
    why = "the 95 % interval of the mean energy above static power reaches zero"
    return [f"not resolved: {why}; longer runs and more instances narrow it"]


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


def _interval(low_j: float, high_j: float) -> str:
    if math.isnan(low_j) or math.isnan(high_j):
        return NOT_RESOLVED
    return f"{quantity(low_j, 'J')} … {quantity(high_j, 'J')}"


def _escape(name: object) -> Any:
    from rich.text import Text

    shown = clean(name)
    return Text(shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 1]}…")
