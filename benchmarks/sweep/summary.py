"""One row a task and operating point: means over the repeats, with the 95 % interval that their spread gives."""

from __future__ import annotations

from itertools import groupby
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from scipy.special import stdtrit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = Mapping[str, Any]

FIGURES = ("energy_j", "time_s", "power_w", "edp_js", "ed2p_js2")
COUNTED = ("stalls_per_cycle", "llc_misses")
_DOUBT = ("measured", "estimated", "simulated")


def ends(figure: str) -> tuple[str, str]:
    """Return the columns of a figure's interval, as of `energy_j` `energy_low_j` and `energy_high_j`."""
    stem, unit = figure.rsplit("_", 1)
    return f"{stem}_low_{unit}", f"{stem}_high_{unit}"


COLUMNS = (
    "task", "setting", "setting_unit", "workers", "repeats",
    *(column for figure in FIGURES for column in (figure, *ends(figure))),
    "instances", "quality", *COUNTED, "watts_factor",
)  # fmt: skip


def points_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a row for each task and operating point, in the order of `rows`, whose repeats stand together.

    A figure is the mean of the repeats that have it, EDP and ED²P of those of each run. The interval is Student's, so
    from two repeats it is wide; it is None where there is but one. None of them is below 0.
    """
    return [_point(list(group)) for _, group in groupby(rows, key=_point_of)]


def _point_of(row: Row) -> tuple[Any, ...]:
    return row["task"], row["setting"], row["workers"]


def _point(runs: Sequence[Row]) -> dict[str, Any]:
    same = {name: runs[0][name] for name in ("task", "setting", "setting_unit", "workers")}
    found = same | {"repeats": len(runs), "instances": mean(row["instances"] for row in runs)}
    found["quality"] = max((row["quality"] for row in runs), key=_doubt)
    for figure in FIGURES:
        found |= dict(zip((figure, *ends(figure)), _interval(_known(runs, figure)), strict=True))
    for name in COUNTED:
        found[name] = _interval(_known(runs, name))[0]
    found["watts_factor"] = max(_known(runs, "watts_factor"), default=None)
    return found


def _known(runs: Sequence[Row], name: str) -> list[float]:
    return [row[name] for row in runs if row[name] is not None]


def _interval(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    if not values:
        return None, None, None
    middle = mean(values)
    if len(values) == 1:
        return middle, None, None
    half = float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / len(values) ** 0.5
    return middle, max(middle - half, 0.0), middle + half


def _doubt(quality: str) -> int:
    """Rank qualities: of runs that differ, what is said is the least sure."""
    return _DOUBT.index(quality) if quality in _DOUBT else len(_DOUBT)
