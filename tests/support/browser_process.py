"""Run Playwright's browser for the tests of another process: each line that is read is a call on the page, in JSON.

A call is a chain of attributes and calls from the page on, such as `page.locator("#task").click()`. It is answered by a
line: its value, that it has none that JSON can say (an object of Playwright, from which the next chain goes on), or an
error. The process ends when its input does.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from playwright.sync_api import Error, Page, sync_playwright

PATIENCE_MS = 100_000
# Two frames after the page's own script: what it asked to be drawn is drawn.
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"


def main() -> None:
    """Serve until the input ends."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=sys.argv[1], args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)  # of a machine that is busy with other tests
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        for line in sys.stdin:
            sys.stdout.write(json.dumps(_answer(page, complaints, json.loads(line))) + "\n")
            sys.stdout.flush()
        browser.close()


def _answer(page: Page, complaints: list[str], asked: dict[str, Any]) -> dict[str, Any]:
    try:
        if "open" in asked:
            complaints.clear()
            _open(page, **asked["open"])
            return {"value": None}
        if "complaints" in asked:
            return {"value": complaints}
        found: Any = page
        for name, *call in asked["chain"]:
            found = getattr(found, name)
            if call:
                found = found(*call[0], **call[1])
    except Error as error:
        return {"error": str(error)}
    try:
        return {"value": json.loads(json.dumps(found))}
    except TypeError:
        return {"object": True}


def _open(page: Page, *, url: str, size: list[int], media: dict[str, Any]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(**media)
    if page.url.split("#")[0] == url.split("#", maxsplit=1)[0]:
        page.goto("about:blank")  # the same address again, with another part after #, would not be loaded anew
    page.goto(url)
    page.evaluate(DRAWN)


if __name__ == "__main__":
    main()
