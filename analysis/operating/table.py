"""The table of operating points: read, completed and checked, so that whatever comes after may trust it.

Its form is tidy, a row for each task, operating point and repeat; `docs/operating-points.md` lists the columns. Tables
are written by `tprof sweep` or by hand.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tprof.errors import TprofError, UsageError
from tprof.trace.cells import unquoted
from tprof.trace.kinds import Quality
from tprof.trace.manifest import MANIFEST

if TYPE_CHECKING:
    from pathlib import Path

UNITS = ("Hz", "W")
QUALITIES = tuple(str(kind) for kind in Quality)
NUMBERS = (
    "setting", "workers", "repeat", "energy_j", "energy_low_j", "energy_high_j", "time_s", "power_w", "instances",
    "stalls_per_cycle", "llc_misses", "watts_factor",
)  # fmt: skip
GIVEN = str(Quality.GIVEN)
"""What energies are that a table does not call anything."""
BOUNDS = 1e-12, 1e15
"""Of seconds and joules; beyond them squares leave what a float can hold."""
SETTINGS = {"Hz": (5e7, 2e10), "W": (1e-3, 1e5)}
"""Which settings can be; beyond them the unit is another."""
SWEPT = "sweep.csv"
EMPTY = ["", "NA", "N/A", "nan", "NaN", "null", "None"]
"""What stands for no value in all columns but the task's, where it is a name."""
BEYOND = "beyond the last name"
"""The column of what a comma at the end of each row begins."""
MOST_WORKERS = 1_000_000
POSITIVE = ("setting", "energy_j", "time_s", "power_w", "instances")


