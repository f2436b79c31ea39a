"""What one run says of its tasks: each figure with its variance, its bias, and where the tasks ran.

A figure of one run scatters for two reasons: instances differ (`scatter`), and the attribution errs, by the sensor's
resolution, the fit or the model, as the profile's intervals say.

What another run of the same program would do differently as a whole is in neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd
from tprof.analysis.operating_points.scales import NORMAL_95

from .circumstances import circumstances_of
from .evidence import SURE_DF
from .scatter import Counts, Ended, Spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.profile import Profile
    from tprof.analysis.profile.instances import Instances, InstanceTable, Piece, Progress

    Summaries = tuple[pd.DataFrame, pd.DataFrame]
    """Of tasks: with the errors that all of them share, and without."""
    Compared = tuple[dict[str, pd.DataFrame], pd.DataFrame]
    """`RunFigures.figures` and `where`."""

FIGURES = ("energy_mean_j", "energy_j", "duration_mean_s", "own_mean_s", "power_w")
"""What is compared of each task: joules of an instance and of all, seconds of an instance, watts."""
ENERGIES = frozenset({"energy_mean_j", "energy_j", "power_w"})
ACCOUNTS = ("measured_j", "tasks_j", "runtime_j", "other_j", "idle_j")


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run.

    Attributes
    ----------
    name : of the session
    path : of the session
    figures : of each of `FIGURES` a frame with index `task`: value, variance and df (NaN for a single instance), below
        and above (bounds of what native threads may add), common_below and common_above (further bounds, by the error
        of watts or of the sensor that all tasks share). Of energy_mean_j and power_w of tasks also at_most: the upper
        end where the summary does not resolve the mean energy, else NaN
    where : index `task`: instances, cores and packages (their numbers, in order), frequency_hz (mean, NaN if the
        recording has no cycles)
    totals : duration_s, program_j (all but other programs and idle) and of `ACCOUNTS` those that are known
    circumstances : how it was measured
    warnings : of the profile
    program_task : the name of the task that stands for the whole program, if the program named none
    """

    name: str
    path: str
    figures: Mapping[str, pd.DataFrame]
    where: pd.DataFrame
    totals: Mapping[str, float]
    circumstances: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    program_task: str | None = None

    def renamed(self, names: Mapping[str, str]) -> RunFigures:
        """Return the same figures with other names of tasks."""
        figures = {figure: frame.rename(index=names) for figure, frame in self.figures.items()}
        return replace(self, figures=figures, where=self.where.rename(index=names))

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks that ran, by falling energy."""
        return [str(name) for name in self.where.index]


def figures_of(profile: Profile, *, by: Sequence[str] = (), progress: Progress | None = None) -> RunFigures:
    """Return the figures of a profile.

    Parameters
    ----------
    profile : of a session or a job. One without its table of instances is shared once more, and the parts of such a
        job are read again
    by : ``"host"`` or names of labels, as for `Profile.by`: the figures are then those of groups instead of tasks
    progress : called with what is done, how many windows are, and how many there are

    Raises
    ------
    UsageError
        If no process has a label that `by` names, or the table of instances is needed for that and does not fit.
    """
    summaries = profile.summary(), profile.summary(common=False)
    figures, where = _of_groups(profile, summaries, by) if by else _of_tasks(profile, summaries, progress)
    return RunFigures(
        profile.trace.path.name,
        str(profile.trace.path.resolve()),
        figures,
        where,
        {"duration_s": float(profile.info["duration_s"]), **_accounts(profile.counted_accounts)},
        circumstances_of(profile),
        tuple(str(text) for text in profile.info["warnings"]),
        profile.trace.program_task if profile.has_samples and not by else None,
    )


def _of_tasks(profile: Profile, summaries: Summaries, progress: Progress | None) -> Compared:
    """Return the figures of tasks and where these ran, from each host's instances as they end."""
    names = pd.Index(profile.sums.names, dtype=object)
    ask = partial(_of_host, names=names, whole=Counts.of(profile.sums), has_hosts=profile.job is not None)
    found = [one for *_, one in profile.each(ask, progress)]
    spread, places = found[0]
    for other_spread, other_places in found[1:]:
        spread.join(other_spread)
        places.join(other_places)
    return {name: _figure(name, *summaries, spread) for name in FIGURES}, places.table(summaries[0])


