"""Open a page in Chromium, without a network, and return what it became.

One browser serves all pages of a test process, each in the same tab after the other: to start one takes several times
the processor time that a page takes. It listens on a pipe, and ends when this process has closed its end or is gone.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--remote-debugging-pipe",
)  # fmt: skip
DEADLINE_S = 120
# The browser reads its descriptor 3 and writes to 4. As no child of ours it is not waited for, nor measured as one.
DETACH = """
import os, sys
ends = sys.argv[1:3]
for number, end in zip((3, 4), ends):
    os.dup2(int(end), number)
for end in ends:
    os.close(int(end))
os.fork() or os.execv(sys.argv[3], sys.argv[3:])
"""
# Without the text of the plotting library, which has run: the page would be ten times as long.
ELEMENTS = """(() => {
  for (const script of document.scripts) if (script.text.length > 1e6) script.text = "";
  return document.documentElement.outerHTML;
})()"""
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"


def opened(page: Path, *, width: int = 1200) -> str:
    """Return the page's elements after its scripts ran; skips the test where there is no browser."""
    browser = _browser()
    browser.open(page, width)
    return browser.value_of(ELEMENTS)


def acted(page: Path, script: str, *, width: int = 1200) -> Any:
    """Return what the statements of a function return, or promise, in the page, after its own scripts ran."""
    browser = _browser()
    browser.open(page, width)
    return browser.value_of(f"(() => {{ {script} }})()")


class _Browser:
    """A browser with one tab, led by the messages of its developer tools."""

    def __init__(self, path: str, folder: str) -> None:
        """Start it, with its files in the folder, and take hold of its tab."""
        read, self._commands = os.pipe()
        self._messages, write = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read, write)]
        subprocess.run(
            [sys.executable, "-S", "-c", DETACH, *map(str, ends), path, *QUIET, f"--user-data-dir={folder}"],
            pass_fds=ends, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            # A sanitizer is for Python, and a browser does not start with one.
            env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
        )  # fmt: skip
        for end in (read, write, *ends):
            os.close(end)
        self._numbers = itertools.count(1)
        self._received = b""
        self._loaded: set[str] = set()
        self._tab: dict[str, str] = {}
        targets = self._answer("Target.getTargets")["targetInfos"]
        tab = next(target["targetId"] for target in targets if target["type"] == "page")
        self._tab = {"sessionId": self._answer("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]}
        self._answer("Page.enable")
        self._answer("Page.setLifecycleEventsEnabled", enabled=True)

    def open(self, page: Path, width: int) -> None:
        """Open a page and wait until it is loaded and drawn."""
        self._answer(
            "Emulation.setDeviceMetricsOverride", width=width, height=2400, deviceScaleFactor=1, mobile=False
        )  # fmt: skip
        self._loaded.clear()
        begun = self._answer("Page.navigate", url=page.as_uri())
        while begun["loaderId"] not in self._loaded:
            self._message()
        self.value_of(DRAWN)

    def value_of(self, expression: str) -> Any:
        """Return the value of an expression in the page, or what it promises."""
        done = self._answer("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def close(self) -> None:
        """Let it end and wait until it is gone."""
        os.close(self._commands)
        while os.read(self._messages, 1 << 16):
            pass
        os.close(self._messages)

    def _answer(self, method: str, **parameters: object) -> dict[str, Any]:
        number = next(self._numbers)
        said = {"id": number, "method": method, "params": parameters, **self._tab}
        os.write(self._commands, json.dumps(said).encode() + b"\0")
        while (message := self._message()).get("id") != number:
            pass
        assert "result" in message, message
        return message["result"]

    def _message(self) -> dict[str, Any]:
        parts = [self._received]
        while b"\0" not in parts[-1]:
            assert select.select([self._messages], [], [], DEADLINE_S)[0], "the browser says nothing"
            parts.append(os.read(self._messages, 1 << 20))
            assert parts[-1], "the browser has ended"
        text, _, self._received = b"".join(parts).partition(b"\0")
        message = json.loads(text)
        if message.get("method") == "Page.lifecycleEvent" and message["params"]["name"] == "load":
            self._loaded.add(message["params"]["loaderId"])
        return message


@functools.cache
def _browser() -> _Browser:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(NAMES)} is installed")
    folder = tempfile.mkdtemp(prefix="browser-")
    browser = _Browser(found, folder)
    owner = os.getpid()

    def end() -> None:
        if os.getpid() == owner:  # not in a child that was forked by a test
            browser.close()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return browser
