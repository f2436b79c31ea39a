"""Draws the view of `tprof top` on a terminal of 80 columns and 24 rows as an SVG, of a program that it runs meanwhile.

scripts/figures calls it: python picture_of_top.py FILE.svg
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from tprof.cli.top_view import TopApp
from tprof.live.watch import Watch

WATCHED_S = 20
PROGRAM = """
import math, sys, threading, time, tprof

@tprof.task
def decode(n):
    return [math.sqrt(i) for i in range(n)]

@tprof.task
def blur(n):
    return sum(i * i for i in range(n))

@tprof.task
def fetch():
    time.sleep(0.03)

@tprof.task
def page(number):
    fetch()
    decode(20_000 + 15_000 * (number % 3))
    for _ in range(1 + number % 4):
        blur(30_000)

def serve(until_s):
    number = 0
    while time.monotonic() < until_s:
        page(number)
        number += 1
        time.sleep(0.02 + 0.02 * (int(time.monotonic()) % 5))

threads = [
    threading.Thread(target=serve, args=(time.monotonic() + float(sys.argv[1]),), name=f"worker-{i}") for i in range(3)
]
for one in threads:
    one.start()
for one in threads:
    one.join()
"""


async def drawn(session: Path) -> str:
    """Watch the session, and return the picture."""
    app = TopApp(Watch(session), 1.0)
    async with app.run_test(size=(80, 24)):
        await asyncio.sleep(WATCHED_S)
        return app.export_screenshot(title=f"tprof top {session.name}")


def main() -> None:
    """Run the program, and draw it."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "pages.py")
        program.write_text(PROGRAM, encoding="utf-8")
        session = Path(folder, "pages.tprof")
        words = ["-m", "tprof", "run", "--no-summary", "-o", str(session), str(program), str(WATCHED_S + 10)]
        with subprocess.Popen([sys.executable, *words], cwd=folder) as running:
            picture = asyncio.run(drawn(session))
            running.terminate()
    Path(sys.argv[1]).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
