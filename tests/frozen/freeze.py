"""Writes what the installed tprof says of each recording: tests/frozen/freeze.py [NAME…] from the checkout.

Run it only where a change of figures is meant, and say in the commit which ones changed and why.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"


def view_of(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a written recording under some options of `Trace.profile`."""
    from frozen.figures import figures_of  # noqa: PLC0415 - freeze.py puts tests on the path first

    import tprof  # noqa: PLC0415 - for the same reason

    return figures_of(tprof.load(path).profile(**options))


def expected(name: str) -> list[dict[str, Any]]:
    """Return the frozen figures of a recording, one for each of its views."""
    views: list[dict[str, Any]] = json.loads(lzma.decompress((EXPECTED / f"{name}.json.xz").read_bytes()))
    return views


def main(names: list[str]) -> None:
    """Freeze the figures of these recordings, or of all."""
    sys.path[:0] = [str(HERE.parent)]
    from frozen.recordings import RECORDINGS  # noqa: PLC0415 - after the path is set

    EXPECTED.mkdir(exist_ok=True)
    for name in names or RECORDINGS:
        recording = RECORDINGS[name]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.tprof"
            recording.write(path)
            text = json.dumps([view_of(path, dict(view)) for view in recording.views], separators=(",", ":"))
        (EXPECTED / f"{name}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))
        sys.stdout.write(f"{name}: {len(recording.views)} views, {len(text):,} characters\n")


if __name__ == "__main__":
    main(sys.argv[1:])
