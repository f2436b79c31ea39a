"""The tables of a profile as files: CSV that a spreadsheet can open without running anything, and Parquet."""

from __future__ import annotations

import json
import math
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from tprof.analysis.profile import ClusterProfile, Profile

from tprof.errors import TprofError, UsageError
from tprof.trace.plain_values import FORMULA

if TYPE_CHECKING:
    import os
    from collections.abc import Callable


def write_csv(profile: Profile | ClusterProfile, directory: str | os.PathLike[str]) -> None:
    """Write tasks.csv, summary.csv, accounts.csv, power.csv and info.json; every row names its quality.

    Where a task runtime ran, also waits.csv, workers.csv, dependences.csv, critical_path.csv and runtime.json;
    where a policy decided on operating points, decisions.csv. Of a job of several hosts, also hosts.csv and
    by_host.csv, and every row names its host.

    Raises
    ------
    TprofError
        A file cannot be written.
    """
    _write(profile, directory, lambda frame, path: _safe(frame).to_csv(path.with_suffix(".csv"), index=False))


def write_parquet(profile: Profile | ClusterProfile, directory: str | os.PathLike[str]) -> None:
    """Write the files of `write_csv`, the tables as Parquet.

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
    _write(
        profile,
        directory,
        lambda frame, path: frame.to_parquet(path.with_suffix(".parquet"), engine="pyarrow", index=False),
    )


def _write(
    profile: Profile | ClusterProfile,
    directory: str | os.PathLike[str],
    save: Callable[[pd.DataFrame, Path], object],
) -> None:
    folder = Path(directory)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tables = _tables_of_job(profile) if isinstance(profile, ClusterProfile) else _tables(profile)
        for name, frame in tables.items():
            save(frame, folder / name)
        _write_json(profile, folder)
    except OSError as error:
        raise TprofError(f"cannot write the tables to {folder}: {error.strerror}; name another directory") from error


def _tables(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return the tables by name, indices as columns; each has a column `quality`."""
    found = {
        "tasks": profile.tasks,
        "summary": profile.summary().reset_index(),
        "accounts": profile.accounts.reset_index(),
        "power": profile.power,
    }
    if profile.trace.decisions:
        found["decisions"] = profile.decisions.assign(quality=profile.info["quality"])
    if len(profile.trace.graph):
        quality = profile.info["quality"]
        found["waits"] = profile.waits().reset_index().assign(quality=quality)
        found["workers"] = profile.starvation.assign(quality=quality)
    if len(profile.trace.graph) or len(profile.trace.keys):
        quality = profile.info["quality"]
        found["dependences"] = profile.dependences.assign(quality=quality)
        found["critical_path"] = profile.critical_path().chain.assign(quality=quality)
    return found


def _tables_of_job(profile: ClusterProfile) -> dict[str, pd.DataFrame]:
    """Return the tables of a job by name, likewise."""
    return {
        "tasks": profile.tasks,
        "summary": profile.summary().reset_index(),
        "accounts": profile.accounts.reset_index(),
        "power": profile.power,
        "hosts": profile.hosts.reset_index(),
        "by_host": profile.by_host().reset_index(),
    }


def _write_json(profile: Profile | ClusterProfile, folder: Path) -> None:
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


def _safe(frame: pd.DataFrame) -> pd.DataFrame:
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
