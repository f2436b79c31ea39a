"""The TProf paper's tables 1 to 4 and figure 11, computed by tprof from what the paper prints, beside what it prints.

Each figure is compared with the printed one, and their difference with what rounding allows: half a unit of the last
printed digit, of the figure itself and of those that it is computed from. Where the paper does not print what a figure
was computed from (counters, watts, curves between two ends), nothing is computed, and the row says so.

The shares of table 3 are computed by the same code as those of a recording: a trace of two cores whose counters give
the printed watts of the model and whose sensor counted the pair's watts. The paper does not print those; they are taken
to be the sum of the printed slices.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis import TABLE_1
from tprof.analysis.text_table import Table

from benchmarks import published
from benchmarks.published import HIGHEST_HZ, LOWEST_HZ, TABLES_HZ
from benchmarks.simulator.simulated_machine import response
from tprof.trace import load_session, write_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

WATT, PART = 0.005, 0.0005
"""Half a unit of the last digit of printed watts and of printed percents with one digit."""
WHOLE_PERCENT, SECOND_DIGIT = 0.005, 0.00005
RUN_NS, READINGS = 10**9, 11
UNSIGNED = "printed without its sign"
BY_CONSTRUCTION = "by construction: it checks the law, not the paper"
CONTRADICTS = "the printed figures contradict each other"
TABLE_1_UNITS = {"a": "W per IPC", "b": "W per GB/s", "c": "W per GB/s", "C1": "W", "C2": "W"}
NONE = "–"
NOTES = {
    "table 1": "",
    "table 2": "",
    "table 3": "Shares by equation 1 from the printed model; watts of a pair: the sum of the printed slices.",
    "table 4": "The model's watts are not printed: shares are those of the printed slices, and check these only.",
    "figure 11": "The law of the simulated machine goes through both printed ends; power and EDP follow from these.",
}


@dataclass(frozen=True)
class Compared:
    """A printed figure beside the computed one.

    Attributes
    ----------
    row, what : place in the table, and which of its figures.
    printed, computed : None where the paper does not print it, or it cannot be computed.
    unit : "W", "part" (of 1) or other.
    rounding : greatest difference that the rounding of the printed figures explains.
    note : reason for a greater difference, or why nothing is computed.
    """

    row: str
    what: str
    printed: float | None
    computed: float | None
    unit: str
    rounding: float = 0.0
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Computed minus printed, without signs where the paper lost them; None without either."""
        if self.printed is None or self.computed is None:
            return None
        return (abs(self.computed) if self.note == UNSIGNED else self.computed) - self.printed

    @property
    def agrees(self) -> bool | None:
        """Whether rounding explains the difference; None without one."""
        return None if self.difference is None else abs(self.difference) <= self.rounding + 1e-9

    def as_plain(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"difference": self.difference, "agrees": self.agrees}


def recomputed() -> dict[str, list[Compared]]:
    """Return the comparisons by the paper's "table 1" to "table 4" and "figure 11"."""
    return {
        "table 1": list(_table_1()),
        "table 2": list(_table_2()),
        "table 3": list(_table_3()),
        "table 4": list(_table_4()),
        "figure 11": list(_figure_11()),
    }


def _table_1() -> Sequence[Compared]:
    note = "the runs that it was fitted to are not printed"
    rows = [
        Compared(symbol, "coefficient", getattr(TABLE_1, symbol.lower()), None, unit, 0.0, note)
        for symbol, unit in TABLE_1_UNITS.items()
    ]
    real_w = [float(row["real_w"]) for row in published.table_3()]
    return [
        *rows,
        Compared("C1 + C2", "least power of one core", max(real_w), TABLE_1.c1 + TABLE_1.c2, "W", WATT,
                 "printed is the greatest of table 3, whose watts are therefore those of a core without C2"),
    ]  # fmt: skip


def _table_2() -> Sequence[Compared]:
    rows, means = published.table_2(), published.table_2_means()
    note = "neither its watts nor its counters are printed"
    columns = (("single_core_error", "one core"), ("quad_core_error", "four cores"))
    found = [
        Compared(str(row["kernel"]), what, float(row[column]), None, "part", 0.0, note)
        for row in rows
        for column, what in columns
    ]
    for column, what in columns:
        mean = float(np.mean([float(row[column]) for row in rows]))
        found.append(Compared("mean of 15", what, float(means[column]), mean, "part", 2 * SECOND_DIGIT))
    return found


def _table_3() -> Sequence[Compared]:
    rows = published.table_3()
    found: list[Compared] = []
    for first in range(0, len(rows), 2):
        pair = rows[first : first + 2]
        model_w, total_w = [float(row["model_w"]) for row in pair], sum(float(row["slice_w"]) for row in pair)
        for place, (row, share) in enumerate(zip(pair, shares(model_w, total_w), strict=True)):
            allowed = _rounding(partial(_share, place), model_w, [WATT, WATT])
            found += _sliced(row, share, total_w, allowed, with_model=True)
    return found


def _table_4() -> Sequence[Compared]:
    rows = published.table_4()
    found: list[Compared] = []
    for first in range(0, len(rows), 2):
        pair = rows[first : first + 2]
        slices = [float(row["slice_w"]) for row in pair]
        for place, row in enumerate(pair):
            allowed = _rounding(partial(_share, place), slices, [WATT, WATT])
            found += _sliced(row, slices[place] / sum(slices), sum(slices), allowed, with_model=False)
    return found


