"""What a profile says first, in words: which task takes most energy, how sure that is, and what would help.

Every sentence is made of figures of the profile, and is left out where they do not bear it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

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
    total = "" if not joules > 0 else f"the run's {quantity(joules, 'J')}"
    exact = profile.summary(common=False)
    if profile.job is not None:
        total, exact = total and f"the {quantity(joules, 'J')} of all hosts", summary
    answer = answer_from(
        summary,
        Lead.of(summary, exact, profile.watts),
        quality=str(profile.info["quality"]),
        run=(joules, total),
        found=remedies(profile, summary),
        doubted=str(profile.info["model"]) if profile.has_samples and static_warnings(profile.recipe) else None,
    )
    unmatched = profile.trace.unmatched if profile.has_samples else ()
    return replace(answer, reasons=(*unread_texts(profile.info), *unmatched))


@dataclass(frozen=True)
class Lead:
    """How sure it is that the first task takes more than the others.

    Attributes
    ----------
    close : the task that takes most of those that may take more; None without any
    rivals : number of tasks that may take more
    by_watts : whether they may only because the assumed watts may be wrong
    others : number of other tasks with known energy
    unknown : number of tasks without
    """

    close: Row | None
    rivals: int
    by_watts: bool
    others: int
    unknown: int

    @classmethod
    def of(cls, summary: pd.DataFrame, exact: pd.DataFrame, watts: WattsError) -> Lead:
        """Compare the first task with every other.

        Parameters
        ----------
        summary : one row per task, by energy
        exact : the same without the error of watts that all tasks have in common
        watts : that error
        """
        known = summary.index[np.isfinite(summary["energy_j"].to_numpy(float))]
        rows = exact[exact.index.isin(known)]
        unknown = len(summary) - len(rows)
        if rows.empty:
            return cls(None, 0, by_watts=False, others=0, unknown=unknown)
        first, others = rows.iloc[0], rows.iloc[1:]
        found = others.index[_may_exceed(others, first, EXACT)]
        by_watts = found.empty
        if by_watts:
            found = others.index[_may_exceed(others, first, watts)]
        close = None if found.empty else cast("Row", summary.loc[str(found[0])])
        return cls(close, len(found), by_watts and not found.empty, len(others), unknown)


def _may_exceed(rows: pd.DataFrame, first: Row, watts: WattsError) -> NDArray[np.bool_]:
    """Return which tasks may take more than the first, with some idle and busy watts within their error.

    Both energies are linear in the idle and the busy watts, so the ends of these decide. Where an interval is not
    known, the energy itself stands for it.
    """
    energy_j, low_j = rows["energy_j"].to_numpy(float), float(first["energy_low_j"])
    high_j = rows["energy_high_j"].to_numpy(float)
    most_j = np.where(np.isfinite(high_j), high_j, energy_j)
    least_j = low_j if math.isfinite(low_j) else float(first["energy_j"])
    static_j = energy_j - rows["dynamic_j"].to_numpy(float)
    least_static_j = min(float(first["energy_j"]) - float(first["dynamic_j"]), least_j)
    may = np.zeros(len(rows), bool)
    for idle in (1 / watts.idle, watts.idle):
        for busy in (1 / watts.busy, watts.busy):
            least = least_static_j * idle + (least_j - least_static_j) * busy
            may |= static_j * idle + (most_j - static_j) * busy >= least
    return may


def answer_from(
    summary: pd.DataFrame,
    lead: Lead,
    *,
    quality: str,
    run: tuple[float, str],
    found: tuple[Remedy, ...],
    doubted: str | None = None,
) -> Answer:
    """Put the answer together.

    Parameters
    ----------
    summary : one row per task, by energy
    lead : how sure it is that the first takes most
    quality : of all joules
    run : joules of the whole, NaN if they are not known, and what they are called
    found : what would help
    doubted : the model that shares the joules, if warnings say what may be wrong with that; None: none do
    """
    known = summary[summary["energy_j"].notna()]
    if known.empty:
        return Answer(quality, None, None, None, None, None, _without_energy(summary, run), "", found)
    first = known.iloc[0]
    name, energy_j = str(first.name), float(first["energy_j"])
    low_j, high_j = float(first["energy_low_j"]), float(first["energy_high_j"])
    share = float(first["share"])
    second = known.iloc[1] if len(known) > 1 else None
    close = lead.close if lead.close is not None and energy_j <= CLOSE * float(lead.close["energy_j"]) else None
    # The table of tasks has both intervals, so where they decide nothing the headline says all there is to say.
    headline = _headline(first, lead, quality, run) if close is None else _either(first, close, lead, quality)
    sure = [_width(first, low_j, high_j, doubted), _order(first, second, lead)]
    if close is not None:
        sure = [] if first["resolved"] else sure[:1]
    certainty = " ".join(filter(None, [*sure, _quality(quality)]))
    return Answer(
        quality, name, energy_j, _known(low_j), _known(high_j), _known(share), headline, certainty, found
    )  # fmt: skip


def _either(first: Row, close: Row, lead: Lead, quality: str) -> str:
    """Return the headline where other tasks may take as much, and why it does not name one."""
    rows, more = [first, close], lead.rivals - 1
    joules = " and ".join(quantity(float(row["energy_j"]), "J") for row in rows)
    shares = " and ".join(_part(float(row["share"])) for row in rows)
    names = " or ".join(str(row.name) for row in rows)
    if more:
        others = "another task" if more == 1 else f"one of {more:,} others"
        names = f"{', '.join(str(row.name) for row in rows)} or {others}"
    return f"{names} takes most energy: {joules} ({quality}), {shares} of the energy of all tasks; {_why(lead)}."


def _why(lead: Lead) -> str:
    """Return why other tasks may take more than the first."""
    if lead.by_watts:
        return "their order depends on the idle and busy watts, which are assumed (--watts gives them)"
    return "their 95 % intervals overlap"


def _headline(first: Row, lead: Lead, quality: str, run: tuple[float, str]) -> str:
    energy_j, count, share = float(first["energy_j"]), int(first["instances"]), float(first["share"])
    of_tasks = f"{_part(share)} of the energy of all tasks" if lead.others and share > 0 else ""
    of_run = f"{_part(energy_j / run[0])} of {run[1]}" if run[0] > 0 and run[1] else ""
    parts = " and ".join(filter(None, (of_tasks, of_run)))
    each = f"1 instance of {quantity(float(first['duration_mean_s']), 's')}"
    if count > 1:
        each = f"{count:,} instances of {quantity(float(first['energy_mean_j']), 'J')} on average"
    verb = f"{'most likely ' if lead.rivals else ''}takes most energy"
    if not lead.others:
        verb = "is the only task with known energy"
    words = f"{quantity(energy_j, 'J')} ({quality})"
    return f"{first.name} {verb}: {words}{f', {parts}' if parts else ''}, in {each}."


def _width(row: Row, low_j: float, high_j: float, doubted: str | None) -> str:
    energy_j, most_j = float(row["energy_j"]), float(row["energy_mean_at_most_j"])
    if not row["resolved"]:
        most = f": at most {quantity(most_j, 'J')} an instance" if math.isfinite(most_j) else ""
        more = narrowing(int(row["instances"]))
        return f"The energy of {row.name} above static power cannot be told from zero{most}: {more}."
    if not (energy_j > 0 and math.isfinite(low_j) and math.isfinite(high_j)):
        return ""
    half = (high_j - low_j) / 2 / energy_j
    grade = "well" if half <= WELL else "fairly well" if half <= FAIRLY else "only roughly"
    ends = f"± {100 * half:,.{0 if half >= 0.1 else 1}f} %"
    if half >= LOPSIDED:
        below, above = 100 * (1 - low_j / energy_j), 100 * (high_j / energy_j - 1)
        ends = f"\N{MINUS SIGN}{below:.0f} … +{above:,.0f} %"
    known = f"{interval(energy_j, low_j, high_j, 'J')} with 95 % confidence, {ends}"
    if doubted:
        return f"The energy of {row.name} is {known}, as {doubted} shares it: the warnings say what is uncertain."
    return f"The energy of {row.name} is known {grade}: {known}."


def _order(first: Row, second: Row | None, lead: Lead) -> str:
    if second is None:
        return ""
    if lead.close is None:
        most_j = float(second["energy_high_j"])
        joules = quantity(float(second["energy_j"]), "J")
        if not second["resolved"] and math.isfinite(most_j):
            joules = f"at most {quantity(most_j, 'J')}"
        known = f" of the {lead.others + 1:,} tasks with known energy" if lead.unknown else ""
        return f"The next is {second.name} with {joules}; {first.name} ranks first{known} (95 % confidence)."
    rival = lead.close
    other = f"one of {lead.rivals:,} others"
    if lead.rivals == 1:
        other = f"{rival.name} ({quantity(float(rival['energy_j']), 'J')})"
    return f"That {other} takes more than {first.name} is not excluded: {_why(lead)}."


def _quality(quality: str) -> str:
    if quality == Quality.SIMULATED:
        return "The sensor behind it is simulated: these are no joules of this machine."
    if quality == "mixed":
        return "Some hosts have a sensor and others an estimate: sums of both are mixed."
    return ""


def _without_energy(summary: pd.DataFrame, run: tuple[float, str]) -> str:
    if summary.empty:
        return f"No task ran{f', in {run[1]}' if run[1] else ''}."
    return "Which task takes most is not known: no valid reading of a sensor covers their instances."


def _part(value: float) -> str:
    return f"{100 * value:.0f} %" if value >= 0.01 else "less than 1 %"


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
