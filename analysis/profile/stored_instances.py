"""Instances of a recording, and all of them in a file that is read in parts.

The file has no name: it takes space until nothing reads it any more, however the process ends.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tprof.analysis.attribution.long_arrays import temporary_folder

from tprof.errors import TprofError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Progress = Callable[[str, int, int], None]
    """Takes what is done now, how many are done, and how many there are."""

    Share = Callable[[Callable[["Piece"], None]], None]
    """Calls a function with the instances of each window, as they end."""


_NO_SPACE = (
    "cannot keep the instances of a long recording in {folder} (set TMPDIR to a folder with more space, or take a "
    "window of the recording by --between)"
)


class Piece(NamedTuple):
    """Some instances: a row each, and (n,) seconds in which its thread ran each, without nested tasks or suspension."""

    tasks: pd.DataFrame
    own_s: NDArray[np.float64]


def scanned(share: Share) -> Any:
    """Write all instances to a Parquet file, and return it as a dataset of pyarrow.

    It has a group of rows for each window, in the order in which windows ended.

    Raises
    ------
    UsageError
        If pyarrow is not installed.
    TprofError
        If the file cannot be written.
    """
    from tprof.analysis.export.formats import need  # noqa: PLC0415 - which names what installs it

    need("pyarrow", "parquet", "scan_tasks")
    from tprof.analysis.export.table_files import ParquetFile  # noqa: PLC0415 - for the same reason

    folder = temporary_folder()
    try:
        with tempfile.TemporaryDirectory(prefix="tprof-tasks-", dir=folder) as own:
            path = Path(own) / "tasks.parquet"
            with closing(ParquetFile(path.with_suffix(""))) as file:
                share(lambda piece: file.add(piece.tasks))
            return _opened(path)
    except OSError as error:
        raise TprofError(f"{_NO_SPACE.format(folder=folder)}: {error.strerror or error}") from error


def _opened(path: Path) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - optional; it was asked for
    import pyarrow.dataset as ds  # noqa: PLC0415 - for the same reason

    form = ds.ParquetFileFormat()
    # Of the open file, since a dataset, and what scans it, often outlive its profile and the file's name.
    part = form.make_fragment(pa.OSFile(str(path)))
    return ds.FileSystemDataset([part], part.physical_schema, form)
