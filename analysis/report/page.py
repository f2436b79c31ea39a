"""The page: text, style, script and data in one file, written whole or not at all."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError

from .data import page_data

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

# What could end a script element, or a line for an old parser; JSON reads the escape as the same character.
_ESCAPES: dict[int, str | int | None] = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def write_report(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Write the report of `profile` to `path`, replacing a file that is there.

    Raises
    ------
    TprofError
        `path` is a directory or cannot be written.
    """
    target = Path(path)
    if target.is_dir():
        raise TprofError(f"cannot write the report to {target}: it is a directory; name a file such as report.html")
    text = render(profile)
    try:
        _replace(target, text)
    except OSError as error:
        raise TprofError(f"cannot write the report to {target}: {error.strerror}; name another file") from error


def render(profile: Profile) -> str:
    """Return the page's HTML."""
    room = files(__package__)
    script = "\n".join((room / name).read_text("utf-8") for name in ("runtime.js", "report.js"))
    plotly = (files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in (plotly, script))
    parts = {
        "@HASHES@": hashes,
        "@STYLE@": (room / "report.css").read_text("utf-8"),
        "@DATA@": script_json(page_data(profile)),
        "@PLOTLY@": plotly,
        "@SCRIPT@": script,
    }
    page = (room / "report.html").read_text("utf-8")
    for mark, text in parts.items():
        before, _, after = page.rpartition(mark) if mark in ("@PLOTLY@", "@SCRIPT@") else page.partition(mark)
        page = before + text + after
    return page


def script_json(value: Any) -> str:
    """Return `value` as JSON that is safe inside a script element. Raises ValueError for NaN."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _replace(target: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
