"""Draws one section of a page as Chromium shows it: picture_of_section.py PAGE.html SECTION PICTURE.png."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

DEADLINE_MS = 120_000


def main() -> None:
    """Open the page, and write the picture of its section."""
    page_file, section, picture = sys.argv[1:]
    browser_file = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_file, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 900}, color_scheme="light")
        page.goto(Path(page_file).absolute().as_uri(), timeout=DEADLINE_MS)
        page.locator(f"#{section}").screenshot(path=picture, timeout=DEADLINE_MS)
        browser.close()


if __name__ == "__main__":
    main()