def _sliced(
    row: dict[str, float | str], share: float, total_w: float, allowed: float, *, with_model: bool
) -> Sequence[Compared]:
    name, real_w = f"{row['pair']} {row['kernel']}", float(row["real_w"])
    found = [
        _checked(name, "share", float(row["printed_share"]), share, "part", PART + allowed),
    ]
    if with_model:
        # Two slices add up to the pair's watts, each rounded.
        found.append(
            _checked(name, "slice", float(row["slice_w"]), share * total_w, "W", 2 * WATT + WATT + allowed * total_w)
        )
    errors = [("slice_w", "printed_slice_error", "error of the slice")]
    if with_model:
        errors.append(("model_w", "printed_model_error", "error of the model"))
    for watts, printed, what in errors:
        value_w = float(row[watts])
        allowed = PART + _rounding(lambda of: of[0] / of[1], [value_w, real_w], [WATT, WATT])
        found.append(_checked(name, what, float(row[printed]), value_w / real_w - 1, "part", allowed))
    return found


def _checked(row: str, what: str, printed: float, computed: float, unit: str, rounding: float) -> Compared:
    one = Compared(row, what, printed, computed, unit, rounding)
    if one.agrees:
        return one
    unsigned = Compared(row, what, printed, computed, unit, rounding, UNSIGNED)
    return unsigned if unsigned.agrees else Compared(row, what, printed, computed, unit, rounding, CONTRADICTS)


def _figure_11() -> Sequence[Compared]:
    found, by_law = [], ("part", WHOLE_PERCENT, BY_CONSTRUCTION)
    for one in published.ratios():
        law, name = response(one.task), f"{one.benchmark} {one.task}"
        time, energy = law.time(LOWEST_HZ), law.energy(LOWEST_HZ)
        found += [
            Compared(name, "energy, 1.6 over 3.61 GHz", one.energy_ratio - 1, energy - 1, *by_law),
            Compared(name, "time", one.time_ratio - 1, time - 1, *by_law),
            Compared(name, "power", None, energy / time - 1, "part"),
            Compared(name, "EDP", None, energy * time - 1, "part"),
        ]
    between = f"drawn in the figure and not printed, from {LOWEST_HZ / 1e9:g} to {HIGHEST_HZ / 1e9:g} GHz"
    return [*found, Compared("all", "curves between the ends", None, None, "part", 0.0, between)]


def shares(model_w: Sequence[float], total_w: float) -> list[float]:
    """Return each core's share of a package's watts by equation 1, through a trace of one second.

    Parameters
    ----------
    model_w
        What equation 1 gives each core; the counters are those of a core that reaches it by IPC alone.
    total_w
        Of the package.
    """
    cycles = round(TABLES_HZ * RUN_NS * 1e-9)
    threads = [
        {
            "t_ns": [0, RUN_NS], "instance": [number, 0], "task": [number - 1, -1], "cpu": [number - 1] * 2,
            "package": 0, "cpu_ns": [0, RUN_NS], "cycles": [0, cycles],
            "instructions": [0, round((watts - TABLE_1.c1) / TABLE_1.a * cycles)], "l2_refs": [0, 0],
            "llc_refs": [0, 0],
        }
        for number, watts in enumerate(model_w, 1)
    ]  # fmt: skip
    t_ns = np.linspace(0, RUN_NS, READINGS).astype(np.int64)
    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        path = Path(folder) / "pair.tprof"
        names = [f"core {number}" for number in range(len(model_w))]
        write_trace(path, tasks=names, threads=threads, energy={"package-0": (t_ns, total_w * t_ns * 1e-9)})
        found = load_session(path).profile(model="linear", coefficients=TABLE_1).tasks
    energy_j = [float(found["dynamic_j"][found["task"] == name].sum()) for name in names]
    return [one / math.fsum(energy_j) for one in energy_j]


def _share(place: int, watts: list[float]) -> float:
    return watts[place] / sum(watts)


def _rounding(of: Callable[[list[float]], float], inputs: list[float], halves: Sequence[float]) -> float:
    """Return by how much a function may be off because each input was rounded by up to its half digit."""
    at = of(inputs)
    total = 0.0
    for place, half in enumerate(halves):
        moved = list(inputs)
        moved[place] += half
        total += abs(of(moved) - at)
    return total


def tables(found: Mapping[str, Sequence[Compared]]) -> Iterator[Table]:
    """Return what `recomputed` found as tables of text."""
    for name, rows in found.items():
        compared = [row.agrees for row in rows if row.agrees is not None and row.note != BY_CONSTRUCTION]
        explained = f"{sum(compared)} of {len(compared)} compared figures agree within rounding." if compared else ""
        yield Table(
            f"The TProf paper's {name}, computed from its printed figures",
            ("row", "figure", "paper", "computed", "difference", "rounding", "agrees", "note"),
            tuple(map(_cells, rows)),
            " ".join(text for text in (explained, NOTES[name]) if text),
            texts=2,
        )


def _cells(row: Compared) -> tuple[str, ...]:
    agrees = {True: "yes", False: "NO", None: ""}[row.agrees]
    values = (_figure(value, row.unit) for value in (row.printed, row.computed))
    rounding = NONE if row.difference is None else _figure(row.rounding, row.unit)
    return row.row, row.what, *values, _figure(row.difference, row.unit, signed=True), rounding, agrees, row.note


def _figure(value: float | None, unit: str, *, signed: bool = False) -> str:
    if value is None:
        return NONE
    sign, number = "+" if signed else "", 100 * value if unit == "part" else value
    shown = round(number, 2) or 0.0  # no "-0.00"
    return f"{shown:{sign}.2f} {'%' if unit == 'part' else unit}"
