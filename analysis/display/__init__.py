"""What notebooks show of profiles, tables and recordings: HTML without scripts and without anything from elsewhere.

The tables are imported by the modules that make profiles; the rest, which reads profiles, when it is used.
"""

from __future__ import annotations

from tprof.lazy_names import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cards import profile_html, recording_html
    from .figures import plot
    from .frames import AccountsTable, SummaryTable

__all__ = ["AccountsTable", "SummaryTable", "plot", "profile_html", "recording_html"]

__getattr__ = lazy_names(
    __name__,
    {
        "AccountsTable": "frames",
        "SummaryTable": "frames",
        "plot": "figures",
        "profile_html": "cards",
        "recording_html": "cards",
    },
)
