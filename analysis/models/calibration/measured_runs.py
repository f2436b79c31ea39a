"""A table of counters and power from CSV: logs of other machines, public measurements."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tprof.errors import UsageError
from tprof.trace.plain_values import EMPTY, floats, is_finite, listed, number, parse_cells, shown
from tprof.trace.user_files import MOST_TABLE_BYTES, UnreadableError, read_text

from .observations import Observations
from .regression import LEAST_W, MOST_W

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

Floats = NDArray[np.float64]
TOO_LARGE = 1e30
MOSTLY = 0.5
LONGEST_NAME = 200
LINE, FILE = "line", "file"
EQUATION_1 = ("cores", "ipc", "l2", "llc", "hz")


@dataclass(frozen=True)
class Table:
    """Counters beside power.

    Attributes
    ----------
    power_w : (n,).
    counters : (n, k), one column per name in `names`.
    group : (n,) str, left out as a whole in cross-validation.
    """

    power_w: Floats
    counters: Floats
    names: tuple[str, ...]
    group: NDArray[np.str_]


def read_csv(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a table; compressed files by their ending.

    Returns
    -------
    table : a row per measurement, the texts of its cells and None for empty ones; its index, called `LINE`, is the line
        of each row in the file, which its attribute `FILE` names.

    Raises
    ------
    UsageError
        If the table cannot be read.
    """
    place = Path(path)
    try:
        cells = parse_cells(read_text(place, MOST_TABLE_BYTES, unpacked=True))
    except UnreadableError as error:
        raise UsageError(_no_table(place, error.reason)) from error
    except ValueError as error:
        raise UsageError(_no_table(place, str(error))) from error
    if not cells.rows:
        raise UsageError(f"{path} has no rows: give a CSV file with a line of headings and a row a measurement")
    columns = {name: [_known(row[at]) for row in cells.rows] for at, name in enumerate(cells.names)}
    frame = pd.DataFrame(columns, index=pd.Index(cells.lines, name=LINE), dtype=object)
    frame.attrs[FILE] = str(path)
    return frame


def _no_table(path: Path, reason: str) -> str:
    return f"cannot read a table from {path}: {reason}; give a CSV file with a line of headings"


def _known(cell: str) -> str | None:
    return None if cell.strip() in EMPTY else cell


def counters_table(frame: pd.DataFrame, *, power: str, group: str | None, counters: Sequence[str] | None) -> Table:
    """Select the columns of a fit to any counters.

    Parameters
    ----------
    frame
        The table.
    power
        Column of watts.
    group
        Column of groups for cross-validation; None: ten even parts in the order of the rows.
    counters
        Columns to fit; None: all columns of numbers except power, group and columns that look like times.

    Raises
    ------
    UsageError
        If a column is missing or is not numeric.
    """
    power_w = _watts(frame, power)
    names = tuple(counters) if counters else _numeric(frame, {power, group})
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f'column "{twice[0]}" is named twice in --counters: name it once')
    if not names:
        raise _wrong(frame, f"no column of numbers is left to fit {power} to: the table has {listed(frame.columns)}")
    columns = np.column_stack([numbers(frame, name) for name in names])
    return Table(power_w, columns, names, _groups(frame, group))


def known_watts(frame: pd.DataFrame, name: str) -> Floats | None:
    """Return a table's column of watts, (n,); None if it has no such column. Raises UsageError."""
    return _watts(frame, name) if name in frame.columns else None


def groups_of(frame: pd.DataFrame, name: str | None) -> NDArray[np.str_]:
    """Return each row's group; ten even parts in the order of the rows if the table does not name them."""
    return _groups(frame, name if name in frame.columns else None)


def equation_1_table(
    frame: pd.DataFrame, *, power: str | None, group: str | None, columns: Mapping[str, str]
) -> Observations:
    """Select the columns of equation 1.

    Parameters
    ----------
    frame, power, group
        As in `counters_table`; power None: it is not known.
    columns
        Column by role: "cores" (active cores), "ipc" (summed over them), "l2" and "llc" (GB/s, summed), "hz".
        "cores" is required, and one of the others.

    Raises
    ------
    UsageError
        If a column is missing or is not numeric.
    """
    if "cores" not in columns:
        raise UsageError("equation 1 needs the number of active cores: name its column with --cores")
    unknown = np.full(len(frame), np.nan)
    found = {name: numbers(frame, columns[name]) if name in columns else unknown for name in EQUATION_1}
    return Observations(
        unknown if power is None else _watts(frame, power),
        found["cores"],
        found["ipc"],
        found["l2"],
        found["llc"],
        _groups(frame, group),
        found["hz"],
    )


