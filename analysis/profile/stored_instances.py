"""The instances of a long recording in files that are read in parts.

A file has no name: it takes space until nothing reads it any more, however the process ends.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from tprof.errors import TprofError
from tprof.trace.array_file import ArrayFile
from tprof.trace.long_arrays import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from tprof.trace.array_file import Place

    from .stack_shares import StoredStacks

    Progress = Callable[[str, int, int], None]
    """Takes what is done now, how many are done, and how many there are."""

    Share = Callable[[Callable[["Piece"], None]], None]
    """Calls a function with the instances of each window, as they end."""


KEPT = (
    "task", "instance", "parent", "pid", "tid", "thread", "cpu", "start_s", "duration_s", "energy_j", "energy_low_j",
    "energy_high_j",
)  # fmt: skip
"""Columns of a table of instances that are read again in parts: by trees of tasks and by reports."""
_NAMES = ("task", "thread")
"""Those of names, whose numbers are the same in all windows."""
_NO_SPACE = (
    "cannot keep the instances of a long recording in {folder} (set TMPDIR to a folder with more space, or take a "
    "window of the recording by --between)"
)


class Piece(NamedTuple):
    """Some instances: a row each, and (n,) seconds in which its thread ran each, without nested tasks or suspension."""

    tasks: pd.DataFrame
    own_s: NDArray[np.float64]


class StoredInstances:
    """Columns of instances in a file, in the order in which windows ended.

    Attributes
    ----------
    stacks : of each window; None if none were sampled
    """

    def __init__(self, share: Share, stacks: StoredStacks | None = None) -> None:
        """Write the file; the stacks are filled meanwhile. Raises TprofError if there is no space."""
        self.stacks = stacks
        self._file = ArrayFile(_NO_SPACE)
        self._places: list[Place] = []
        self._names: dict[str, Any] = {}
        share(self._add)

    def _add(self, piece: Piece) -> None:
        self._names = {name: piece.tasks[name].dtype for name in _NAMES}
        columns = ((one.cat.codes if name in _NAMES else one).to_numpy() for name, one in piece.tasks[[*KEPT]].items())
        self._places.append(self._file.add(*columns, piece.own_s))

    @property
    def count(self) -> int:
        """The number of windows."""
        return len(self._places)

    def pieces(self, columns: Sequence[str], *, backwards: bool = False) -> Iterator[Piece]:
        """Yield the instances of one window after the other, or those of later windows first.

        Parameters
        ----------
        columns : some of `KEPT`
        backwards : whether later windows come first, so that an instance comes before those that it calls
        """
        numbers = sorted(map(KEPT.index, columns))
        for place in reversed(self._places) if backwards else self._places:
            *values, own_s = self._file.read(place, (*numbers, len(KEPT)))
            found = {KEPT[number]: one for number, one in zip(numbers, values, strict=True)}
            yield Piece(pd.DataFrame({name: self._column(name, found[name]) for name in columns}, copy=False), own_s)

    def _column(self, name: str, values: NDArray[Any]) -> NDArray[Any] | pd.Categorical:
        return pd.Categorical.from_codes(values, dtype=self._names[name]) if name in _NAMES else values


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
