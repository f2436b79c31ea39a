"""`tprof advise`: from measured operating points, where each task and the program should run."""

from __future__ import annotations

import math
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.analysis.text_table import Table
from tprof.errors import UsageError
from tprof.trace.plain_values import counted, frequency_hz, shown, whole, with_unit

from .options import AsJson
from .progress import bar
from .render import DASH, clean, dump, interval, percent, quantity, show_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tprof.analysis.operating_points.advice import Advice
    from tprof.analysis.operating_points.algorithm import SizedAlgorithm
    from tprof.analysis.operating_points.choice import Objective
    from tprof.analysis.operating_points.draws import Draws

_HELP = """Advise on the frequency or power limit and the number of workers for each task and the program.

TABLE is what tprof sweep wrote (or its folder), or a CSV with the columns task, setting, setting_unit (Hz or W),
workers, time_s and energy_j. Points that were not run are predicted, with their uncertainty.

Examples:

  tprof advise cholesky.sweep --by edp

  tprof advise points.csv --max-slowdown 5% -o advice.html

  tprof advise gpu.csv --settings 100W..250W:7 --json

  tprof advise sums.sweep --algorithm addition --size 1e8 --workers 8,16,32
"""
_WATTS = {"w": 1.0, "kw": 1e3, "": 1.0}
_MOST = 200
_BY = {"energy": "energy", "edp": "energy × time", "ed2p": "energy × time²"}
_QUALITY = {
    "estimated": "Energies in the table are estimated.",
    "simulated": "Energies in the table are simulated.",
    "given": "Energies are taken as given: the table does not say that they were measured.",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("advise", help=_HELP)(advise)


def advise(  # noqa: PLR0913 - one parameter an option
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A sweep or its table, or such a CSV.")],
    by: Annotated[str, typer.Option(help="energy, edp or ed2p.")] = "energy",
    max_slowdown: Annotated[
        str | None, typer.Option(metavar="PART", help="The most extra time against the fastest point, such as 5%.")
    ] = None,
    max_power: Annotated[
        str | None, typer.Option(metavar="WATTS", help="The most mean power, such as 80 or 80W.")
    ] = None,
    sure: Annotated[
        str,
        typer.Option(metavar="PART", help="How surely these conditions are to be kept: on what part of the curves."),
    ] = "95%",
    task: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this task; may be repeated; '' is the program.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All tasks, not only those of most energy.")] = False,
    settings: Annotated[
        str | None, typer.Option(metavar="LIST|LOW..HIGH:N", help="What can be set, such as 1.6GHz..3.3GHz:18.")
    ] = None,
    workers: Annotated[str | None, typer.Option(metavar="LIST", help="Numbers of workers that can be had.")] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What the program is, by tprof scaling's name: its counts predict."),
    ] = None,
    size: Annotated[float | None, typer.Option(metavar="N", help="Of the algorithm, as it was run.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="Draw points, front and choice.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the table, advise, print."""
    from tprof.analysis.operating_points.table import read
    from tprof.analysis.report.advice_page import write_page

    objective, named = _objective(by, max_slowdown, max_power, sure), _algorithm(algorithm, size)
    rows = read(table)
    choices = {
        "settings": () if settings is None else settings_in(settings, str(rows["setting_unit"].iloc[0])),
        "workers": counts(workers),
        "tasks": tuple(task or ()) if task or named or every else _significant(rows),
    }
    advices = _advised(rows, objective, named, choices)
    if output is not None:
        write_page(advices, output)
    if as_json:
        dump([advice.as_plain() for advice in advices])
    else:
        show_tables(advice_tables(advices), sys.stdout)


def _significant(rows: pd.DataFrame) -> tuple[str, ...]:
    from tprof.analysis.operating_points.measured import significant_tasks

    names, left, part_of_energy = significant_tasks(rows)
    if left:
        print(
            f"tprof: {counted(left, 'task with the least energy is', 'tasks with the least energy are')} left out, "
            f"{percent(part_of_energy)} of that of all tasks; "
            "--all advises on them, too",
            file=sys.stderr,
        )
    return tuple(names)


def _advised(
    rows: pd.DataFrame, objective: Objective, named: SizedAlgorithm | None, choices: dict[str, Any]
) -> list[Advice]:
    from tprof.analysis.operating_points.advice import advise as advise_on

    with bar("advising") as report:
        return advise_on(rows, objective, algorithm=named, done=partial(report, "advising"), **choices)


def _algorithm(name: str | None, size: float | None) -> SizedAlgorithm | None:
    from tprof.analysis.operating_points.algorithm import sized_algorithm

    if (name is None) != (size is None):
        raise UsageError("--algorithm and --size go together: the name of what was run and its size")
    return None if name is None or size is None else sized_algorithm(name, size)


def _objective(by: str, max_slowdown: str | None, max_power: str | None, sure: str) -> Objective:
    from tprof.analysis.operating_points.choice import Objective

    return Objective(
        by,
        None if max_slowdown is None else part("--max-slowdown", max_slowdown),
        None if max_power is None else watts("--max-power", max_power),
        part("--sure", sure),
    )


def settings_in(text: str, unit: str) -> tuple[float, ...]:
    """Return the settings that a list or `LOW..HIGH:N` names, in `unit`. Raises UsageError."""
    if not unit:
        raise UsageError("--settings was given, but the table has no settings; measure at two settings at least")
    if ".." not in text:
        return tuple(_setting(one, unit, text) for one in text.split(","))
    low, _, rest = text.partition("..")
    high, _, count = rest.partition(":")
    ends = _setting(low, unit, text), _setting(high, unit, text)
    steps = whole(count, _MOST)
    if steps is None or steps < 2 or ends[0] >= ends[1]:
        raise UsageError(f"--settings {text}: write LOW..HIGH:N, the lower end first and N from 2 to {_MOST}")
    step = (ends[1] - ends[0]) / (steps - 1)
    return tuple(ends[0] + step * place for place in range(steps))


def counts(text: str | None) -> Sequence[int]:
    """Return numbers of workers. Raises UsageError."""
    from tprof.analysis.operating_points.table import MOST_WORKERS

    words = [] if text is None else [one.strip() for one in text.split(",")]
    found = [whole(word, MOST_WORKERS) for word in words]
    if not all(found):
        raise UsageError(f"--workers must be whole numbers from 1 up with commas, such as 1,2,4; got {shown(text)}")
    return [count for count in found if count]


def part(option: str, text: str) -> float:
    """Return `5%` or `0.05` as a part of 1. Raises UsageError."""
    percentage = with_unit(text, {"%": 1.0})
    value = with_unit(text, {"": 1.0}) if percentage is None else percentage / 100
    if value is None or math.isinf(value) or (percentage is None and value > 1):
        raise UsageError(f"{option} must be a percentage such as 5% or a part such as 0.05, got {shown(text)}")
    return value


def watts(option: str, text: str) -> float:
    """Return `80` or `80W` in watts. Raises UsageError."""
    value = with_unit(text, _WATTS)
    if value is None or math.isinf(value):
        raise UsageError(f"{option} must be watts such as 80 or 80W, got {shown(text)}")
    return value


def _setting(word: str, unit: str, text: str) -> float:
    try:
        value = frequency_hz(word) if unit == "Hz" else with_unit(word, _WATTS)
    except ValueError as error:
        raise UsageError(f"--settings {text}: {error}") from None
    if value is None or not 0 < value < math.inf:
        example = "1.6GHz,2.4GHz or 1.6GHz..3.3GHz:18" if unit == "Hz" else "100W,150W or 100W..250W:7"
        raise UsageError(f"--settings must be such as {example}, got {shown(text)}")
    return value


def advice_tables(advices: Sequence[Advice]) -> list[Table]:
    """Return one table of choices, with the reasons below."""
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
        return DASH
    return advice.candidates.named(place)


def _row(advice: Advice) -> tuple[str, ...]:
    name = advice.measured.task or "(program)"
    if advice.chosen is None:
        return (name, *[DASH] * 8)
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
        return DASH
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
    energy = quantity(energy_j, "J")
    if factor > 1:
        energy = interval(energy_j, energy_j / factor, energy_j * factor, "J")
    return f"{advice.why} There: {energy} in {quantity(time_s, 's')} ({how})."


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
