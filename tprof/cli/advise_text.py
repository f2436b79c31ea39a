"""Advice as tables of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tables import clean, percent, quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.operating_points.advice import Advice
    from tprof.analysis.operating_points.draws import Draws
    from tprof.benchmarks.validation.validation_text import Table

_BY = {"energy": "energy", "edp": "energy × time", "ed2p": "energy × time²"}
_DASH = "–"
_QUALITY = {
    "estimated": "Energies in the table are estimated.",
    "simulated": "Energies in the table are simulated.",
    "given": "Energies are taken as given: the table does not say that they were measured.",
}


def advice_tables(advices: Sequence[Advice]) -> list[Table]:
    """Return one table of choices, with the reasons below."""
    from tprof.benchmarks.validation.validation_text import Table

    objective = advices[0].objective
    conditions = [
        "" if objective.max_slowdown is None else f"at most {percent(objective.max_slowdown)} of extra time",
        "" if objective.max_power_w is None else f"at most {objective.max_power_w:g} W",
    ]
    title = ", ".join([f"Where to run for the least {_BY[objective.by]}", *filter(None, conditions)])
    headings = (
        "task", "run at", "instead of", f"energy saved ({', '.join(_qualities(advices))})", "95 % interval",
        "extra time", "95 % interval", "may lose", "measure next",
    )  # fmt: skip
    return [Table(title, headings, tuple(_row(one) for one in advices), _note(advices), texts=1)]


def point(advice: Advice, place: int | None) -> str:
    """Write an operating point."""
    if place is None or advice.candidates is None:
        return _DASH
    return advice.candidates.named(place)


def _row(advice: Advice) -> tuple[str, ...]:
    name = advice.measured.task or "(program)"
    if advice.chosen is None:
        return (name, *[_DASH] * 8)
    energy, time = advice.saving("energy"), advice.saving("time")
    return (
        name,
        point(advice, advice.chosen),
        point(advice, advice.base),
        percent(energy[0]),
        f"{percent(energy[1])} … {percent(energy[2])}",
        percent(-time[0] + 0.0),
        f"{percent(-time[2] + 0.0)} … {percent(-time[1] + 0.0)}",
        percent(advice.loss),
        _next(advice),
    )


def _next(advice: Advice) -> str:
    if advice.proposed is None:
        return _DASH
    again = " again" if advice.proposed.again else ""
    return f"{point(advice, advice.proposed.place)}{again} (then {percent(advice.proposed.loss_after)})"


def _note(advices: Sequence[Advice]) -> str:
    from tprof.analysis.operating_points.advice import uncertainty_text

    lines = [f"{clean(advice.measured.task) or '(program)'}: {_detail(advice)}" for advice in advices]
    lines.append(
        "May lose: what the choice is expected to cost more than the best point there is, since some are predicted."
    )
    if any(advice.measured.task and advice.measured.workers.max() > 1 for advice in advices):
        lines.append("The time of a task is that of its instances over the workers that they can fill.")
    lines += [_QUALITY[one] for one in _qualities(advices) if one in _QUALITY]
    uncertainty = uncertainty_text(advices)
    lines += [] if uncertainty is None else [uncertainty]
    return "\n".join(lines)


def _qualities(advices: Sequence[Advice]) -> list[str]:
    return sorted({one for advice in advices for one in advice.measured.quality.split(", ")})


def _detail(advice: Advice) -> str:
    if advice.chosen is None or advice.draws is None:
        return advice.why
    energy_j, time_s, how = _there(advice, advice.draws, advice.chosen)
    factor = advice.measured.watts_factor
    doubt = f" ({quantity(energy_j / factor, 'J')} … {quantity(energy_j * factor, 'J')})" if factor > 1 else ""
    return f"{advice.why} There: {quantity(energy_j, 'J')}{doubt} in {quantity(time_s, 's')} ({how})."


def _there(advice: Advice, draws: Draws, chosen: int) -> tuple[float, float, str]:
    """Return energy and time of the choice, and where they come from: its own runs, else the fit."""
    measured, at = advice.measured, advice.place(chosen)
    setting = float("nan") if at["setting"] is None else float(at["setting"])
    place = measured.at(setting, int(at["workers"] or 1))
    if place is not None:
        run = measured.run(place)
        return run.energy_j, run.time_s, f"{run.quality}, median of its runs"
    how = f"predicted from the fit to {len(measured.time_s)} points, {measured.quality}"
    return float(draws.energy_j[:, chosen].mean()), float(draws.time_s[:, chosen].mean()), how
