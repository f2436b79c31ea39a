"""Traces of other tools as sessions: their slices become instances, their counters of energy or power domains."""

from __future__ import annotations

from tprof.lazy_names import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .convert import Imported, Request, import_file

__all__ = ["Imported", "Request", "import_file"]

__getattr__ = lazy_names(__name__, {"Imported": "convert", "Request": "convert", "import_file": "convert"})