def _of_host(
    host: str | None,
    instances: Instances | InstanceTable,
    *,
    names: pd.Index[Any],
    whole: Counts,
    has_hosts: bool,
    progress: Progress | None = None,
) -> tuple[Spread, Places]:
    sums = instances.sums
    spread, places = Spread(names, Counts.of(sums).of_tasks(sums.names, names), whole), Places()
    ended = Ended(instances, spread)

    def add(piece: Piece) -> None:
        places.add(piece.tasks.assign(host=host) if has_hosts else piece.tasks)
        ended.add(piece)

    instances.share(add, progress)
    return spread, places


def _of_groups(profile: Profile, summaries: Summaries, by: Sequence[str]) -> Compared:
    from .group_figures import group_figures  # noqa: PLC0415 - it uses what is here

    tasks = profile.tasks if profile.job is not None else profile.tasks.assign(host=profile.hostname)
    return group_figures(tasks, profile.own_s, summaries, by)


def run_of_values(profile: Profile, values: Mapping[str, pd.Series[float]]) -> RunFigures:
    """Return a run whose tasks have given figures, one instance each; their own scatter is not known.

    Parameters
    ----------
    profile : from which totals and circumstances are
    values : energy_mean_j and duration_mean_s, index `task`
    """
    unknown = {"variance": math.nan, "df": math.nan}
    bias = dict.fromkeys(("below", "above", "common_below", "common_above"), 0.0)
    given = {**values, "energy_j": values["energy_mean_j"]}
    return RunFigures(
        profile.trace.path.name,
        str(profile.trace.path.resolve()),
        {name: pd.DataFrame({"value": value}).assign(**unknown, **bias) for name, value in given.items()},
        pd.DataFrame({"instances": 1.0}, index=values["energy_mean_j"].index),
        {"duration_s": float(profile.info["duration_s"]), **profile.counted_accounts},
        circumstances_of(profile),
    )


def _accounts(totals: Mapping[str, float]) -> dict[str, float]:
    """Return the accounts, and what the program took: all that is neither other programs nor idle."""
    found = {name: totals.get(name, math.nan) for name in ACCOUNTS}
    rest_j = sum(value for name in ("other_j", "idle_j") if math.isfinite(value := found[name]))
    return {"program_j": found["measured_j"] - rest_j, **found}


def _figure(name: str, summary: pd.DataFrame, alone: pd.DataFrame, spread: Spread) -> pd.DataFrame:
    """Return a figure of each task with its errors."""
    stem = name.removesuffix("_j").removesuffix("_s").removesuffix("_w").removesuffix("_mean")
    errors = spread.errors(stem).reindex(summary.index)
    frame = pd.DataFrame({"value": summary[name], **errors}, index=summary.index)
    if name not in ENERGIES:
        return frame.assign(below=0.0, above=0.0, common_below=0.0, common_above=0.0)
    resolved = summary["energy_j"] / summary["energy_mean_j"].where(summary["energy_mean_j"] > 0)
    # From the joules of all instances to the figure, and from the scatter of a mean to it.
    to_figure: Any = {
        "energy_j": 1.0,
        "energy_mean_j": 1 / resolved,
        "power_w": (summary["power_w"] / summary["energy_j"].where(summary["energy_j"] > 0)),
    }[name]
    if name == "energy_j":
        frame["variance"] *= resolved**2
    reach = {side: part * to_figure for side, part in reach_of(summary, alone).items()}
    attributed = (reach.pop("random") / NORMAL_95) ** 2
    scatter, df = frame["variance"], frame["df"]
    frame["variance"] = scatter + attributed
    weight = (scatter / frame["variance"]).where(frame["variance"] > 0, 1.0)
    frame["df"] = (df / weight**2).clip(upper=SURE_DF)
    frame = frame.assign(**reach)
    return frame if name == "energy_j" else frame.assign(at_most=_end(name, summary))


