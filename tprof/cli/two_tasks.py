"""What `tprof run --compare` prints: two functions of one run side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tprof.analysis.compare.figure_texts import LEVEL, chance, change
from tprof.analysis.compare.two_tasks import ATTRIBUTION, CALLS, IDLE, two_tasks

from .render import DASH, PREFIXES, Column, clean, filled, lines_of, three_digits, width_of

if TYPE_CHECKING:
    from typing import TextIO

    from tprof.analysis import Profile
    from tprof.analysis.compare.evidence import Difference
    from tprof.analysis.compare.two_tasks import Spread, TwoTasks
    from tprof.launch.matches import Gathered, Place

NOISE = "noise: how probable a difference at least as large would be if both took the same"
OF_MODEL = (
    "the ratio of energies holds for the assumed model: a busy core draws the same whatever it runs, so joules follow "
    "CPU time; that one function's instructions draw more, only a sensor shows"
)
_CAUSES = {
    CALLS: "what most of the energy's interval is from: the calls differ; call both more often, in turns",
    ATTRIBUTION: (
        "what most of the energy's interval is from: how joules were shared with what ran at the same time; call both "
        "in turns, more often, with nothing else on the machine"
    ),
    IDLE: (
        "what most of the energy's interval is from: how idle watts compare with busy ones, as one ran beside more "
        "than the other; call both in turns with nothing else on the machine, or give --watts IDLE,PER_CORE"
    ),
}


def show_two_tasks(profile: Profile, gathered: Gathered, stream: TextIO) -> None:
    """Print the comparison of the last two patterns; why there is none has been said where one met no function."""
    names = [clean(pattern).removeprefix("__main__:") for pattern in gathered.patterns[-2:]]
    found = two_tasks(profile, *(_names_at(profile, met) for met in gathered.met[-2:]))
    if found is None:
        print(f"--compare: {names[0]} or {names[1]} was not called, so there is nothing to compare", file=stream)
        return
    width = width_of(stream)
    print("", f"{names[0]} (A) and {names[1]} (B), with what they call", sep="\n", file=stream)
    print(*lines_of("function", names, _columns(found), width), sep="\n", file=stream)
    print(*(filled(text, width) for text in _sentences(found)), sep="\n", file=stream)


def _names_at(profile: Profile, places: set[Place]) -> set[str]:
    """Return the names of the tasks that stand for functions."""
    known = {(file, line) for _, file, line in places}
    return {entry.name for entry in profile.trace.tasks if (entry.file, entry.line) in known}


def _columns(found: TwoTasks) -> list[Column]:
    sides = (found.a, found.b)
    columns = [Column("calls", tuple(f"{side.calls:,}" for side in sides))]
    for heading, unit, spreads in (
        ("time", "s", [side.seconds for side in sides]),
        (f"energy ({found.quality})", "J", [side.joules for side in sides]),
    ):
        columns.append(Column(f"{heading}: mean ± σ", tuple(_mean(spread, unit) for spread in spreads)))
        columns.append(Column("min … max", tuple(_range(spread, unit) for spread in spreads)))
    return columns


def _mean(spread: Spread, unit: str) -> str:
    return _joined(" ± ", (spread.mean, spread.std), unit)


def _range(spread: Spread, unit: str) -> str:
    return _joined(" … ", (spread.least, spread.most), unit)


def _joined(sign: str, values: tuple[float, float], unit: str) -> str:
    """Write two figures with one prefix, that of the larger; a dash for one not known."""
    known = [abs(value) for value in values if not math.isnan(value)]
    if not known:
        return DASH
    factor, prefix = next(((factor, prefix) for factor, prefix in PREFIXES if max(known) >= factor), PREFIXES[-1])
    return f"{sign.join(DASH if math.isnan(one) else three_digits(one / factor) for one in values)} {prefix}{unit}"


def _sentences(found: TwoTasks) -> list[str]:
    lines = [_sentence("time", found.time)]
    if math.isnan(float(found.energy.difference[0])):
        return [*lines, f"95 % intervals from the scatter of the calls of this run; {NOISE}"]
    lines.append(_sentence(f"energy ({found.quality})", found.energy))
    if float(found.energy.chance[0]) >= LEVEL:
        lines.append(_CAUSES[found.cause])
    if found.is_of_model:
        lines.append(OF_MODEL)
        errors = "for energy, what the model leaves open"
    else:
        errors = "for energy, the attribution's error"
    return [*lines, f"95 % intervals from the scatter of the calls of this run and, {errors}; {NOISE}"]


def _sentence(what: str, found: Difference) -> str:
    row = {name: float(value[0]) for name, value in found._asdict().items()}
    if math.isnan(row["chance"]):
        return f"{what} of B beside A: {change(row, '')}, not decided: one call has no scatter; call both more often"
    decision = "within noise" if row["chance"] >= LEVEL else "more" if row["difference"] > 0 else "less"
    return f"{what} of B beside A: {change(row, '')}, {decision}: chance of noise {chance(row['chance'])}"
