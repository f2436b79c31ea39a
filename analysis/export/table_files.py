"""Files that take a table in one piece or in several, one after the other: CSV and Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


class TableFile(Protocol):
    """A file of one table, whose name is the path's last part without an ending."""

    def __init__(self, path: Path) -> None:
        """Begin without rows."""

    def add(self, frame: pd.DataFrame) -> None:
        """Write rows. Raises OSError."""

    def close(self) -> None:
        """Complete the file. Raises OSError."""


class CsvFile:
    """A table as a spreadsheet opens it without running anything."""

    def __init__(self, path: Path) -> None:
        """Begin without rows."""
        self._path = path.with_suffix(".csv")
        self._is_begun = False

    def add(self, frame: pd.DataFrame) -> None:
        """Write rows, and the header before the first ones. Raises OSError."""
        from .tables import safe_frame  # noqa: PLC0415 - which writes these files

        is_first = not self._is_begun
        safe_frame(frame).to_csv(self._path, index=False, header=is_first, mode="w" if is_first else "a")
        self._is_begun = True

    def close(self) -> None:
        """Do nothing: the file is complete after each piece."""


class ParquetFile:
    """A table as Parquet; a piece is a group of rows, which readers take alone. The first piece has the schema.

    The file is opened here, since pyarrow takes no path that is not UTF-8.
    """

    def __init__(self, path: Path) -> None:
        """Begin without rows."""
        self._path = path.with_suffix(".parquet")
        self._file: BinaryIO | None = None
        self._writer: Any = None

    def add(self, frame: pd.DataFrame) -> None:
        """Write rows. Raises OSError."""
        from .arrow import table_of  # noqa: PLC0415 - optional; `Format.write` asked for it

        table = table_of(self._path.stem, frame)
        if self._file is None:
            self._file = self._path.open("wb")
            self._writer = _parquet_writer(self._file, table.schema)
        # By default a group has a million rows at most.
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def close(self) -> None:
        """Complete the file. Raises OSError."""
        if self._file is not None:
            with self._file:
                self._writer.close()


def _parquet_writer(file: BinaryIO, schema: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    # Figures hardly repeat: to look for those that do takes most of the time, and makes the file larger.
    of_text = [one.name for one in schema if pa.types.is_dictionary(one.type) or pa.types.is_string(one.type)]
    return pq.ParquetWriter(file, schema, use_dictionary=of_text)
