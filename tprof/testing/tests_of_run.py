"""What the tests of a run took, beside their limits and a baseline: the table at its end, and what failed."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError
from tprof.trace.plain_values import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    import pytest

    from tprof.analysis import Profile
    from tprof.analysis.compare import RunFigures
    from tprof.analysis.compare.check import Check

MOST_RUNS = 10
"""Runs that a baseline keeps, the latest ones."""


@dataclass(frozen=True)
class Failure:
    """A test that took too much, and the sentence on it."""

    test: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """Of a run: the quality of its joules, the lines of the table and notes below it, and the tests that failed."""

    quality: str
    lines: tuple[str, ...]
    failures: tuple[Failure, ...]


@dataclass(frozen=True)
class Request:
    """What was asked for.

    Attributes
    ----------
    baseline : file of the baseline; None: none
    update : whether this run is added to it
    limits : largest increases over it, by pattern of tests
    any_machine : whether it may be of another machine
    top : tests in the table
    """

    baseline: Path | None
    update: bool
    limits: Mapping[str, float]
    any_machine: bool
    top: int

    @classmethod
    def of(cls, config: pytest.Config) -> Request:
        """Read the options of pytest; a baseline that cannot be read is refused before tests run."""
        from tprof.analysis.compare.baseline import limits_of, read_baseline  # noqa: PLC0415 - the door to analysis

        file = config.getoption("energy_baseline")
        update = bool(config.getoption("energy_update"))
        if file and not (update and not os.path.lexists(file)):
            read_baseline(Path(file))
        return cls(
            baseline=Path(file).absolute() if file else None,
            update=update,
            limits=limits_of(config.getoption("energy_max_increase") or (), "--energy-max-increase"),
            any_machine=bool(config.getoption("energy_any_machine")),
            top=int(config.getoption("energy_top")),
        )

    def outcome(self, profile: Profile, reports: Mapping[str, pytest.TestReport]) -> Outcome:
        """Return what the tests took, and which of them too much. Raises TprofError."""
        from tprof.analysis.compare.inclusive import inclusive  # noqa: PLC0415 - the door to analysis

        profile = self._by_model_of_baseline(profile)
        table = inclusive(profile, reports.keys(), besides=True).groupby(level=0, sort=False).mean()
        table = table.sort_values("energy_j", ascending=False)
        quality = str(profile.info["quality"])
        failures = _over_limits(table, reports, quality)
        notes = [f"warning: {text}" for text in profile.info["warnings"] if quality == "none"]
        if self.baseline is not None:
            checked, found = self._beside_baseline(profile, table, {one.test for one in failures})
            failures += found
            notes += checked
        passed = {name for name, report in reports.items() if report.outcome == "passed"}
        failures = [one for one in failures if one.test in passed]
        return Outcome(quality, (*_lines(table, reports, self.top), *notes), tuple(failures))

    def _by_model_of_baseline(self, profile: Profile) -> Profile:
        """Return a profile by the model of the baseline. Raises UsageError if that cannot share the joules."""
        from tprof.analysis.compare.baseline import read_baseline  # noqa: PLC0415 - the door to analysis
        from tprof.analysis.compare.one_model import AUTO, cannot_share  # noqa: PLC0415 - see above

        if self.baseline is None or not os.path.lexists(self.baseline):
            return profile
        name = read_baseline(self.baseline).model
        if name in (AUTO, profile.info["model"]):
            return profile
        try:
            return profile.trace.profile(name)
        except UsageError as error:
            raise cannot_share(name, error) from None

    def _beside_baseline(
        self, profile: Profile, table: pd.DataFrame, failed: set[str]
    ) -> tuple[list[str], list[Failure]]:
        """Compare with the baseline, and add the run to it if that was asked for."""
        from tprof.analysis.compare.baseline import read_baseline, write_baseline  # noqa: PLC0415 - see above
        from tprof.analysis.compare.check import check  # noqa: PLC0415 - see above

        file, run = self.baseline, _run_of(profile, table)
        assert file is not None  # noqa: S101 - asked before
        if self.update and not os.path.lexists(file):
            write_baseline(file, [run], self.limits)
            return [
                f"{file}: made with 1 run; add more by --energy-update, as their scatter is what tests are judged by"
            ], []
        base = read_baseline(file)
        result = check(base.runs, [run], {**base.limits, **self.limits}, least_share=0.0, any_machine=self.any_machine)
        notes = [f"beside {file}: {_counts(result)}", *(f"warning: {text}" for text in result.warnings)]
        if self.update:
            runs = [*base.runs, run][-MOST_RUNS:]
            write_baseline(file, runs, {**base.limits, **self.limits})
            return [*notes, f"{file}: updated, {counted(len(runs), 'run')}"], []
        return notes, [Failure(one.task, _increase(one, result)) for one in result.over() if one.task not in failed]


def _over_limits(table: pd.DataFrame, reports: Mapping[str, pytest.TestReport], quality: str) -> list[Failure]:
    """Return the tests that surely took more than their mark allows."""
    found = []
    for name, row in table.iterrows():
        limit = _limit(reports[str(name)])
        if limit is not None and row["sure_low_j"] > limit:
            took = f"{name} took {_with_interval(row)} ({quality})"
            found.append(Failure(str(name), f"{took}, more than {_j(limit)}: @pytest.mark.energy(max_j={limit:g})"))
    return found


def _limit(report: pytest.TestReport) -> float | None:
    return next((float(value) for key, value in report.user_properties if key == "energy_max_j"), None)  # type: ignore[arg-type]


def _increase(one: Any, result: Check) -> str:
    return (
        f"{one.task} took {_j(one.now)} ({result.quality}), {100 * (one.ratio - 1):+.1f} % against the {_j(one.base)} "
        f"of {counted(result.base_runs, 'run')}; the limit is +{100 * one.limit:g} %, "
        f"chance of noise {100 * one.chance:.2g} %"
    )


def _counts(result: Check) -> str:
    states = [one.state for one in result.tasks]
    words = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    text = f"{', '.join(words) or 'no tests'} ({counted(result.base_runs, 'run')})"
    if "maybe over" in states and result.base_runs < 3:
        text += "; the scatter of so few runs decides nothing: add runs by --energy-update"
    return text


def _run_of(profile: Profile, table: pd.DataFrame) -> RunFigures:
    """Return the tests as a run's tasks; a single instance has no scatter."""
    from tprof.analysis.compare.run_figures import run_of_values  # noqa: PLC0415 - the door to analysis

    return run_of_values(profile, {"energy_mean_j": table["energy_j"], "duration_mean_s": table["duration_s"]})