def numbers(frame: pd.DataFrame, name: str) -> Floats:
    """Return a column's numbers, (n,). Raises UsageError for a column that is missing or not numeric."""
    if name not in frame.columns:
        raise _wrong(frame, f'there is no column "{name}": the table has {listed(frame.columns)}')
    values = _floats(frame[name])
    bad = np.flatnonzero(~(np.abs(values) < TOO_LARGE))
    if len(bad):
        cell = frame[name].iloc[bad[0]]
        got = "nothing" if pd.isna(cell) else f'"{listed([cell])}"'
        message = (
            f'column "{name}" must hold numbers below {TOO_LARGE:g}, got {got} in line {_line(frame, bad[0])}: leave '
            "that line out or the column"
        )
        raise _wrong(frame, message)
    return values


def _floats(column: pd.Series[float]) -> Floats:
    """Return a column's numbers, (n,); NaN for other cells."""
    values = column.astype(object).tolist()
    if all(isinstance(value, str) for value in values):
        with suppress(ValueError):
            return np.array(floats([value.strip() for value in values]), np.float64)
    return np.array([_float(value) for value in values], np.float64)


def _float(value: object) -> float:
    if isinstance(value, str):
        try:
            return number(value.strip())
        except ValueError:
            return np.nan
    return float(value) if is_finite(value) else np.nan


def _line(frame: pd.DataFrame, row: int) -> int:
    return int(frame.index[row]) if frame.index.name == LINE else int(row) + 2


def _watts(frame: pd.DataFrame, name: str) -> Floats:
    power_w = numbers(frame, name)
    bad = np.flatnonzero(power_w <= 0)
    if len(bad):
        message = f'power must be above 0 W, got {power_w[bad[0]]:g} in line {_line(frame, bad[0])} of column "{name}"'
        raise _wrong(frame, message)
    bad = np.flatnonzero((power_w < LEAST_W) | (power_w > MOST_W))
    if len(bad):
        where = f'in line {_line(frame, bad[0])} of column "{name}": is it in watts?'
        message = f"power must be from {LEAST_W:g} to {MOST_W:g} W, got {power_w[bad[0]]:g} {where}"
        raise _wrong(frame, message)
    return power_w


def _groups(frame: pd.DataFrame, name: str | None) -> NDArray[np.str_]:
    if name is None:
        parts = min(10, len(frame))
        return (np.arange(len(frame)) * parts // len(frame)).astype(str)
    if name not in frame.columns:
        raise _wrong(frame, f'there is no column "{name}": the table has {listed(frame.columns)}')
    names = frame[name].astype(object)
    texts = names.where(names.notna(), "").astype(str)
    long = np.flatnonzero(texts.str.len() > LONGEST_NAME)
    if len(long):
        got = f"{shown(texts.iloc[long[0]])} in line {_line(frame, long[0])}"
        message = f'column "{name}" must hold names of at most {LONGEST_NAME} characters, got {got}'
        raise _wrong(frame, message)
    return texts.to_numpy(str)


def _numeric(frame: pd.DataFrame, taken: set[str | None]) -> tuple[str, ...]:
    kept = [name for name in frame.columns if _is_mostly_numbers(frame[name])]
    return tuple(
        name for name in kept if name not in taken and not _is_time(str(name)) and not _is_constant(frame[name])
    )


def _is_mostly_numbers(column: pd.Series[float]) -> bool:
    """Return whether a column is numeric; a stray text does not change that: it must be reported, not skipped."""
    return bool(np.isfinite(_floats(column)).mean() > MOSTLY)


def _is_constant(column: pd.Series[float]) -> bool:
    values = _floats(column)
    return bool((values == values[0]).all())


def _is_time(name: str) -> bool:
    return name.lower() in {"time", "timestamp", "date", "t", "time_s", "t_ns"}


def _wrong(frame: pd.DataFrame, message: str) -> UsageError:
    """Return the error with the table's file, if it has one."""
    return UsageError(f"{frame.attrs[FILE]}: {message}" if FILE in frame.attrs else message)
