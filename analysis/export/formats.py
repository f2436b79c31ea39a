"""The formats in which a profile can be written, and what each of them needs.

The command line reads this list for its help, its completion and its errors, so it loads no library. A new format is a
module here with a function `write(profile, path, *, progress=None)`, and a line in `FORMATS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tprof.errors import UsageError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from tprof.analysis.profile import Profile

    Progress = Callable[[str, int, int], None]
    """Takes what is written now, how many are written, and how many there are."""


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes
    ----------
    name : what `tprof export` calls it
    description : one line for help, without a point
    suffix : of the file or folder that is written where none is named
    writer : its module in this package, and the function there
    is_folder : whether a folder is written, else one file
    needs : module of an optional library without which it cannot be written
    install : what pip installs to get that library
    takes_sums : whether a recording that kept sums can be written
    """

    name: str
    description: str
    suffix: str
    writer: str
    is_folder: bool = False
    needs: str | None = None
    install: str | None = None
    takes_sums: bool = False

    @property
    def help(self) -> str:
        """The description, with what is written and what must be installed."""
        extra = f"; needs {self.install}" if self.install else ""
        return f"{self.description} ({'folder' if self.is_folder else 'file'}{extra})"

    def write(
        self,
        profile: Profile,
        path: str | os.PathLike[str],
        *,
        progress: Progress | None = None,
    ) -> None:
        """Write a profile in this format.

        Raises
        ------
        UsageError
            The library that it needs is not installed, or it shows single instances and only sums were kept.
        TprofError
            A file cannot be written.
        """
        self.check(has_instances=profile.has_instances)
        module, _, function = self.writer.partition(":")
        getattr(import_module(f".{module}", __package__), function)(profile, path, progress=progress)

    def check(self, *, has_instances: bool = True) -> None:
        """Raise UsageError if it cannot be written here. A command asks before it attributes energy."""
        if not has_instances and not self.takes_sums:
            known = ", ".join(one.name for one in FORMATS if one.takes_sums)
            raise UsageError(f"{self.name} shows single instances, and only sums were kept: export {known}")
        if self.needs and find_spec(self.needs) is None:
            raise UsageError(f"the format {self.name} needs {self.needs}: run pip install '{self.install}'")


FORMATS = (
    Format(
        "csv", "all tables, as a spreadsheet opens them", ".csv", "tables:write_csv", is_folder=True,
        takes_sums=True,
    ),
    Format(
        "parquet", "all tables with their types, for pandas, polars and DuckDB", ".parquet", "tables:write_parquet",
        is_folder=True, needs="pyarrow", install="tprof-energy[parquet]", takes_sums=True,
    ),
    Format(
        "speedscope", "energy and time of nested tasks, for speedscope.app", ".speedscope.json",
        "speedscope:write_speedscope",
    ),
    Format(
        "perfetto", "timeline with joules and watts, for ui.perfetto.dev", ".pftrace", "perfetto:write_perfetto",
        needs="perfetto", install="tprof-energy[perfetto]",
    ),
    Format("otlp", "spans of OpenTelemetry in JSON, a line for each batch", ".otlp.jsonl", "otlp:write_otlp"),
)  # fmt: skip


def need(library: str, extra: str, what: str) -> None:
    """Raise UsageError if a library that `what` needs is not installed."""
    if find_spec(library) is None:
        raise UsageError(f"{what} needs {library}: run pip install 'tprof-energy[{extra}]'")


def format_named(name: str) -> Format:
    """Return a format. Raises UsageError if there is none of this name."""
    for one in FORMATS:
        if one.name == name:
            return one
    raise UsageError(f"the format must be one of {', '.join(one.name for one in FORMATS)}, got {name!r}")
