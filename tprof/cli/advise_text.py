"""Advice as tables of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tables import clean, percent, quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.operating import Advice
    from tprof.benchmarks.validation.show import Table

_BY = {"energy": "energy", "edp": "energy × time", "ed2p": "energy × time²"}
_DASH = "–"


def advice_tables(advices: Sequence[Advice]) -> list[Table]:
    """Return one table of choices, with the reasons below."""
    from tprof.benchmarks.validation.show import Table

    wish = advices[0].wish
    conditions = [
        "" if wish.max_slowdown is None else f"at most {percent(wish.max_slowdown)} of extra time",
        "" if wish.max_power_w is None else f"at most {wish.max_power_w:g} W",
    ]
    title = ", ".join([f"Where to run for the least {_BY[wish.by]}", *filter(None, conditions)])
    headings = (
        "task", "run at", "instead of", "energy saved", "95 % interval", "extra time", "95 % interval",
        "may lose", "measure next",
    )  # fmt: skip
    return [Table(title, headings, tuple(_row(one) for one in advices), _note(advices), texts=1)]


def point(advice: Advice, place: int | None) -> str:
    """Write an operating point."""
    if place is None or advice.candidates is None:
        return _DASH
    at = advice.place(place)
    setting, workers, unit = at["setting"], at["workers"], advice.measured.unit
    words = [] if setting is None else [f"{setting / 1e9:.4g} GHz" if unit == "Hz" else f"{setting:.4g} W"]
    if advice.candidates.varies_workers or setting is None:
        words.append(f"{workers} worker{'' if workers == 1 else 's'}")
    return ", ".join(words)


def _row(advice: Advice) -> tuple[str, ...]:
    name = advice.measured.task or "(program)"
    if advice.chosen is None:
        return (name, *[_DASH] * 8)
    energy, time = advice.saving("energy"), advice.saving("time")
    proposed = advice.proposed
    return (
        name,
        point(advice, advice.chosen),
        point(advice, advice.base),
        percent(energy[0]),
        f"{percent(energy[1])} … {percent(energy[2])}",
        percent(-time[0] + 0.0),
        f"{percent(-time[2] + 0.0)} … {percent(-time[1] + 0.0)}",
        percent(advice.loss),
        _DASH if proposed is None else f"{point(advice, proposed.place)} (then {percent(proposed.loss_after)})",
    )


def _note(advices: Sequence[Advice]) -> str:
    lines = [f"{clean(advice.measured.task) or '(program)'}: {_detail(advice)}" for advice in advices]
    lines.append(
        "May lose: what the choice is expected to cost more than the best point there is, since some are predicted."
    )
    if any(advice.measured.task and advice.measured.workers.max() > 1 for advice in advices):
        lines.append("The time of a task is that of its instances over the workers that they can fill.")
    qualities = sorted({one for advice in advices for one in advice.measured.quality.split(", ")} - {"measured"})
    if qualities:
        lines.append(f"The table's energies are {', '.join(qualities)}.")
    return "\n".join(lines)


def _detail(advice: Advice) -> str:
    if advice.chosen is None or advice.draws is None:
        return advice.why
    energy_j = float(advice.draws.energy_j[:, advice.chosen].mean())
    time_s = float(advice.draws.time_s[:, advice.chosen].mean())
    run = advice.candidates is not None and bool(advice.candidates.measured(advice.measured)[advice.chosen])
    how = "measured" if run else "predicted"
    return f"{advice.why} There: {quantity(energy_j, 'J')} in {quantity(time_s, 's')} ({how})."
