"""Reads the table of operating points from CSV, Parquet or a program's rows, completes and checks it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pandas as pd

from tprof.errors import TprofError, UsageError
from tprof.trace.operating_points import checked, read_columns, table_of, unreadable_table
from tprof.trace.plain_values import MOST_CELLS, shown
from tprof.trace.user_files import MOST_TABLE_BYTES, UnreadableError, read_bytes

if TYPE_CHECKING:
    from pathlib import Path


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
        The table has an error, or the path is a session.
    """
    path = table_of(path)
    if path.suffix == ".parquet":
        return check(_parquet(path), where=str(path))
    return pd.DataFrame(read_columns(path))


def check(rows: pd.DataFrame, *, where: str) -> pd.DataFrame:
    """Return rows with all known columns; absent ones are filled in.

    The energy of a row may be empty: the sensor did not resolve it.

    Parameters
    ----------
    rows
        From a file or a program.
    where
        Name of the table in errors.

    Raises
    ------
    UsageError
        A column is missing, a value is invalid, or two rows are the same run.
    """
    names = [str(name) for name in rows.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{where} has two columns called {shown(twice)}; give each column its own name")
    columns = {name: _plain(rows.iloc[:, place]) for place, name in enumerate(names)}
    return pd.DataFrame(checked(columns, where=where, count=len(rows)))


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
        raise unreadable_table(path, "parquet needs pyarrow, which tprof[parquet] brings") from error
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        if file.metadata.num_rows * file.metadata.num_columns > MOST_CELLS:
            raise unreadable_table(path, f"it has more than {MOST_CELLS} cells")
        # Metadata of pandas is not needed, and may be wrong.
        frame: pd.DataFrame = file.read().to_pandas(ignore_metadata=True)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise unreadable_table(path, reason) from error
    return frame
