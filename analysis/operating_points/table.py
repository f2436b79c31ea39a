"""The table of operating points: its columns, read from CSV or Parquet, completed and checked.

Its form is tidy, a row for each task, operating point and repeat; `docs/operating-points.md` lists the columns. Tables
are written by `tprof sweep` or by hand. Advice and a runtime's policy read the same tables. A policy does so in a
measured program, so pandas is imported only where a frame is asked for.
"""

from __future__ import annotations

import io
import math
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError, UsageError
from tprof.trace.kinds import Quality
from tprof.trace.manifest import MANIFEST
from tprof.trace.plain_values import EMPTY, MOST_CELLS, listed, number, parse_cells, shown, unquoted
from tprof.trace.user_files import MOST_TABLE_BYTES, UnreadableError, read_bytes, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    import pandas as pd

    Columns: TypeAlias = dict[str, list[Any]]

UNITS = ("Hz", "W")
QUALITIES = tuple(str(kind) for kind in Quality)
NUMBERS = (
    "setting", "workers", "repeat", "energy_j", "energy_low_j", "energy_high_j", "time_s", "power_w", "instances",
    "stalls_per_cycle", "llc_misses", "watts_factor",
)  # fmt: skip
GIVEN = str(Quality.GIVEN)
"""Quality of energies in a table without a quality."""
BOUNDS = 1e-12, 1e15
"""Bounds of seconds and joules; squares of values outside overflow a float."""
SETTINGS = {"Hz": (5e7, 2e10), "W": (1e-3, 1e5)}
"""Bounds of settings; values outside have another unit."""
SWEPT = "sweep.csv"
PARQUET = ".parquet"
PROGRAM = ""
"""The task of the rows that are about the whole program."""
MOST_WORKERS = 1_000_000
LIMITS = {
    "time_s": BOUNDS,
    "energy_j": BOUNDS,
    **dict.fromkeys(("energy_low_j", "energy_high_j"), (-BOUNDS[1], BOUNDS[1])),
    "instances": (1e-6, 1e18),
    **dict.fromkeys(("stalls_per_cycle", "llc_misses", "repeat"), (0.0, 1e18)),
    "watts_factor": (1.0, 1e6),
}
POSITIVE = ("setting", "energy_j", "time_s", "power_w", "instances")


def table_of(path: Path) -> Path:
    """Return the table at a path, a sweep's folder or a file. Raises UsageError for a session."""
    # Path.is_dir raises OSError for a name that is too long and without permission.
    if not os.path.isdir(path):
        return path
    if os.path.isfile(path / MANIFEST) and not os.path.exists(path / SWEPT):
        raise UsageError(
            f"{path} is a session, one run at one operating point; tprof sweep runs a program at several and makes "
            "the table"
        )
    return path / SWEPT


