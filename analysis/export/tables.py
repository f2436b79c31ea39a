"""The tables of a profile as files: CSV that a spreadsheet opens without running anything and Parquet."""

from __future__ import annotations

import json
import math
import unicodedata
from contextlib import closing
from typing import TYPE_CHECKING

import pandas as pd

from tprof.trace.plain_values import FORMULA

from .table_files import CsvFile, ParquetFile
from .whole_file import written_folder

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from tprof.analysis.profile import Profile

    from .formats import Progress
    from .table_files import TableFile


def write_csv(
    profile: Profile,
    directory: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
) -> None:
    """Write tasks.csv, summary.csv, accounts.csv, power.csv and info.json; every row names its quality.

    Where a task runtime ran, also waits.csv, workers.csv, dependences.csv, critical_path.csv and runtime.json;
    where a policy decided on operating points, decisions.csv. Of a job of several hosts, also hosts.csv and
    by_host.csv, and every row names its host. Of a recording that kept sums, spans.csv in the place of tasks.csv.

    Raises
    ------
    TprofError
        A file cannot be written.
    """
    _write(profile, directory, CsvFile, progress)


def write_parquet(
    profile: Profile,
    directory: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
) -> None:
    """Write the files of `write_csv`, the tables as Parquet.

    Raises
    ------
    TprofError
        A file cannot be written.
    """
    _write(profile, directory, ParquetFile, progress)


def tables_of(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return all tables by name, indices as columns; each has a column `quality`."""
    return ({"tasks": profile.tasks} if profile.has_instances else {}) | _tables(profile)


def _write(
    profile: Profile, directory: str | os.PathLike[str], kind: type[TableFile], progress: Progress | None
) -> None:
    """Write all tables; the instances of a profile that does not keep them are written as they end."""
    tables = _tables(profile)
    in_memory = profile.has_instances and profile.instances.has_table
    if in_memory:
        tables["tasks"] = profile.tasks
    with written_folder(directory) as folder:
        for number, (name, table) in enumerate(tables.items()):
            if progress is not None:
                progress(name, number, len(tables))
            with closing(kind(folder / name)) as file:
                file.add(table)
        if profile.has_instances and not in_memory:
            with closing(kind(folder / "tasks")) as file:
                profile.instances.share(lambda piece: file.add(piece.tasks), progress)
        _write_json(profile, folder)


def _tables(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return all tables but that of instances."""
    found = {"summary": profile.summary().reset_index(), "accounts": profile.accounts.reset_index()}
    quality = profile.info["quality"]
    if profile.kept is not None:
        found["spans"] = profile.kept.spans
    if profile.job is not None:
        found |= {"hosts": profile.hosts.reset_index(), "by_host": profile.by_host().reset_index()}
    if len(profile.decisions):
        found["decisions"] = profile.decisions.assign(quality=quality)
    if profile.runtime is not None:
        found["waits"] = profile.waits().reset_index().assign(quality=quality)
        found["workers"] = profile.starvation.assign(quality=quality)
    if profile.has_graph:
        path = profile.critical_path()
        found["critical_path"] = path.chain.assign(quality=path.quality)
        if profile.has_samples:
            found["dependences"] = profile.dependences.assign(quality=path.quality)
    found["power"] = profile.power
    return found


def _write_json(profile: Profile, folder: Path) -> None:
    """Write what is no table. Raises OSError."""
    (folder / "info.json").write_text(json.dumps(profile.info, indent=1, default=str) + "\n", encoding="utf-8")
    if profile.runtime is not None:
        known = {name: None if math.isnan(value) else value for name, value in profile.runtime.items()}
        (folder / "runtime.json").write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def safe_cell(text: str) -> str:
    """Return `text` without control and bidirectional characters, and harmless as a spreadsheet's cell."""
    formula = text.startswith(FORMULA)
    kept = "".join(char for char in text if unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp"))
    return f"'{kept}" if formula or kept.startswith(FORMULA) else kept


def safe_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose texts are harmless as a spreadsheet's cells."""
    changed = {}
    for name, column in frame.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            # A categorical holds each name once, so millions of rows cost as many calls as there are names; a plain
            # mapping, because two names may become the same.
            safe = {value: safe_cell(str(value)) for value in column.cat.categories}
            changed[name] = column.astype(object).map(safe)
        elif column.dtype == object or isinstance(column.dtype, pd.StringDtype):
            changed[name] = column.map(lambda value: safe_cell(value) if isinstance(value, str) else value)
    return frame.assign(**{str(name): column for name, column in changed.items()})
