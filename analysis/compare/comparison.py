"""Two sides of runs compared task by task, worst first."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tprof.errors import UsageError
from tprof.trace.plain_values import counted

from .circumstances import Likeness, likeness
from .evidence import Difference, Estimate, difference, holm
from .figure_texts import LEVEL
from .headline import headline
from .one_model import models_of
from .run_figures import ENERGIES, FIGURES, RunFigures, figures_of
from .sides import ends_of, estimates, totals_of

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from tprof.analysis.emissions import Footprint, Rates
    from tprof.analysis.profile import Profile

MORE, LESS, UNCLEAR, UNKNOWN = "more", "less", "unclear", "unknown"
ONLY_A, ONLY_B = "only in A", "only in B"
_ORDER = {MORE: 0, ONLY_B: 0, LESS: 1, ONLY_A: 1, UNCLEAR: 2, UNKNOWN: 2}
SURE = (MORE, LESS, ONLY_A, ONLY_B)
UNRESOLVED = ("energy_mean_j", "power_w")
"""The figures that are shown by their upper end where the mean energy is not resolved."""
_FORKED = " (forked)"
"""What follows the program's name in the name of its forked processes' task."""
ONE_RUN = (
    "one run a side: what runs of the same program differ by as wholes is not in the chance of noise; record several "
    "and compare them by: tprof compare A1 A2 A3 vs B1 B2 B3"
)


@dataclass(frozen=True, repr=False)
class Comparison:
    """What changed between two sides, A and B.

    Attributes
    ----------
    a, b : the runs of each side
    tasks : one row per task (index `task`), or per group of `info["grouped_by"]` (index of these names); what takes
        more first, then what takes less, then what is not sure. instances_a and _b (mean of the runs), cores_a and _b,
        packages_a and _b, frequency_a_hz and _b_hz. Of energy_mean_j, energy_j, duration_mean_s, own_mean_s, power_w,
        for example: energy_mean_a_j, energy_mean_b_j, energy_mean_difference_j, energy_mean_low_j and _high_j (95 % of
        the difference), energy_mean_ratio, energy_mean_ratio_low and _high, energy_mean_chance (of such a difference
        if nothing had changed), energy_mean_noise (the same, corrected by Holm's method for the number of tasks).
        energy_mean_at_most_a_j and _b_j, power_at_most_a_w and _b_w: the upper end of a mean that is not resolved.
        `change`: "more", "less", "unclear" (it may be noise), "unknown" (nothing says how large noise is), "only in A",
        "only in B". `total_change`: the same of the joules of all instances, where these are judged apart
    totals : index `figure` (energy_j, program_j: all but other programs and idle, tasks_j, runtime_j, other_j, idle_j,
        duration_s): a, b, difference, low, high, ratio, ratio_low, ratio_high, chance
    info : quality, by (the figure that `change` is about), grouped_by (names of labels; none for tasks), level,
        within_run (whether each side is one run, so that the chances do not include what runs differ by as wholes),
        method, model (that shared all joules), model_why (if it is not the one that `auto` takes for each run), and
        warnings
    """

    a: tuple[RunFigures, ...]
    b: tuple[RunFigures, ...]
    tasks: pd.DataFrame
    totals: pd.DataFrame
    info: dict[str, Any]

    def as_plain(self) -> dict[str, Any]:
        """Return all of it as plain values; NaN and infinity are left to the writer."""
        sides = {
            name: [{"name": run.name, "path": run.path, "measured": dict(run.circumstances)} for run in side]
            for name, side in (("a", self.a), ("b", self.b))
        }
        tables = {"totals": self.totals, "by" if self.info["grouped_by"] else "tasks": self.tasks}
        rows = {name: table.reset_index().to_dict("records") for name, table in tables.items()}
        return {"answer": headline(self).as_plain(), **sides, **rows, "info": self.info}

    def footprints(self, rates: Rates) -> dict[str, dict[str, Any]]:
        """Return what the mean joules of a run on each side emitted and cost, as plain values."""
        return {side: self._footprint(side, rates).as_plain() for side in ("a", "b")}

    def footprint_text(self, rates: Rates) -> str:
        """Return a sentence on what both sides emitted and cost."""
        return f"A: {self._footprint('a', rates).figures()}; B: {self._footprint('b', rates).text()}"

    def _footprint(self, side: str, rates: Rates) -> Footprint:
        from tprof.analysis.emissions import Footprint  # noqa: PLC0415 - loaded when used

        runs = self.a if side == "a" else self.b
        covers = dict.fromkeys(name for run in runs for name in str(run.circumstances["domains"]).split(", ") if name)
        quality = " and ".join(dict.fromkeys(str(run.circumstances["quality"]) for run in runs))
        joules = float(self.totals[side].loc["energy_j"])
        return Footprint(joules, math.nan, math.nan, quality, rates, tuple(covers))

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page of one self-contained HTML file."""
        from tprof.analysis.report.compare_page import write_page  # noqa: PLC0415 - loaded when used

        write_page(self, path)

    def __repr__(self) -> str:
        """Describe the comparison in one line."""
        changes = self.tasks["change"].value_counts()
        found = ", ".join(f"{count} {change}" for change, count in changes.items()) or "no tasks"
        return f"<Comparison of {side_name(self.a)} (A) with {side_name(self.b)} (B): {found}>"


def side_name(side: Sequence[RunFigures]) -> str:
    """Return what a side is called: its session, or the first of several with their number."""
    return side[0].name if len(side) == 1 else f"{side[0].name} and {len(side) - 1} more"


def compare(
    a: Profile | Sequence[Profile],
    b: Profile | Sequence[Profile],
) -> Comparison:
    """Compare profiles, or several profiles a side.

    Raises
    ------
    UsageError
        If a side has no profile, both sides are the same session, or the profile of a job has no instances.
    """
    sides = [[figures_of(one) for one in (side if isinstance(side, (list, tuple)) else (side,))] for side in (a, b)]
    return compare_runs(*sides)


def compare_runs(
    a: Sequence[RunFigures], b: Sequence[RunFigures], *, grouped_by: Sequence[str] = (), model_why: str = ""
) -> Comparison:
    """Compare runs whose figures were taken before. Raises UsageError as `compare`.

    Parameters
    ----------
    a, b : both sides
    grouped_by : what their figures are of: groups by these labels, or tasks if there are none
    model_why : why all are shared by this power model, if it is not the one that suits each best
    """
    _check(a, b)
    a, b = _named_apart(a, b)
    a, b = _with_one_program(a, b)
    like = likeness([run.circumstances for run in a], [run.circumstances for run in b])
    names = list(dict.fromkeys(name for run in (*b, *a) for name in run.tasks))
    figures = {name: _compared(name, a, b, names, like) for name in FIGURES}
    by = _judged_by(like, grouped_by)
    table = pd.concat([_where(a, b, names), *(_columns(name, parts, names) for name, parts in figures.items())], axis=1)
    table = table.assign(**_ends(a, b, names, like))
    table = table.assign(change=_changes(table, _column(by, "noise"), figures[by]))
    # Instances may be fewer while each takes the same: what all took is judged by itself.
    total = _changes(table, "energy_noise", figures["energy_j"]) if by == "energy_mean_j" else table["change"]
    table = table.assign(total_change=total)
    table.index.name = " ".join(grouped_by) or "task"
    totals = _totals(a, b, like)
    info = {
        "quality": _qualities(a, b),
        "by": by,
        "grouped_by": list(grouped_by),
        "level": LEVEL,
        "within_run": len(a) == len(b) == 1,
        "method": _method(a, b, counted(len(names), "group" if grouped_by else "task")),
        "model": " or ".join(models_of(run.circumstances for run in (*a, *b))),
        "model_why": model_why,
        "unread": list(like.unread),
        "warnings": [*like.warnings, *_without_common(table), *_of_runs(a, b)],
    }
    return Comparison(tuple(a), tuple(b), _worst_first(table, by), totals, info)


def _judged_by(like: Likeness, grouped_by: Sequence[str]) -> str:
    """Return the figure that is judged: instances of a group are unlike, so their sum counts."""
    if grouped_by:
        return "energy_j" if like.has_energy else "own_mean_s"
    return "energy_mean_j" if like.has_energy else "duration_mean_s"


def _check(a: Sequence[RunFigures], b: Sequence[RunFigures]) -> None:
    if not a or not b:
        raise UsageError(f"side {'B' if a else 'A'} has no run: give each side a session")
    both = {run.path for run in a} & {run.path for run in b}
    if both:
        raise UsageError(f"{min(both)} is on both sides: a session compared with itself shows no difference")
    for side in (a, b):
        paths = [run.path for run in side]
        if len(set(paths)) < len(paths):
            raise UsageError(f"{max(paths, key=paths.count)} is given twice on one side: give each run once")


def _named_apart(a: Sequence[RunFigures], b: Sequence[RunFigures]) -> tuple[Sequence[RunFigures], Sequence[RunFigures]]:
    """Give runs of one name the folders before it, as many as tell all runs apart."""
    paths, depth = [Path(run.path).parts for run in (*a, *b)], 1
    while len({path[-depth:] for path in paths}) < len(paths):
        depth += 1
    if depth == 1:
        return a, b
    named = [replace(run, name="/".join(path[-depth:])) for run, path in zip((*a, *b), paths, strict=True)]
    return named[: len(a)], named[len(a) :]


def _with_one_program(
    a: Sequence[RunFigures], b: Sequence[RunFigures]
) -> tuple[Sequence[RunFigures], Sequence[RunFigures]]:
    """Give the program one name if it was saved under another before it was changed, as in before.py and after.py."""
    names_a, names_b = ({run.program_task for run in side} for side in (a, b))
    before, after = (next(iter(names)) if len(names) == 1 else None for names in (names_a, names_b))
    if before is None or after is None or before == after:
        return a, b
    tasks_a, tasks_b = ({name for run in side for name in run.tasks} for side in (a, b))
    if before in tasks_b or after in tasks_a:
        return a, b
    both = {f"{old}{part}": f"{before} → {after}{part}" for part in ("", _FORKED) for old in (before, after)}
    return [run.renamed(both) for run in a], [run.renamed(both) for run in b]


def _compared(
    name: str, a: Sequence[RunFigures], b: Sequence[RunFigures], names: Sequence[str], like: Likeness
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Difference]:
    frames_a, frames_b = ([run.figures[name] for run in side] for side in (a, b))
    first, second, is_shared = estimates(frames_a, frames_b, names, common=not like.shares_error)
    if name in ENERGIES and not like.has_energy:
        first = second = _nothing(first)
    return first.value, second.value, difference(first, second, is_shared=is_shared)


def _ends(
    a: Sequence[RunFigures], b: Sequence[RunFigures], names: Sequence[str], like: Likeness
) -> dict[str, np.ndarray[Any, Any]]:
    """Return what figures that are not resolved are at most."""
    columns = {
        _column(name, f"at_most_{key}"): ends_of([run.figures[name] for run in side], names)
        for name in UNRESOLVED
        for key, side in (("a", a), ("b", b))
    }
    return columns if like.has_energy else {name: np.full(len(names), math.nan) for name in columns}


def _nothing(like: Estimate) -> Estimate:
    unknown = np.full(len(like.value), math.nan)
    return Estimate(unknown, unknown, unknown, unknown, unknown)


def _column(figure: str, part: str) -> str:
    """Return the column of a part of a figure: a unit stays at the end, ratios and chances have none."""
    stem, unit = figure[:-2], figure[-2:]
    has_unit = part.startswith("at_most") or part in ("a", "b", "difference", "low", "high")
    return f"{stem}_{part}{unit}" if has_unit else f"{stem}_{part}"


def _columns(
    figure: str, parts: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Difference], names: Sequence[str]
) -> pd.DataFrame:
    a, b, found = parts
    values = {"a": a, "b": b, **found._asdict(), "noise": holm(found.chance)}
    return pd.DataFrame({_column(figure, part): value for part, value in values.items()}, index=_index(names))