def _lines(table: pd.DataFrame, reports: Mapping[str, pytest.TestReport], top: int) -> list[str]:
    if table.empty:
        return ["no test ran"]
    shown = table.head(top)
    rows = [("joules (95 %)", "time", "power", "limit", "test")]
    for name, row in shown.iterrows():
        limit = _limit(reports[str(name)])
        power_w = row["energy_j"] / row["duration_s"] if row["duration_s"] > 0 else math.nan
        cells = (
            _with_interval(row),
            _si(row["duration_s"], "s"),
            _si(power_w, "W"),
            "" if limit is None else _j(limit),
        )
        rows.append((*cells, str(name)))
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    lines = ["  ".join([*(row[place].rjust(widths[place]) for place in range(4)), row[4]]) for row in rows]
    more = len(table) - len(shown)
    return [*lines, *([f"and {more} more, of less energy each: --energy-top {len(table)} shows all"] if more else ())]


def _with_interval(row: Mapping[str, Any] | pd.Series[Any]) -> str:
    if math.isnan(row["energy_j"]):
        return "not resolved"
    return f"{_j(row['energy_j'])} ({_j(row['energy_low_j'])} … {_j(row['energy_high_j'])})"


def _j(value: float) -> str:
    return _si(value, "J")


def _si(value: float, unit: str) -> str:
    from tprof.analysis.quantities import quantity  # noqa: PLC0415 - the door to analysis

    return quantity(value, unit)
