"""The instances of a long recording in a Parquet file that is read in parts.

The file has lost its name by then: it takes space until nothing reads it any more, however the process ends.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from tprof.errors import TprofError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.export.table_files import TableFile

    from .stack_shares import StoredStacks

    Progress = Callable[[str, int, int], None]
    """Takes what is done now, how many are done, and how many there are."""

    class Share(Protocol):
        """Calls a function with the instances of each window as they end, a second one with how far that is."""

        def __call__(
            self, sink: Callable[[Piece], None], progress: Progress | None = None, stacks: StoredStacks | None = None, /
        ) -> None:
            """Share all joules; stacks, if they are given, are weighed and stored too."""


OWN = "own_s"
"""The column that a table of instances has here besides its own."""
NAMES = ("task", "thread")


class Piece(NamedTuple):
    """Some instances: a row each, and (n,) seconds in which its thread ran each, without nested tasks or suspension."""

    tasks: pd.DataFrame
    own_s: NDArray[np.float64]

    def plus(self, later: Piece) -> Piece:
        """Return both, with the same columns and categories."""
        if not len(later.tasks):
            return self
        tasks = pd.concat([self.tasks, later.tasks], ignore_index=True)
        return Piece(tasks, np.concatenate((self.own_s, later.own_s)))


class StoredInstances:
    """A file of instances below ``$TMPDIR``, a group of rows for each window, in the order in which windows ended.

    Attributes
    ----------
    stacks : of each window; None if none were sampled
    """

    def __init__(self, share: Share, stacks: StoredStacks | None = None, progress: Progress | None = None) -> None:
        """Write the file, and fill the stacks.

        Raises
        ------
        UsageError
            If pyarrow is not installed.
        TprofError
            If the file cannot be written.
        """
        from tprof.analysis.export.formats import need  # noqa: PLC0415 - which names what installs it

        need("pyarrow", "parquet", "reading the instances of a long recording in parts")
        from tprof.analysis.export.table_files import ParquetFile  # noqa: PLC0415 - for the same reason

        self._categories: dict[str, Any] = {}
        self.stacks = stacks
        try:
            with tempfile.TemporaryDirectory(prefix="tprof-tasks-") as folder:
                path = Path(folder) / "tasks.parquet"
                with closing(ParquetFile(path.with_suffix(""))) as file:
                    share(lambda piece: self._add(file, piece), progress, stacks)
                self._open(path)
        except OSError as error:
            raise TprofError(
                f"cannot keep instances in {tempfile.gettempdir()}: {error.strerror or error}; set TMPDIR to a folder "
                "with more space, or take a window of the recording by --between"
            ) from error

    def _add(self, file: TableFile, piece: Piece) -> None:
        for name in NAMES:
            self._categories[name] = piece.tasks[name].cat.categories
        file.add(piece.tasks.assign(**{OWN: piece.own_s}))

    def _open(self, path: Path) -> None:
        import pyarrow as pa  # noqa: PLC0415 - optional; it was asked for
        import pyarrow.parquet as pq  # noqa: PLC0415 - for the same reason

        self._bytes = pa.OSFile(str(path))
        self._file = pq.ParquetFile(self._bytes)

    @property
    def count(self) -> int:
        """The number of windows."""
        return int(self._file.num_row_groups)

    def dataset(self) -> Any:
        """Return the file as a dataset of pyarrow with the columns of a table of instances."""
        import pyarrow as pa  # noqa: PLC0415 - optional; it was asked for
        import pyarrow.dataset as ds  # noqa: PLC0415 - for the same reason

        schema, form = self._file.schema_arrow, ds.ParquetFileFormat()
        kept = pa.schema([one for one in schema if one.name != OWN], metadata=schema.metadata)
        # Of the open file, since a dataset, and what scans it, often outlive its profile.
        return ds.FileSystemDataset([form.make_fragment(self._bytes)], kept, form)

    def pieces(self, columns: Sequence[str] | None = None, *, backwards: bool = False) -> Iterator[Piece]:
        """Yield the instances of one window after the other, or those of later windows first.

        Parameters
        ----------
        columns : of the table of instances; None: all
        backwards : whether later windows come first, so that an instance comes before those that it calls
        """
        names = None if columns is None else [*columns, OWN]
        groups = range(self._file.num_row_groups)
        for number in reversed(groups) if backwards else groups:
            frame = self._file.read_row_group(number, columns=names).to_pandas()
            own_s = frame.pop(OWN).to_numpy(float)
            yield Piece(frame.assign(**self._named(frame)), own_s)

    def _named(self, frame: pd.DataFrame) -> dict[str, Any]:
        """Return the columns of names with the same categories in all parts."""
        known = self._categories.items()
        return {name: frame[name].cat.set_categories(categories) for name, categories in known if name in frame}
