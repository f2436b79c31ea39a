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
PRINTED = "printed"
"""What `tprof summary --json` prints of some recordings, by their names."""
COMMANDS: dict[str, tuple[str, ...]] = {
    "nested-on-one-package": (),
    "a-window-that-cuts-everything": ("--between", "0.021,0.2003"),
    "a-graph-of-a-task-runtime": ("--model", "cputime"),
    "three-hosts": (),
    "sums-only": (),
}


def view_of(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a written recording under some options of `Trace.profile`."""
    from frozen.figures import figures_of  # noqa: PLC0415 - freeze.py puts tests on the path first

    import tprof  # noqa: PLC0415 - for the same reason

    return figures_of(tprof.load(path).profile(**options))


def printed(path: Path, options: tuple[str, ...]) -> dict[str, Any]:
    """Return what ``tprof summary --json`` prints of a written recording, run in this process."""
    from support.command_line import tprof as command  # noqa: PLC0415 - for the same reason

    found = command("summary", path, "--json", *options, cwd=path.parent)
    assert not found.returncode, found.stderr
    values: dict[str, Any] = json.loads(found.stdout)
    return values


def expected(name: str) -> Any:
    """Return the frozen figures of a recording, one for each of its views; of `PRINTED` those by recording."""
    return json.loads(lzma.decompress((EXPECTED / f"{name}.json.xz").read_bytes()))


def main(names: list[str]) -> None:
    """Freeze the figures of these recordings, or of all, and what is printed."""
    sys.path[:0] = [str(HERE.parent)]
    from frozen.every import RECORDINGS  # noqa: PLC0415 - after the path is set

    EXPECTED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in names or [*RECORDINGS, PRINTED]:
            of = COMMANDS if name == PRINTED else [name]
            paths = {one: Path(folder) / name / f"{one}.tprof" for one in of}
            for one, path in paths.items():
                path.parent.mkdir(exist_ok=True)
                RECORDINGS[one].write(path)
            found = (
                {one: printed(path, COMMANDS[one]) for one, path in paths.items()}
                if name == PRINTED
                else [view_of(paths[name], dict(view)) for view in RECORDINGS[name].views]
            )
            text = json.dumps(found, separators=(",", ":"))
            (EXPECTED / f"{name}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))
            sys.stdout.write(f"{name}: {len(found)} views, {len(text):,} characters\n")


if __name__ == "__main__":
    main(sys.argv[1:])
