"""The tables of `tprof summary --by`: tasks summed by host or by a label of their processes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError
from tprof.trace.plain_values import shown

from .progress import bar
from .render import DASH, NOT_RESOLVED, Column, clean, filled, interval, lines_of, percent, quantity, width_of
from .summary import shared_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    import pandas as pd

    from tprof.analysis import Profile

    Row = Mapping[Any, Any]

INTERVAL = "the intervals take the errors of all tasks as of one sign, so they are never too narrow"


def names_of(text: str) -> list[str]:
    """Return the names that `--by` gives. Raises UsageError if one is given twice, or none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise UsageError(f"--by takes host or names of labels, each once, such as --by host,rank, got {shown(text)}")
    return names


def by_as_plain(profile: Profile, names: Sequence[str]) -> dict[str, Any]:
    """Return the table and info as `dump` takes them."""
    rows = _table(profile, names).reset_index().to_dict("records")
    return {"by": rows, "info": profile.info}


def show_by(profile: Profile, stream: TextIO, names: Sequence[str]) -> None:
    """Print the table, and what it says of its figures."""
    table = _table(profile, names)
    quality = str(profile.info["quality"])
    width = width_of(stream)
    keys = [" ".join(clean(part) for part in (key if isinstance(key, tuple) else (key,))) for key in table.index]
    columns = _columns(list(table.to_dict("records")), is_mixed=quality == "mixed")
    print(f"Tasks by {' and '.join(clean(name) for name in names)}{shared_by(profile.info)}", file=stream)
    print(*lines_of(" ".join(names), keys, columns, width), sep="\n", file=stream)
    notes = [*([INTERVAL] if len(table) else ()), *_mpi_notes(table)]
    print("", *(filled(text, width) for text in notes), sep="\n", file=stream)


def _table(profile: Profile, names: Sequence[str]) -> pd.DataFrame:
    """Return the table, with a bar while a long recording is read once more for it."""
    with bar("instances") as progress:
        return profile.by(*names, progress=progress)


def _columns(rows: Sequence[Row], *, is_mixed: bool) -> list[Column]:
    cells: dict[str, list[str]] = {
        "energy (95 %)": [_with_interval(row) for row in rows],
        "share": [percent(float(row["share"])) for row in rows],
        "in tasks": [_known(row["own_s"], "s") for row in rows],
        "power": [_known(row["power_w"], "W") for row in rows],
        "instances": [f"{int(row['instances']):,}" for row in rows],
        "processes": [f"{int(row['processes']):,}" for row in rows],
        "CPU time": [_known(row["cpu_s"], "s") for row in rows],
    }
    if rows and "mpi_s" in rows[0]:
        cells["in MPI"] = [percent(_part(row["mpi_s"], row["own_s"])) for row in rows]
        cells["MPI energy"] = [_known(row["mpi_j"], "J") for row in rows]
    if is_mixed:
        cells["quality"] = [str(row["quality"]) for row in rows]
    return [Column(heading, tuple(texts), len(cells) - use) for use, (heading, texts) in enumerate(cells.items())]


def _with_interval(row: Row) -> str:
    value, low, high = (float(row[name]) for name in ("energy_j", "energy_low_j", "energy_high_j"))
    if math.isnan(value):
        return NOT_RESOLVED
    return interval(value, low, high, "J") if math.isfinite(low) and math.isfinite(high) else quantity(value, "J")


def _mpi_notes(table: pd.DataFrame) -> list[str]:
    if "mpi_s" not in table:
        return []
    whole = _part(table["mpi_s"].sum(), table["own_s"].sum())
    return [f"in MPI: part of the time in tasks that calls of MPI took, waiting in them too; {percent(whole)} of all"]


def _known(value: Any, unit: str) -> str:
    return DASH if math.isnan(float(value)) else quantity(float(value), unit)


def _part(value: float, whole: float) -> float:
    return float(value) / float(whole) if whole > 0 else math.nan
