"""What a profile says first, in words: which task takes most energy, how sure that is, and what would help.

Every sentence is made of figures of the profile, and is left out where they do not bear it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.quantities import interval, quantity

from tprof.trace import Quality
from tprof.trace.estimate import EXACT

from .profile_warnings import static_warnings
from .provenance import unread_texts
from .remedies import Remedy, narrowing, remedies

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from tprof.trace.estimate import WattsError

    Row = pd.Series[Any]

    from .profile import Profile

WELL, FAIRLY = 0.05, 0.2
"""Half of an interval as a part of its figure, up to which it is called so."""
LOPSIDED = 0.5
"""The same, from which both ends are named, since they are unlike."""
CLOSE = 2.0
"""How many times the joules of another task the first has, up to which the headline names both."""
OVERLAP = "their 95 % intervals overlap"
ASSUMED = "their order depends on the idle and busy watts, which are assumed (--watts gives them)"
ODD = {
    Quality.SIMULATED: "The sensor behind it is simulated: these are no joules of this machine.",
    "mixed": "Some hosts have a sensor and others an estimate: sums of both are mixed.",
}


@dataclass(frozen=True)
class Answer:
    """The sentences that a report opens with.

    Attributes
    ----------
    quality : of all joules: measured, estimated, simulated, or mixed for a job of unlike hosts
    task : that takes most energy; None if none ran or no energy is known
    energy_j, energy_low_j, energy_high_j : of its instances, with the 95 % interval; None where it is not known
    share : of the energy of all tasks; None where it is not known
    headline : which task takes most
    certainty : how sure that is; may be empty
    remedies : what would help, the largest part of the energy first
    reasons : which joules the total lacks, and why no function became a task by ``--task``; they stand first
    """

    quality: str
    task: str | None
    energy_j: float | None
    energy_low_j: float | None
    energy_high_j: float | None
    share: float | None
    headline: str
    certainty: str
    remedies: tuple[Remedy, ...]
    reasons: tuple[str, ...] = ()

    def as_plain(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    def unsaid(self, warnings: Sequence[str]) -> list[str]:
        """Return the warnings that neither a reason nor a remedy says already."""
        said = {text.rstrip(".").casefold() for text in (*self.reasons, *(one.text for one in self.remedies))}
        return [text for text in warnings if text.casefold() not in said]


def answer_of(profile: Profile) -> Answer:
    """Return the answer of a recording or of a job."""
    summary, joules = profile.summary(), profile.measured_j
    exact, whole = profile.summary(common=False), "the run's {}"
    if profile.job is not None:
        exact, whole = summary, "the {} of all hosts"
    answer = answer_from(
        summary,
        exact,
        profile.watts,
        quality=str(profile.info["quality"]),
        run=(joules, whole.format(quantity(joules, "J")) if joules > 0 else ""),
        found=remedies(profile, summary),
        doubted=str(profile.info["model"]) if profile.has_samples and static_warnings(profile.recipe) else None,
    )
    unmatched = profile.trace.unmatched if profile.has_samples else ()
    return replace(answer, reasons=(*unread_texts(profile.info), *unmatched))


def answer_from(
    summary: pd.DataFrame,
    exact: pd.DataFrame,
    watts: WattsError,
    *,
    quality: str,
    run: tuple[float, str],
    found: tuple[Remedy, ...] = (),
    doubted: str | None = None,
) -> Answer:
    """Put the answer together.

    Parameters
    ----------
    summary : one row per task, by energy
    exact : the same without the error of watts that all tasks have in common
    watts : that error
    quality : of all joules
    run : joules of the whole, NaN if they are not known, and what they are called
    found : what would help
    doubted : the model that shares the joules, if warnings say what may be wrong with that; None: none do
    """
    known = summary[np.isfinite(summary["energy_j"].to_numpy(float))]
    if known.empty:
        headline = "Which task takes most is not known: no valid reading of a sensor covers their instances."
        if summary.empty:
            headline = f"No task ran{f', in {run[1]}' if run[1] else ''}."
        return Answer(quality, None, None, None, None, None, headline, "", found)
    first = known.iloc[0]
    rivals, why = _rivals(exact.loc[known.index], watts)
    sure = [_width(first, doubted), _order(known, rivals, why, len(summary))]
    # The table of tasks has both intervals, so where they decide nothing the headline says all there is to say.
    if rivals and first["energy_j"] <= CLOSE * known.loc[rivals[0], "energy_j"]:
        headline = _either(known.loc[[first.name, rivals[0]]], len(rivals), quality, why)
        sure = [] if first["resolved"] else sure[:1]
    else:
        headline = _headline(first, len(known) - 1, quality, run, most_likely=bool(rivals))
    figures = [float(first[name]) for name in ("energy_j", "energy_low_j", "energy_high_j", "share")]
    energy_j, low_j, high_j, share = (value if math.isfinite(value) else None for value in figures)
    certainty = " ".join(filter(None, [*sure, ODD.get(quality)]))
    return Answer(quality, str(first.name), energy_j, low_j, high_j, share, headline, certainty, found)


def _rivals(rows: pd.DataFrame, watts: WattsError) -> tuple[list[str], str]:
    """Return the tasks that may take more than the first, by energy, and why that is not excluded."""
    for error, why in ((EXACT, OVERLAP), (watts, ASSUMED)):
        if (may := _may_exceed(rows, error)).any():
            return rows.index[1:][may].tolist(), why
    return [], ""


def _may_exceed(rows: pd.DataFrame, watts: WattsError) -> NDArray[np.bool_]:
    """Return which tasks may take more than the first, with some idle and busy watts within their error.

    Both energies are linear in the idle and the busy watts, so the ends of these decide. Where an interval is not
    known, the energy itself stands for it.
    """
    energy_j, dynamic_j = (rows[name].to_numpy(float) for name in ("energy_j", "dynamic_j"))
    low_j, high_j = (rows[name].fillna(rows["energy_j"]).to_numpy(float) for name in ("energy_low_j", "energy_high_j"))
    static_j = energy_j - dynamic_j
    least_static_j = min(static_j[0], low_j[0])
    may = np.zeros(len(rows) - 1, bool)
    for idle, busy in product((1 / watts.idle, watts.idle), (1 / watts.busy, watts.busy)):
        least_j = least_static_j * idle + (low_j[0] - least_static_j) * busy
        may |= (static_j * idle + (high_j - static_j) * busy)[1:] >= least_j
    return may


def _either(rows: pd.DataFrame, rivals: int, quality: str, why: str) -> str:
    """Return the headline where other tasks may take as much, and why it does not name one."""
    joules = " and ".join(quantity(float(one), "J") for one in rows["energy_j"])
    shares = " and ".join(_part(float(one)) for one in rows["share"])
    names = " or ".join(rows.index)
    if rivals > 1:
        names = f"{', '.join(rows.index)} or {'another task' if rivals == 2 else f'one of {rivals - 1:,} others'}"
    return f"{names} takes most energy: {joules} ({quality}), {shares} of the energy of all tasks; {why}."


def _headline(first: Row, others: int, quality: str, run: tuple[float, str], *, most_likely: bool) -> str:
    energy_j, count, share = float(first["energy_j"]), int(first["instances"]), float(first["share"])
    of_tasks = f"{_part(share)} of the energy of all tasks" if others and share > 0 else ""
    of_run = f"{_part(energy_j / run[0])} of {run[1]}" if run[0] > 0 and run[1] else ""
    parts = " and ".join(filter(None, (of_tasks, of_run)))
    each = f"1 instance of {quantity(float(first['duration_mean_s']), 's')}"
    if count > 1:
        each = f"{count:,} instances of {quantity(float(first['energy_mean_j']), 'J')} on average"
    verb = (
        f"{'most likely ' if most_likely else ''}takes most energy" if others else "is the only task with known energy"
    )
    return f"{first.name} {verb}: {quantity(energy_j, 'J')} ({quality}){f', {parts}' if parts else ''}, in {each}."


def _width(row: Row, doubted: str | None) -> str:
    energy_j, low_j, high_j, most_j = (float(row[f"energy_{name}j"]) for name in ("", "low_", "high_", "mean_at_most_"))
    if not row["resolved"]:
        most = f": at most {quantity(most_j, 'J')} an instance" if math.isfinite(most_j) else ""
        more = narrowing(int(row["instances"]))
        return f"The energy of {row.name} above static power cannot be told from zero{most}: {more}."
    if not (energy_j > 0 and math.isfinite(high_j - low_j)):
        return ""
    half = (high_j - low_j) / 2 / energy_j
    ends = f"± {100 * half:,.{0 if half >= 0.1 else 1}f} %"
    if half >= LOPSIDED:
        below, above = 100 * (1 - low_j / energy_j), 100 * (high_j / energy_j - 1)
        ends = f"\N{MINUS SIGN}{below:.0f} … +{above:,.0f} %"
    known = f"{interval(energy_j, low_j, high_j, 'J')} with 95 % confidence, {ends}"
    if doubted:
        return f"The energy of {row.name} is {known}, as {doubted} shares it: the warnings say what is uncertain."
    grade = "well" if half <= WELL else "fairly well" if half <= FAIRLY else "only roughly"
    return f"The energy of {row.name} is known {grade}: {known}."


def _order(known: pd.DataFrame, rivals: list[str], why: str, tasks: int) -> str:
    """Return which task is next, or that a rival may take more than the first."""
    if len(known) < 2:
        return ""
    if rivals:
        other = f"one of {len(rivals):,} others"
        if len(rivals) == 1:
            other = f"{rivals[0]} ({quantity(float(known['energy_j'][rivals[0]]), 'J')})"
        return f"That {other} takes more than {known.index[0]} is not excluded: {why}."
    second = known.iloc[1]
    most_j, joules = float(second["energy_high_j"]), quantity(float(second["energy_j"]), "J")
    if not second["resolved"] and math.isfinite(most_j):
        joules = f"at most {quantity(most_j, 'J')}"
    of = f" of the {len(known):,} tasks with known energy" if len(known) < tasks else ""
    return f"The next is {second.name} with {joules}; {known.index[0]} ranks first{of} (95 % confidence)."


def _part(value: float) -> str:
    return f"{100 * value:.0f} %" if value >= 0.01 else "less than 1 %"
