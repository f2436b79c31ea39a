"""A table of counters and power, read from CSV: what other machines logged, public measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tprof.errors import UsageError

from .observations import Observations

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

Floats = NDArray[np.float64]
SHOWN = 30
TOO_LARGE = 1e30
MOSTLY = 0.5
EQUATION_1 = ("cores", "ipc", "l2", "llc", "hz")


@dataclass(frozen=True)
class Table:
    """Counters beside power.

    Attributes
    ----------
    power_w : (n,).
    counters : (n, k), one column a name in `names`.
    group : (n,) str, what is left out at a time.
    """

    power_w: Floats
    counters: Floats
    names: tuple[str, ...]
    group: NDArray[np.str_]


def read_csv(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a table; compressed files by their ending. Raises UsageError if there is none to read."""
    try:
        frame = pd.read_csv(path)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        message = f"cannot read a table from {path}: {reason}; give a CSV file with a line of headings"
        raise UsageError(message) from error
    if not len(frame):
        message = f"{path} has no rows: give a CSV file with a line of headings and a row a measurement"
        raise UsageError(message)
    return frame


def counters_table(frame: pd.DataFrame, *, power: str, group: str | None, counters: Sequence[str] | None) -> Table:
    """Take the columns of a fit to any counters.

    Parameters
    ----------
    frame
        The table.
    power
        Column of watts.
    group
        Column of what is left out at a time in cross-validation; None: ten even parts in the order of the rows.
    counters
        Columns to fit; None: all columns of numbers but power, group and what looks like a time.

    Raises
    ------
    UsageError
        If a column is missing or holds something else than numbers.
    """
    power_w = _watts(frame, power)
    names = tuple(counters) if counters else _numeric(frame, {power, group})
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        message = f'column "{twice[0]}" is named twice in --counters: name it once'
        raise UsageError(message)
    if not names:
        message = f"no column of numbers is left to fit {power} to: the table has {_columns(frame)}"
        raise UsageError(message)
    columns = np.column_stack([numbers(frame, name) for name in names])
    return Table(power_w, columns, names, _groups(frame, group))


def equation_1_table(frame: pd.DataFrame, *, power: str, group: str | None, columns: Mapping[str, str]) -> Observations:
    """Take the columns of equation 1.

    Parameters
    ----------
    frame, power, group
        As in `counters_table`.
    columns
        Which column is what: "cores" (active cores), "ipc" (summed over them), "l2" and "llc" (GB/s, summed), "hz".
        "cores" is needed, and one of the others.

    Raises
    ------
    UsageError
        If a column is missing or holds something else than numbers.
    """
    if "cores" not in columns:
        message = "equation 1 needs the number of active cores: name its column with --cores"
        raise UsageError(message)
    unknown = np.full(len(frame), np.nan)
    found = {name: numbers(frame, columns[name]) if name in columns else unknown for name in EQUATION_1}
    return Observations(
        _watts(frame, power),
        found["cores"],
        found["ipc"],
        found["l2"],
        found["llc"],
        _groups(frame, group),
        found["hz"],
    )


def numbers(frame: pd.DataFrame, name: str) -> Floats:
    """Return a column's numbers, (n,). Raises UsageError for a column that is missing or holds something else."""
    if name not in frame.columns:
        message = f'there is no column "{name}": the table has {_columns(frame)}'
        raise UsageError(message)
    values = pd.to_numeric(frame[name], errors="coerce").to_numpy(float)
    bad = np.flatnonzero(~(np.abs(values) < TOO_LARGE))
    if len(bad):
        line, cell = int(bad[0]) + 2, frame[name].iloc[bad[0]]
        got = "nothing" if pd.isna(cell) else f'"{cell}"'
        message = (
            f'column "{name}" must hold numbers below {TOO_LARGE:g}, got {got} in line {line}: leave that line out or '
            "the column"
        )
        raise UsageError(message)
    return values


def _watts(frame: pd.DataFrame, name: str) -> Floats:
    power_w = numbers(frame, name)
    bad = np.flatnonzero(power_w <= 0)
    if len(bad):
        message = f'power must be above 0 W, got {power_w[bad[0]]:g} in line {int(bad[0]) + 2} of column "{name}"'
        raise UsageError(message)
    return power_w


def _groups(frame: pd.DataFrame, name: str | None) -> NDArray[np.str_]:
    if name is None:
        parts = min(10, len(frame))
        return (np.arange(len(frame)) * parts // len(frame)).astype(str)
    if name not in frame.columns:
        message = f'there is no column "{name}": the table has {_columns(frame)}'
        raise UsageError(message)
    return frame[name].astype(str).to_numpy(str)


def _numeric(frame: pd.DataFrame, taken: set[str | None]) -> tuple[str, ...]:
    kept = [name for name in frame.columns if _is_mostly_numbers(frame[name])]
    return tuple(
        name for name in kept if name not in taken and not _is_time(str(name)) and not _is_constant(frame[name])
    )


def _is_mostly_numbers(column: pd.Series[float]) -> bool:
    """Tell a column of numbers, one with a stray text in it too: that is to be said, not passed over."""
    return bool(pd.to_numeric(column, errors="coerce").notna().mean() > MOSTLY)


def _is_constant(column: pd.Series[float]) -> bool:
    values = column.to_numpy()
    return bool((values == values[0]).all())


def _is_time(name: str) -> bool:
    return name.lower() in {"time", "timestamp", "date", "t", "time_s", "t_ns"}


def _columns(frame: pd.DataFrame) -> str:
    names = [str(name) for name in frame.columns]
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