def read(path: Path) -> pd.DataFrame:
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
        It is one, and something in it is wrong; or it is a session.
    """
    if path.is_dir():
        _refuse_session(path)
        path = path / SWEPT
    try:
        rows = pd.read_parquet(path) if path.suffix == ".parquet" else _csv(path)
    except OSError as error:
        raise TprofError(f"cannot read {path}: {error.strerror or error}; name a table of operating points") from error
    except pd.errors.ParserWarning as error:
        raise TprofError(f"cannot read {path} as a table: rows have more cells than there are column names") from error
    except (ValueError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise TprofError(f"cannot read {path} as a table: {reason}; write CSV with a line of column names") from error
    return check(rows, where=str(path))


def check(rows: pd.DataFrame, *, where: str) -> pd.DataFrame:
    """Return rows with every column that is known, those that were absent filled in.

    The energy of a row may be empty: the sensor did not resolve it.

    Parameters
    ----------
    rows
        As read or as a program made them.
    where
        What to call the table in an error.

    Raises
    ------
    UsageError
        A column is missing, a value is none that can be, or two rows are the same run.
    """
    if rows.empty:
        raise UsageError(f"{where} has no rows; a table of operating points needs at least two points of one task")
    rows = rows.reset_index(drop=True)
    for name in ("task", "time_s"):
        if name not in rows:
            raise UsageError(f"{where} has no column {name}; its columns are {', '.join(map(str, rows.columns))}")
    if "energy_j" not in rows and "power_w" not in rows:
        raise UsageError(f"{where} has neither energy_j nor power_w; give the energy of each row in one of them")
    rows = rows.assign(**{name: _numbers(rows, name, where) for name in NUMBERS})
    rows = rows.assign(
        task=rows["task"].astype("string").fillna("").astype(str),
        setting_unit=_unit(rows, where),
        workers=rows["workers"].fillna(1.0),
        quality=_quality(rows, where),
        energy_j=rows["energy_j"].fillna(rows["power_w"] * rows["time_s"]),
    )
    _check_values(rows, where)
    rows["workers"] = rows["workers"].astype(np.int64)
    _check_repeats(rows, where)
    return rows


def _csv(path: Path) -> pd.DataFrame:
    try:
        rows = _parsed(path)
    except pd.errors.ParserWarning:
        rows = _parsed(path, [*pd.read_csv(path, nrows=0, index_col=False).columns, BEYOND])
        if rows.pop(BEYOND).notna().any():
            raise
    return rows.assign(task=rows["task"].map(unquoted)) if "task" in rows else rows


def _parsed(path: Path, names: list[str] | None = None) -> pd.DataFrame:
    """Return the rows as pandas reads them, `names` in place of its first line. Raises ParserWarning for longer rows.

    Without `index_col=False` pandas takes the first cells of longer rows for their names; with it it drops the last.
    """
    empty = dict.fromkeys((*NUMBERS, "setting_unit", "quality", BEYOND), EMPTY)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(
            path, names=names, header=0, index_col=False, dtype={"task": str}, keep_default_na=False, na_values=empty
        )


def _refuse_session(folder: Path) -> None:
    if (folder / MANIFEST).is_file() and not (folder / SWEPT).exists():
        raise UsageError(
            f"{folder} is a session, one run at one operating point; tprof sweep runs a program at several and makes "
            "the table"
        )


def _numbers(rows: pd.DataFrame, name: str, where: str) -> pd.Series:
    if name not in rows:
        return pd.Series(np.nan, index=rows.index)
    values = pd.to_numeric(rows[name], errors="coerce")
    wrong = values.isna() & rows[name].notna() | np.isinf(values)
    if wrong.any():
        line = _line(wrong)
        raise UsageError(f"{where}, row {line + 1}: {name} must be a number, got {str(rows[name][line])!r}")
    return values.astype(float)


def _unit(rows: pd.DataFrame, where: str) -> str:
    with_setting = rows["setting"].notna()
    if not with_setting.any():
        return ""
    if not with_setting.all():
        row = _line(~with_setting) + 1
        raise UsageError(f"{where}, row {row}: setting is empty; give a setting in every row or in none")
    given = sorted(set(rows["setting_unit"].astype("string").fillna(""))) if "setting_unit" in rows else []
    if given and given[0] in UNITS and len(given) == 1:
        return str(given[0])
    got = f"got {', '.join(repr(str(one)) for one in given)}" if given else "the column is missing"
    raise UsageError(f"{where}: setting_unit must be Hz (a frequency) or W (a power limit), one for all rows; {got}")


def _quality(rows: pd.DataFrame, where: str) -> pd.Series:
    if "quality" not in rows:
        return pd.Series(GIVEN, index=rows.index)
    quality = rows["quality"].astype("string").fillna(GIVEN).astype(str)
    wrong = ~quality.isin(QUALITIES)
    if wrong.any():
        line = _line(wrong)
        raise UsageError(f"{where}, row {line + 1}: quality must be {', '.join(QUALITIES)}, got {quality[line]!r}")
    return quality


def _check_values(rows: pd.DataFrame, where: str) -> None:
    if rows["time_s"].isna().any():
        raise UsageError(f"{where}, row {_line(rows['time_s'].isna()) + 1}: time_s is empty")
    if rows["energy_j"].isna().all():
        raise UsageError(f"{where}: no row has an energy; measure with a sensor, or give energy_j or power_w")
    for name in POSITIVE:
        wrong = rows[name] <= 0
        if wrong.any():
            line = _line(wrong)
            raise UsageError(f"{where}, row {line + 1}: {name} must be above 0, got {rows[name][line]:g}")
    for name in ("time_s", "energy_j"):
        wrong = ~rows[name].between(*BOUNDS) & rows[name].notna()
        if wrong.any():
            line = _line(wrong)
            ends = " to ".join(f"{one:g}" for one in BOUNDS)
            raise UsageError(f"{where}, row {line + 1}: {name} must be from {ends}, got {rows[name][line]:g}")
    wrong = ~rows["workers"].between(1, MOST_WORKERS) | (rows["workers"] % 1 != 0)
    if wrong.any():
        line = _line(wrong)
        raise UsageError(
            f"{where}, row {line + 1}: workers must be a whole number from 1 to {MOST_WORKERS}, got "
            f"{rows['workers'][line]:g}"
        )
    wrong = rows["watts_factor"] < 1
    if wrong.any():
        line = _line(wrong)
        raise UsageError(f"{where}, row {line + 1}: watts_factor must be 1 or more, got {rows['watts_factor'][line]:g}")
    wrong = (rows["energy_low_j"] > rows["energy_j"]) | (rows["energy_high_j"] < rows["energy_j"])
    if wrong.any():
        raise UsageError(f"{where}, row {_line(wrong) + 1}: energy_j lies outside energy_low_j to energy_high_j")
    _check_settings(rows, where)


def _check_settings(rows: pd.DataFrame, where: str) -> None:
    unit = rows["setting_unit"].iloc[0]
    if not unit:
        return
    wrong = ~rows["setting"].between(*SETTINGS[unit])
    if not wrong.any():
        return
    line = _line(wrong)
    slip = "are they in kHz, MHz or GHz?" if unit == "Hz" else "are they in mW, or frequencies in Hz?"
    example = "frequencies are in Hz, such as 3300000000 for 3.3 GHz" if unit == "Hz" else "power limits are in W"
    raise UsageError(
        f"{where}, row {line + 1}: setting is {rows['setting'][line]:.12g} {unit}, which cannot be; {example}: {slip}"
    )


def _check_repeats(rows: pd.DataFrame, where: str) -> None:
    if rows["repeat"].isna().all():
        # A row pasted twice would count as a second run that showed exactly the same.
        again = rows.duplicated(["task", "setting", "workers", "time_s", "energy_j"]) & rows["energy_j"].notna()
        told = "all values are those of an earlier row; leave it out, or number the runs in a column repeat"
    else:
        again = rows.duplicated(["task", "setting", "workers", "repeat"])
        told = "task, setting, workers and repeat are those of an earlier row; number the repeats"
    if again.any():
        raise UsageError(f"{where}, row {_line(again) + 1}: {told}")


def _line(wrong: pd.Series) -> int:
    return int(np.flatnonzero(wrong.to_numpy())[0])
