"""A self-contained page with style, data, plot library and script, written atomically."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tprof.errors import TprofError
from tprof.trace.user_files import replace_file

# Characters that could end a script element, or a line for an old parser; the JSON escape is the same character.
_ESCAPES: dict[int, str | int | None] = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


@dataclass(frozen=True)
class Parts:
    """The parts of a page.

    Attributes
    ----------
    title : of the window and above the page.
    body : HTML of the main element; frame.html is around it.
    style : CSS that follows the reports' own.
    script : JavaScript that follows `drawing.js` and finds its data in the element `data`.
    data : plain values without NaN.
    """

    title: str
    body: str
    script: str
    data: Any
    style: str = ""


def embed(parts: Parts) -> str:
    """Return the page's HTML. Raises ValueError where the data holds NaN."""
    package = files(__package__)
    script = (package / "drawing.js").read_text("utf-8") + parts.script
    plotly = (files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")
    marks = {
        "@HASHES@": " ".join(f"'sha256-{_digest(text)}'" for text in (plotly, script)),
        "@STYLE@": (package / "report.css").read_text("utf-8") + parts.style,
        "@DATA@": script_json(parts.data),
        "@PLOTLY@": plotly,
        "@SCRIPT@": script,
    }
    page = (package / "frame.html").read_text("utf-8").replace("@TITLE@", parts.title).replace("@BODY@", parts.body)
    for mark, text in marks.items():
        before, _, after = page.rpartition(mark) if mark in ("@PLOTLY@", "@SCRIPT@") else page.partition(mark)
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


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
