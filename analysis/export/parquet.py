"""The tables of a profile as Parquet files, when pyarrow is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tprof.errors import TprofError, UsageError

from .csv import tables, write_json

if TYPE_CHECKING:
    import os

    from tprof.analysis.profile import Profile


def write(profile: Profile, directory: str | os.PathLike[str]) -> None:
    """Write tasks.parquet, summary.parquet, accounts.parquet, power.parquet and info.json.

    Where a task runtime ran, also the files that `csv.write` adds.

    Raises
    ------
    UsageError
        pyarrow is not installed.
    TprofError
        A file cannot be written.
    """
    try:
        import pyarrow as pa  # noqa: F401, PLC0415 - optional: pandas would name it in three lines
    except ImportError as error:
        raise UsageError('Parquet files need pyarrow: run "pip install pyarrow", or export csv') from error
    folder = Path(directory)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, frame in tables(profile).items():
            frame.to_parquet(folder / f"{name}.parquet", engine="pyarrow", index=False)
        write_json(profile, folder)
    except OSError as error:
        raise TprofError(f"cannot write the tables to {folder}: {error.strerror}; name another directory") from error