def read(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the checked rows of a table.

    Parameters
    ----------
    path
        CSV, or parquet where the name ends in `.parquet`; or the folder of a sweep.

    Raises
    ------
    TprofError
        The file cannot be read as a table.
    UsageError
        The table has an error, or the path is a session.
    """
    import pandas as pd  # noqa: PLC0415 - a policy reads columns without it

    path = table_of(Path(path))
    if path.suffix == PARQUET:
        return check(_parquet(path), where=str(path))
    return pd.DataFrame(read_columns(path))


def check(rows: pd.DataFrame, *, where: str) -> pd.DataFrame:
    """Return a program's rows as `checked` does; `where` is the name of the table in errors. Raises UsageError."""
    import pandas as pd  # noqa: PLC0415 - as above

    names = [str(name) for name in rows.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{where} has two columns called {shown(twice)}; give each column its own name")
    columns = {name: _plain(rows.iloc[:, place]) for place, name in enumerate(names)}
    return pd.DataFrame(checked(columns, where=where, count=len(rows)))


def read_columns(path: Path) -> Columns:
    """Return the checked columns of a CSV table.

    Raises
    ------
    TprofError
        If the file cannot be read as a table.
    UsageError
        If the table has an error.
    """
    try:
        text = read_text(path, MOST_TABLE_BYTES, unpacked=True)
    except UnreadableError as error:
        raise TprofError(f"{error}; name a table of operating points") from error
    try:
        cells = parse_cells(text)
    except ValueError as error:
        raise _unreadable(path, str(error)) from error
    columns: Columns = {name: [row[place] for row in cells.rows] for place, name in enumerate(cells.names)}
    for name in (*NUMBERS, "setting_unit", "quality"):
        if name in columns:
            columns[name] = [None if cell.strip() in EMPTY else cell for cell in columns[name]]
    if "task" in columns:
        columns["task"] = [unquoted(cell) for cell in columns["task"]]
    return checked(columns, where=str(path), count=len(cells.rows))


def _unreadable(path: Path, reason: str) -> TprofError:
    """Return the error for a file that is not a table."""
    return TprofError(f"cannot read {path} as a table: {reason}; write CSV with a line of column names")


def checked(columns: Mapping[str, Sequence[Any]], *, where: str, count: int) -> Columns:
    """Return the known columns, with absent ones filled in, and all other columns unchanged.

    The energy of a row may be missing: the sensor did not resolve it.

    Parameters
    ----------
    columns
        Numbers, or texts of numbers; None and NaN are missing.
    where
        Name of the table in errors.
    count
        Of the rows.

    Raises
    ------
    UsageError
        If a column is missing, a value is invalid, or two rows are the same run.
    """
    if not count:
        raise UsageError(f"{where} has no rows; a table of operating points needs at least two points of one task")
    for name in ("task", "time_s"):
        if name not in columns:
            raise UsageError(f"{where} has no column {name}; its columns are {listed(columns)}")
    if "energy_j" not in columns and "power_w" not in columns:
        raise UsageError(f"{where} has neither energy_j nor power_w; give the energy of each row in one of them")
    rows: Columns = {name: _numbers(columns.get(name), name, (where, count)) for name in NUMBERS}
    rows["task"] = [_text(name) for name in columns["task"]]
    rows["setting_unit"] = [_unit(columns, rows["setting"], where)] * count
    rows["workers"] = [1.0 if math.isnan(one) else one for one in rows["workers"]]
    rows["quality"] = _qualities(columns, (where, count))
    known = zip(rows["energy_j"], rows["power_w"], rows["time_s"], strict=True)
    rows["energy_j"] = [power_w * time_s if math.isnan(energy_j) else energy_j for energy_j, power_w, time_s in known]
    _check_values(rows, where)
    rows["workers"] = [int(one) for one in rows["workers"]]
    _check_repeats(rows, where)
    return {**{name: list(values) for name, values in columns.items()}, **rows}


def _numbers(values: Sequence[Any] | None, name: str, table: tuple[str, int]) -> list[float]:
    where, count = table
    if values is None:
        return [math.nan] * count
    found = []
    for row, value in enumerate(values, 1):
        try:
            found.append(_number(value))
        except ValueError:
            message = f"{where}, row {row}: {name} must be a number, got {shown(value)}"
            raise UsageError(message) from None
    return found


def _number(value: Any) -> float:
    """Return a cell as a float, NaN for a missing one. Raises ValueError."""
    if type(value) is str:
        return number(value.strip())
    if value is None or value != value:  # noqa: PLR0124 - NaN, whatever its type
        return math.nan
    if isinstance(value, bool) or not hasattr(type(value), "__float__"):
        raise ValueError
    try:
        found = float(value)
    except OverflowError as error:
        raise ValueError from error
    if math.isinf(found):
        raise ValueError
    return found


def _text(value: Any) -> str:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def _unit(columns: Mapping[str, Sequence[Any]], settings: list[float], where: str) -> str:
    without = [math.isnan(setting) for setting in settings]
    if all(without):
        return ""
    _refuse_rows(where, without, lambda _: "setting is empty; give a setting in every row or in none")
    given = sorted({_text(one) for one in columns.get("setting_unit", ())})
    if len(given) == 1 and given[0] in UNITS:
        return given[0]
    got = f"got {listed(map(shown, given))}" if given else "the column is missing"
    raise UsageError(f"{where}: setting_unit must be Hz (a frequency) or W (a power limit), one for all rows; {got}")


def _qualities(columns: Mapping[str, Sequence[Any]], table: tuple[str, int]) -> list[str]:
    where, count = table
    if "quality" not in columns:
        return [GIVEN] * count
    qualities = [_text(one) or GIVEN for one in columns["quality"]]
    _refuse_rows(
        where,
        (one not in QUALITIES for one in qualities),
        lambda row: f"quality must be {', '.join(QUALITIES)}, got {shown(qualities[row])}",
    )
    return qualities


def _check_values(rows: Columns, where: str) -> None:
    _refuse_rows(where, map(math.isnan, rows["time_s"]), lambda _: "time_s is empty")
    if all(map(math.isnan, rows["energy_j"])):
        raise UsageError(f"{where}: no row has an energy; measure with a sensor, or give energy_j or power_w")
    for name in POSITIVE:
        _refuse_values(where, name, rows[name], lambda value: value > 0, "above 0")
    for name, (low, high) in LIMITS.items():
        _refuse_values(where, name, rows[name], partial(_is_between, low, high), f"from {low:g} to {high:g}")
    count = f"a whole number from 1 to {MOST_WORKERS}"
    _refuse_values(
        where, "workers", rows["workers"], lambda value: 1 <= value <= MOST_WORKERS and value % 1 == 0, count
    )
    bounds = zip(rows["energy_low_j"], rows["energy_j"], rows["energy_high_j"], strict=True)
    _refuse_rows(
        where,
        (low > energy_j or high < energy_j for low, energy_j, high in bounds),
        lambda _: "energy_j lies outside energy_low_j to energy_high_j",
    )
    _check_settings(rows, where)


def _refuse_values(where: str, name: str, values: list[float], allows: Callable[[float], bool], rule: str) -> None:
    """Raise UsageError for the first value that is not allowed."""
    wrong = (not (allows(value) or math.isnan(value)) for value in values)
    _refuse_rows(where, wrong, lambda row: f"{name} must be {rule}, got {values[row]:g}")


def _is_between(low: float, high: float, value: float) -> bool:
    return low <= value <= high


def _check_settings(rows: Columns, where: str) -> None:
    unit = rows["setting_unit"][0]
    if not unit:
        return
    low, high = SETTINGS[unit]
    slip = "are they in kHz, MHz or GHz?" if unit == "Hz" else "are they in mW, or frequencies in Hz?"
    example = "frequencies are in Hz, such as 3300000000 for 3.3 GHz" if unit == "Hz" else "power limits are in W"
    _refuse_rows(
        where,
        (not low <= one <= high for one in rows["setting"]),
        lambda row: f"setting is {rows['setting'][row]:.12g} {unit}, which cannot be; {example}: {slip}",
    )


def _check_repeats(rows: Columns, where: str) -> None:
    numbered = not all(map(math.isnan, rows["repeat"]))
    names = ("task", "setting", "workers", *(("repeat",) if numbered else ("time_s", "energy_j")))
    # A duplicated row would count as a second run with exactly the same result.
    message = (
        "task, setting, workers and repeat are those of an earlier row; number the repeats"
        if numbered
        else "all values are those of an earlier row; leave it out, or number the runs in a column repeat"
    )
    runs = zip(*(map(_as_key, rows[name]) for name in names), strict=True)
    seen = set[tuple[Any, ...]]()
    again = [run in seen or bool(seen.add(run)) for run in runs]  # type: ignore[func-returns-value]
    known = (numbered or not math.isnan(energy_j) for energy_j in rows["energy_j"])
    _refuse_rows(where, (twice and counts for twice, counts in zip(again, known, strict=True)), lambda _: message)


def _as_key(value: Any) -> Any:
    """Return a key in which all missing values are equal."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _refuse_rows(where: str, wrong: Iterable[bool], describe: Callable[[int], str]) -> None:
    """Raise UsageError for the first row that is wrong."""
    row = next((row for row, is_wrong in enumerate(wrong) if is_wrong), None)
    if row is not None:
        raise UsageError(f"{where}, row {row + 1}: {describe(row)}")


def _plain(column: pd.Series) -> list[object]:
    """Return a column as Python values, None for missing ones."""
    values = column.astype(object)
    return values.where(values.notna(), None).tolist()


def _parquet(path: Path) -> pd.DataFrame:
    try:
        content = read_bytes(path, MOST_TABLE_BYTES)
    except UnreadableError as error:
        raise TprofError(f"{error}; name a table of operating points") from error
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise _unreadable(path, "parquet needs pyarrow, which tprof[parquet] brings") from error
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        if file.metadata.num_rows * file.metadata.num_columns > MOST_CELLS:
            raise _unreadable(path, f"it has more than {MOST_CELLS} cells")
        # Metadata of pandas is not needed, and may be wrong.
        frame: pd.DataFrame = file.read().to_pandas(ignore_metadata=True)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise _unreadable(path, reason) from error
    return frame
