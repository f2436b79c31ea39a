"""Writes the reports of the gallery into the site: those of the sessions that the examples recorded.

python -m pages.gallery EXAMPLES SITE
"""

from __future__ import annotations

import sys
from pathlib import Path

import tprof

FOLDER = "gallery"
SESSIONS = {"grid-search": "tutorial/before.tprof", "shop": "servers/shop.tprof", "taxi": "dask/taxi.tprof"}
MOST_BYTES = 8_000_000


def frames() -> str:
    """Return HTML that shows each report in the page, and leads to it."""
    return "\n\n".join(
        f'<p><a href="{FOLDER}/{name}.html">Open the report of {name.replace("-", " ")}</a></p>\n'
        f'<iframe class="report" loading="lazy" title="Report of {name}" src="{FOLDER}/{name}.html"></iframe>'
        for name in SESSIONS
    )


def main() -> None:
    """Write the reports."""
    examples, site = map(Path, sys.argv[1:])
    (site / FOLDER).mkdir(exist_ok=True)
    for name, session in SESSIONS.items():
        page = site / FOLDER / f"{name}.html"
        tprof.load(examples / session).profile().to_html(page)
        page.chmod(0o644)  # a report is its owner's; these are for everybody
        if page.stat().st_size > MOST_BYTES:
            sys.exit(
                f"{page} has {page.stat().st_size} bytes, more than a gallery should load: choose a shorter program"
            )


if __name__ == "__main__":
    main()
