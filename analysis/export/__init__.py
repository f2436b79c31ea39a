"""A profile as files for other tools; `formats` lists what can be written, one module a kind of file."""

from __future__ import annotations

from tprof.lazy_names import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .formats import FORMATS, Format, format_named
    from .tables import safe_cell, write_csv, write_parquet

__all__ = ["FORMATS", "Format", "format_named", "safe_cell", "write_csv", "write_parquet"]

__getattr__ = lazy_names(
    __name__,
    {
        "FORMATS": "formats",
        "Format": "formats",
        "format_named": "formats",
        "safe_cell": "tables",
        "write_csv": "tables",
        "write_parquet": "tables",
    },
)