def _end(name: str, summary: pd.DataFrame) -> pd.Series[float]:
    """Return the upper ends of a figure that goes with the mean energy, where that is not resolved."""
    if name == "energy_mean_j":
        return summary["energy_mean_at_most_j"]
    return summary["power_high_w"].where(~summary["resolved"].astype(bool))


def reach_of(summary: pd.DataFrame, alone: pd.DataFrame) -> dict[str, pd.Series]:
    """Return how far the joules of all instances of a task may be off, by reason.

    An interval does not go below zero, so where it ends there, its upper half stands for the lower.
    """
    value = summary["dynamic_j"]
    above = (alone["dynamic_high_j"] - value).clip(lower=0)
    below = (value - alone["dynamic_low_j"]).where(alone["dynamic_low_j"] > 0, above).clip(lower=0)
    native = summary["native_high_j"] - summary["native_j"] if "native_j" in summary else 0.0 * value
    random = (above - native).clip(lower=0)
    return {
        "random": random,
        "below": (below - random).clip(lower=0),
        "above": native.clip(lower=0),
        "common_below": (alone["energy_low_j"] - summary["energy_low_j"]).clip(lower=0),
        "common_above": (summary["energy_high_j"] - alone["energy_high_j"]).clip(lower=0),
    }


class Places:
    """Where tasks ran, by instances that are added in any order."""

    def __init__(self) -> None:
        """Begin with none."""
        self._pairs = {name: pd.DataFrame({"task": []}) for name in ("cores", "packages")}
        self._sums: pd.DataFrame | None = None

    def add(self, tasks: pd.DataFrame) -> None:
        """Add instances."""
        for name, source in (("cores", "cpu"), ("packages", "package")):
            keys = [source] if "host" not in tasks else ["host", source]
            pairs = tasks.loc[tasks[source] >= 0, ["task", *keys]].drop_duplicates().astype({"task": object})
            self._pairs[name] = pd.concat([self._pairs[name], pairs]).drop_duplicates()
        if "cycles" in tasks:
            sums = tasks.groupby("task", observed=True, sort=False)[["cycles", "cpu_s"]].sum()
            sums.index = sums.index.astype(object)
            self._sums = sums if self._sums is None else self._sums.add(sums, fill_value=0.0)

    def join(self, other: Places) -> None:
        """Add those of others."""
        for name, pairs in other._pairs.items():
            self._pairs[name] = pd.concat([self._pairs[name], pairs]).drop_duplicates()
        if other._sums is not None:
            self._sums = other._sums if self._sums is None else self._sums.add(other._sums, fill_value=0.0)

    def table(self, summary: pd.DataFrame) -> pd.DataFrame:
        """Return the instances, cores, packages and frequency of each task of a summary."""
        frame = pd.DataFrame({"instances": summary["instances"]}, index=summary.index)
        for name, pairs in self._pairs.items():
            keys = list(pairs.columns[1:])
            texts = pairs[keys].astype(str).agg(" ".join, axis=1) if len(keys) > 1 else pairs[keys[0]].astype(int)
            grouped = texts.groupby(pairs["task"])
            found = grouped.agg(lambda one: tuple(sorted(one)))  # type: ignore[type-var]
            frame[name] = [found.get(task, ()) for task in summary.index]
        frame["frequency_hz"] = math.nan
        if self._sums is not None:
            hz = self._sums["cycles"] / self._sums["cpu_s"].where(self._sums["cpu_s"] > 0)
            frame["frequency_hz"] = hz.reindex(summary.index)
        return frame
