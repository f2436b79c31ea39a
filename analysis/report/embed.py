"""The frame of every page: sections, style, data, plot library and script, written atomically.

A page is one file that needs no network, or a file beside the plot library, which all pages of a folder then share.
Its security policy allows its own scripts only, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TprofError, UsageError
from tprof.trace.user_files import replace_file

if TYPE_CHECKING:
    from collections.abc import Sequence

# Characters that could end a script element, or a line for an old parser; the JSON escape is the same character.
_ESCAPES: dict[int, str | int | None] = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
SCRIPTS = ("frame", "plot_table", "drawing")
"""Of every page, in this order; a page's own script follows in the same element."""
INLINE, FOLDER = "inline", "folder"
"""Where the plot library is: in the page, or in a file of the page's folder."""


@dataclass(frozen=True)
class Section:
    """A part of a page that folds, listed in the page's contents.

    Attributes
    ----------
    id : of the section element; the heading's is `id`-title. A link or an address with #id opens the section.
    title : its heading, plain text.
    body : HTML below the heading.
    folded : whether a reader has to open it. What is in it is drawn only then (`frame.section` in a script).
    """

    id: str
    title: str
    body: str
    folded: bool = False

    def html(self) -> str:
        """Return the section's element, which `frame.js` makes one that folds."""
        folded = " data-folded" if self.folded else ""
        return (
            f'<section id="{self.id}" aria-labelledby="{self.id}-title"{folded}>'
            f'<h2 id="{self.id}-title">{html.escape(self.title)}</h2>\n{self.body}</section>\n'
        )


@dataclass(frozen=True)
class Parts:
    """The parts of a page.

    Attributes
    ----------
    title : of the window and above the page.
    body : HTML of the main element before its sections; frame.html is around it.
    style : CSS that follows the reports' own.
    script : JavaScript that follows `SCRIPTS` and finds its data in `drawing.data`.
    data : plain values without NaN.
    sections : follow `body`, and the contents name them.
    lead : HTML above the contents.
    has_plots : whether it needs the plot library.
    """

    title: str
    body: str
    script: str
    data: Any
    style: str = ""
    sections: Sequence[Section] = ()
    lead: str = ""
    has_plots: bool = True


def embed(parts: Parts, *, library: str | None = None) -> str:
    """Return the page's HTML. Raises ValueError where the data holds NaN.

    Parameters
    ----------
    parts : of the page
    library : name of the file beside the page that has the plot library; None: the page holds it
    """
    package = files(__package__)
    script = "\n".join((package / f"{name}.js").read_text("utf-8") for name in SCRIPTS) + parts.script
    plotly = _plotly() if parts.has_plots else ""
    inline = [script] if library or not plotly else [plotly, script]
    beside = ["'self'"] if library else []
    held = f"<script>{plotly}</script>" if plotly else ""
    marks = {
        "@SOURCES@": " ".join([*beside, *(f"'sha256-{_digest(text)}'" for text in inline)]),
        "@STYLE@": (package / "report.css").read_text("utf-8") + parts.style,
        "@VERSION@": html.escape(_version()),
        "@DATA@": script_json(parts.data),
        "@LIBRARY@": f'<script src="{library}"></script>' if library else held,
        "@SCRIPT@": script,
    }
    body = parts.body + "".join(one.html() for one in parts.sections)
    page = (package / "frame.html").read_text("utf-8").replace("@TITLE@", html.escape(parts.title))
    page = page.replace("@LEAD@", parts.lead).replace("@BODY@", body)
    for mark, text in marks.items():
        before, _, after = page.rpartition(mark) if mark in ("@LIBRARY@", "@SCRIPT@") else page.partition(mark)
        page = before + text + after
    return page


def clean(value: Any) -> Any:
    """Return `value` as JSON knows it: NaN and infinity are None, NumPy's numbers Python's, other things text."""
    if isinstance(value, dict):
        return {str(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, np.generic):
        return clean(value.item())
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return str(value)


def script_json(value: Any) -> str:
    """Return `value` as JSON that is safe inside a script element. Raises ValueError for NaN."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def write_parts(path: str | os.PathLike[str], parts: Parts, *, plotly: str = INLINE) -> None:
    """Write a page to `path`, replacing a file that is there.

    Parameters
    ----------
    path : of the page
    parts : of the page
    plotly : "inline": the page holds the plot library (4.8 MB); "folder": a file beside it does, which all pages of
        the folder share; its name has a part of its hash, so that pages of several versions stand side by side

    Raises
    ------
    UsageError
        If `plotly` is neither.
    TprofError
        If `path` is a directory or cannot be written.
    """
    if plotly not in (INLINE, FOLDER):
        raise UsageError(f'plotly must be "{INLINE}" or "{FOLDER}", got {plotly!r}')
    if plotly == INLINE:
        write_page(path, embed(parts))
        return
    library = f"plotly-{hashlib.sha256(_plotly().encode()).hexdigest()[:12]}.min.js"
    page, beside = Path(path), Path(path).parent / library
    if not page.is_dir() and not beside.exists():
        write_page(beside, _plotly())
    write_page(page, embed(parts, library=library))


def write_page(path: str | os.PathLike[str], text: str) -> None:
    """Write a page to `path`, replacing a file that is there.

    Raises
    ------
    TprofError
        `path` is a directory or cannot be written.
    """
    target = Path(path)
    if os.path.isdir(target):
        raise TprofError(f"cannot write the report to {target}: it is a directory; name a file such as report.html")
    try:
        replace_file(target, text.encode())
    except OSError as error:
        raise TprofError(f"cannot write the report to {target}: {error.strerror}; name another file") from error


def _plotly() -> str:
    return (files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")


def _version() -> str:
    try:
        return f" {version('tprof-energy')}"
    except PackageNotFoundError:
        return ""


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
