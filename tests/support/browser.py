"""Open a page in Chromium by Playwright, without a network, and act on it as a reader does.

One browser serves all pages of a test process, each in the same tab after the other: to start one takes several times
the processor time that a page takes. Playwright has threads, an event loop and a process of its own, which tests of
recordings, forks and loops must not find in theirs. So it is in another process, which is no child of this one; it
listens on a pipe and ends when this process has closed its end or is gone.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
DEADLINE_S = 120
# As no child of ours it is not waited for, nor measured as one.
DETACH = """
import os, sys
ends = sys.argv[1:3]
for number, end in zip((0, 1), ends):
    os.dup2(int(end), number)
for end in ends:
    os.close(int(end))
os.fork() or os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""
# Without the text of the plotting library, which has run: the page would be ten times as long.
ELEMENTS = """(() => {
  for (const script of document.scripts) if (script.text.length > 1e6) script.text = "";
  return document.documentElement.outerHTML;
})()"""
# Faults that keep readers from the content.
FAULTS = ("serious", "critical")


def opened(page: Path, *, width: int = 1200) -> str:
    """Return the page's elements after its scripts ran; skips the test where there is no browser."""
    return str(visit(page, width=width, height=2400).evaluate(ELEMENTS))


def acted(page: Path, script: str, *, width: int = 1200) -> Any:
    """Return what the statements of a function return, or promise, in the page, after its own scripts ran."""
    return visit(page, width=width, height=2400).evaluate(f"(() => {{ {script} }})()")


def visit(
    page: Path, *, width: int = 1200, height: int = 900, at: str = "", scheme: str = "light", motion: str | None = None
) -> Any:
    """Open a page and return Playwright's `Page` of it, from afar; skips the test where there is no browser.

    Parameters
    ----------
    page : the file
    width, height : of the window, in pixels
    at : what follows # in the address
    scheme : "light" or "dark", the system's choice
    motion : "reduce", where the system asks for it
    """
    browser = _browser()
    url = page.as_uri() + (f"#{at}" if at else "")
    media = {"color_scheme": scheme, "reduced_motion": motion, "media": "screen"}
    browser.ask({"open": {"url": url, "size": [width, height], "media": media}})
    return Remote(browser)


def complaints() -> list[str]:
    """Return the errors of the page's console since it was opened."""
    found = _browser().ask({"complaints": True})["value"]
    return [str(one) for one in found]


def faults(page: Any) -> list[str]:
    """Return what axe finds serious or critical in the page as it stands; skips the test without axe."""
    package = Path(pytest.importorskip("axe_playwright_python").__file__)
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate((package.parent / "axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then((one) => one.violations)")
    return [
        f"{one['id']}: {one['help']}: {'; '.join(node['html'][:120] for node in one['nodes'][:3])}"
        for one in found
        if one["impact"] in FAULTS
    ]


class Remote:
    """An object of Playwright in the browser's process: attributes and calls go on from it."""

    def __init__(self, browser: _Browser, chain: tuple[list[Any], ...] = ()) -> None:
        """Remember how it is reached."""
        self._browser, self._chain = browser, chain

    def __getattr__(self, name: str) -> Remote:
        return Remote(self._browser, (*self._chain, [name]))

    def __call__(self, *args: object, **options: object) -> Any:
        """Call it there and return the value, or the object in its place."""
        *before, last = self._chain
        chain = (*before, [last[0], args, options])
        answer = self._browser.ask({"chain": chain})
        return Remote(self._browser, chain) if "object" in answer else answer["value"]


class _Browser:
    """The process of the browser, led by lines of JSON."""

    def __init__(self, path: str) -> None:
        """Start it."""
        read, self._requests = os.pipe()
        self._answers, write = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read, write)]
        subprocess.run(
            [
                sys.executable, "-S", "-c", DETACH, *map(str, ends),
                str(Path(__file__).with_name("browser_process.py")), path,
            ],
            pass_fds=ends, check=True, stderr=subprocess.DEVNULL,
            # A sanitizer is for Python, and a browser does not start with one.
            env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
        )  # fmt: skip
        for end in (read, write, *ends):
            os.close(end)
        self._received = b""

    def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return its answer; fails where the page or Playwright reports an error."""
        sent = json.dumps(asked).encode() + b"\n"
        while sent:
            sent = sent[os.write(self._requests, sent) :]
        answer: dict[str, Any] = json.loads(self._line())
        assert "error" not in answer, answer["error"]
        return answer

    def close(self) -> None:
        """Let it end and wait until it is gone."""
        os.close(self._requests)
        while os.read(self._answers, 1 << 16):
            pass
        os.close(self._answers)

    def _line(self) -> bytes:
        parts = [self._received]
        while b"\n" not in parts[-1]:
            assert select.select([self._answers], [], [], DEADLINE_S)[0], "the browser gives no answer"
            parts.append(os.read(self._answers, 1 << 20))
            assert parts[-1], "the browser has ended"
        line, _, self._received = b"".join(parts).partition(b"\n")
        return line


@functools.cache
def _browser() -> _Browser:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed")
    pytest.importorskip("playwright")
    browser = _Browser(found)
    owner = os.getpid()

    def end() -> None:
        if os.getpid() == owner:  # not in a child that was forked by a test
            browser.close()

    atexit.register(end)
    return browser