def _index(names: Sequence[str]) -> pd.Index[str]:
    return pd.Index(list(names), dtype=object, name="task")


def _where(a: Sequence[RunFigures], b: Sequence[RunFigures], names: Sequence[str]) -> pd.DataFrame:
    """Return how often and where the tasks ran on each side."""
    table = pd.DataFrame(index=_index(names))
    for key, side in (("a", a), ("b", b)):
        frames = [run.where.reindex(list(names)) for run in side]
        counts = pd.concat([frame["instances"] for frame in frames], axis=1)
        table[f"instances_{key}"] = counts.mean(axis=1).fillna(0.0)
        for column in ("cores", "packages"):
            table[f"{column}_{key}"] = [
                tuple(sorted({place for value in values for place in _places(value)}))
                for values in zip(*(frame[column] for frame in frames), strict=True)
            ]
        table[f"frequency_{key}_hz"] = pd.concat([frame["frequency_hz"] for frame in frames], axis=1).mean(axis=1)
    return table


def _places(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else ()


def _changes(table: pd.DataFrame, noise: str, parts: tuple[Any, Any, Difference]) -> list[str]:
    found = []
    rows = zip(table["instances_a"], table["instances_b"], table[noise], parts[2].difference, strict=True)
    for count_a, count_b, chance, away in rows:
        if count_a == 0 or count_b == 0:
            found.append(ONLY_B if count_a == 0 else ONLY_A)
        elif math.isnan(chance):
            found.append(UNKNOWN)
        else:
            found.append(UNCLEAR if chance >= LEVEL else MORE if away > 0 else LESS)
    return found


def sums_of(table: pd.DataFrame, by: str) -> tuple[pd.Series[float], pd.Series[float]]:
    """Return what all instances of each task took on both sides, in joules, or in seconds if `by` is a time."""
    each, unit = ("energy", "_j") if by.startswith("energy") else (by[:-2], by[-2:])
    a, b = (
        table[f"{each}_{side}{unit}"].fillna(0.0) * (1.0 if each == "energy" else table[f"instances_{side}"])
        for side in "ab"
    )
    return a, b


def _worst_first(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return the table ordered: what takes more, and what takes less, by the change of the sum; the rest by the sum."""
    a, b = sums_of(table, by)
    size = (b - a).abs().where(table["total_change"].isin(SURE), np.maximum(a, b))
    keys = pd.DataFrame({"order": table["total_change"].map(_ORDER), "size": -size})
    return table.loc[keys.sort_values(["order", "size"], kind="stable").index]


def _totals(a: Sequence[RunFigures], b: Sequence[RunFigures], like: Likeness) -> pd.DataFrame:
    names = ["measured_j", "program_j", "tasks_j", "runtime_j", "other_j", "idle_j", "duration_s"]
    first, second, is_shared = estimates(totals_of(a), totals_of(b), names, common=False)
    found = difference(first, second, is_shared=is_shared)
    index = pd.Index(["energy_j", *names[1:]], name="figure")
    table = pd.DataFrame({"a": first.value, "b": second.value, **found._asdict()}, index=index)
    joules = [name for name in index if name.endswith("_j")]
    if not like.has_energy:
        table.loc[joules, :] = math.nan
    elif not like.shares_error:  # intervals would be those of the runs' scatter alone
        table.loc[joules, ["low", "high", "ratio_low", "ratio_high", "chance"]] = math.nan
    return table


def _qualities(a: Sequence[RunFigures], b: Sequence[RunFigures]) -> str:
    found = {str(run.circumstances["quality"]) for run in (*a, *b)}
    return found.pop() if len(found) == 1 else "mixed"


def _method(a: Sequence[RunFigures], b: Sequence[RunFigures], count: str) -> str:
    corrected = f"corrected by Holm's method for {count}"
    if len(a) > 1 and len(b) > 1:
        return f"Welch's t test of the means of {len(a)} and {len(b)} runs, {corrected}"
    if len(a) > 1 or len(b) > 1:
        return f"t test of one run against the scatter of {max(len(a), len(b))}, {corrected}"
    return f"Welch's t test by the scatter of instances within one run a side and the attribution's error, {corrected}"


def _without_common(table: pd.DataFrame) -> list[str]:
    if len(table) and not ((table["instances_a"] > 0) & (table["instances_b"] > 0)).any():
        return ["no task is on both sides, so only the totals can be compared"]
    return []


def _of_runs(a: Sequence[RunFigures], b: Sequence[RunFigures]) -> list[str]:
    return [] if len(a) > 1 or len(b) > 1 else [ONE_RUN]
