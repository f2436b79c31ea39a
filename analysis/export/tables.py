"""The tables of a profile as files: CSV that a spreadsheet opens without running anything and Parquet."""

from __future__ import annotations

import json
import math
import unicodedata
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd
from tprof.analysis.profile import ClusterProfile, Profile, SumsProfile
from tprof.analysis.profile.job_instances import JobColumns, placed_on_job

from tprof.trace.plain_values import FORMULA

from .hosts import hosts_of
from .table_files import CsvFile, ParquetFile
from .whole_file import written_folder

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tprof.analysis.profile.part_tables import PartTables
    from tprof.analysis.profile.stored_instances import Piece

    from .formats import Progress
    from .table_files import TableFile

    Parts = Iterator[pd.DataFrame]


def write_csv(
    profile: Profile | ClusterProfile | SumsProfile,
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
    profile: Profile | ClusterProfile | SumsProfile,
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


def tables_of(profile: Profile | ClusterProfile | SumsProfile) -> dict[str, pd.DataFrame]:
    """Return all tables by name, indices as columns; each has a column `quality`."""
    if isinstance(profile, SumsProfile):
        return _tables_of_sums(profile)
    return _tables_of_job(profile) if isinstance(profile, ClusterProfile) else _tables(profile)


def _write(
    profile: Profile | ClusterProfile | SumsProfile,
    directory: str | os.PathLike[str],
    kind: type[TableFile],
    progress: Progress | None,
) -> None:
    """Write all tables; the instances of a profile that does not keep them are written as they end."""
    ended: Callable[[TableFile], None] | None = None
    if isinstance(profile, Profile):
        tables = _in_parts(profile)
        share = profile.instances.share
        ended = lambda file: share(lambda piece: file.add(piece.tasks), progress)  # noqa: E731 - one line of two kinds
    elif isinstance(profile, ClusterProfile) and not profile.has_tasks:
        tables = _in_parts_of_job(profile)
        ended = partial(_write_ended, profile, progress=progress)
    else:
        tables = {name: iter([one]) for name, one in tables_of(profile).items()}
    with written_folder(directory) as folder:
        for number, (name, parts) in enumerate(tables.items()):
            if progress is not None:
                progress(name, number, len(tables))
            with closing(kind(folder / name)) as file:
                for part in parts:
                    file.add(part)
        if ended is not None:
            with closing(kind(folder / "tasks")) as file:
                ended(file)
        _write_json(profile, folder)


def _tables_of_sums(profile: SumsProfile) -> dict[str, pd.DataFrame]:
    return {
        "spans": profile.spans,
        "summary": profile.summary().reset_index(),
        "accounts": profile.accounts.reset_index(),
        "power": profile.power,
    }


def _tables(profile: Profile) -> dict[str, pd.DataFrame]:
    return {"tasks": profile.tasks, **_joined(_in_parts(profile))}


def _joined(tables: dict[str, Parts]) -> dict[str, pd.DataFrame]:
    return {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}


def _in_parts(profile: Profile) -> dict[str, Parts]:
    """Return all tables but that of instances."""
    tables = {name: iter([one]) for name, one in _short_tables(profile).items()}
    tables["power"] = profile.power_parts()
    if profile.has_graph:
        quality = profile.info["quality"]
        tables["dependences"] = _of_quality(quality, profile.dependence_columns.parts())
        tables["critical_path"] = _of_quality(quality, profile.critical_path().chain_columns.parts())
    return tables


def _of_quality(quality: str, parts: Parts) -> Parts:
    return (part.assign(quality=quality) for part in parts)


def _short_tables(profile: Profile) -> dict[str, pd.DataFrame]:
    found = {"summary": profile.summary().reset_index(), "accounts": profile.accounts.reset_index()}
    if profile.trace.decisions:
        found["decisions"] = profile.decisions.assign(quality=profile.info["quality"])
    if len(profile.events):
        quality = profile.info["quality"]
        found["waits"] = profile.waits().reset_index().assign(quality=quality)
        found["workers"] = profile.starvation.assign(quality=quality)
    return found


def _tables_of_job(profile: ClusterProfile) -> dict[str, pd.DataFrame]:
    return {"tasks": profile.tasks, **_joined(_in_parts_of_job(profile))}


def _write_ended(profile: ClusterProfile, file: TableFile, *, progress: Progress | None) -> None:
    """Write the instances of all hosts, one after the other, as they end."""
    columns = JobColumns.of([one.columns for one in profile.parts if one.columns is not None])
    hosts = [one.host for one in profile.parts]
    for number, host in enumerate(hosts_of(profile)):
        part = host.part
        assert part is not None  # noqa: S101 - the hosts of a job are parts
        if progress is not None:
            progress(part.part, number, len(profile.parts))

        def add(piece: Piece, part: PartTables = part) -> None:
            tasks = placed_on_job(profile, part, piece.tasks.assign(own_s=piece.own_s))
            file.add(columns.fitted(tasks, hosts))

        host.profile.instances.share(add, progress)


def _in_parts_of_job(profile: ClusterProfile) -> dict[str, Parts]:
    """Return all tables but that of instances."""
    short = {
        "summary": profile.summary().reset_index(),
        "accounts": profile.accounts.reset_index(),
        "power": profile.power,
        "hosts": profile.hosts.reset_index(),
        "by_host": profile.by_host().reset_index(),
    }
    tables = {name: iter([one]) for name, one in short.items()}
    if any(one.has_graph for one in profile.parts):
        path = profile.critical_path()
        tables["critical_path"] = _of_quality(path.quality, path.chain_columns.parts())
    return tables


def _write_json(profile: Profile | ClusterProfile | SumsProfile, folder: Path) -> None:
    """Write what is no table. Raises OSError."""
    (folder / "info.json").write_text(json.dumps(profile.info, indent=1, default=str) + "\n", encoding="utf-8")
    if isinstance(profile, Profile) and profile.runtime is not None:
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
