"""Open a page in Chromium, without a network, and return what it became."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--virtual-time-budget=20000",
)  # fmt: skip


def opened(page: Path, *, width: int = 1200, options: tuple[str, ...] = ("--dump-dom",)) -> str:
    """Return the page's elements after its scripts ran; skips the test where there is no browser."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed")
    done = subprocess.run(
        [found, *QUIET, f"--user-data-dir={page.parent / 'browser'}", f"--window-size={width},2400", *options,
         page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
        # A sanitizer is for Python, and a browser does not start with one.
        env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
    )  # fmt: skip
    return done.stdout


def acted(page: Path, script: str, *, width: int = 1200) -> Any:
    """Return what the statements of a function return, or promise, in a copy of the page, after its own scripts ran.

    The copy lacks the page's policy, which allows no other script.
    """
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text("utf-8", "surrogatepass"))
    ours = (
        f"Promise.resolve((() => {{ {script} }})())"
        ".then((value) => { document.body.dataset.returned = JSON.stringify(value); });"
    )
    copy = page.with_name(f"acted-{page.name}")
    copy.write_text(text.replace("</body>", f"<script>{ours}</script></body>"), "utf-8", "surrogatepass")
    found = re.search(r'data-returned="([^"]*)"', opened(copy, width=width))
    assert found, "the script raised an error"
    return json.loads(html.unescape(found[1]))
