"""The page of one profile."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from .data import page_data
from .embed import Parts, embed, write_page

if TYPE_CHECKING:
    import os

    from tprof.analysis.profile import Profile

SCRIPTS = ("lanes", "timeline", "explore", "runtime", "policy_decisions", "report")


def write_report(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Write the report of `profile` to `path`, replacing a file that is there.

    Raises
    ------
    TprofError
        `path` is a directory or cannot be written.
    """
    write_page(path, render(profile))


def render(profile: Profile) -> str:
    """Return the page's HTML."""
    package = files(__package__)
    body = (package / "report.html").read_text("utf-8")
    script = "\n".join((package / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    return embed(Parts("tprof report", body, script, page_data(profile)))
