"""Programs that run plain and under `tprof run`, which must not differ."""

import os
import subprocess
import sys
from pathlib import Path

import tprof

from .programs import TPROF
from .recorded import instances

DEADLINE_S = 240
HAS_EVENTS = sys.version_info >= (3, 12)


def execute(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would, whose programs import from their own folder: only this suite forbids that."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(
        words,
        cwd=folder,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def compare(
    folder: Path, source: str, *patterns: str, main: tuple[str, ...] = ("prog.py",), **environment: str
) -> dict[str, int]:
    """Run a program plain and recorded: they must not differ. Returns how often which task ran."""
    (folder / "prog.py").write_text(source)
    options = ["--energy", "estimate", "--no-summary", "-o", "t.tprof", "--overwrite"]
    options += [word for pattern in patterns for word in ("--task", pattern)]
    plain = execute(folder, sys.executable, *main, **environment)
    recorded = execute(folder, TPROF, "run", *options, *main, **environment)
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    return instances(tprof.load(folder / "t.tprof"))
