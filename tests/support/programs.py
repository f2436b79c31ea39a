"""Programs that tests run as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

DEADLINE_S = 300
TPROF = str(Path(sysconfig.get_path("scripts")) / "tprof")


def run(tmp_path: Path, source: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a Python program given as text; returns what it printed and its status."""
    return subprocess.run(
        [sys.executable, str(write(tmp_path, source)), *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        cwd=tmp_path,
        **options,
    )


def start(tmp_path: Path, source: str, *arguments: str, **options: object) -> subprocess.Popen[str]:
    """Start it and return while it runs."""
    return subprocess.Popen(
        [sys.executable, str(write(tmp_path, source)), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        **options,
    )


def write(tmp_path: Path, source: str) -> Path:
    """Write the program into the folder."""
    path = tmp_path / "program.py"
    path.write_text(source, encoding="utf-8")
    return path


def begin(folder: Path, words: Sequence[str]) -> subprocess.Popen[str]:
    """Start a command as a user would, whose programs import from their own folder: only this suite forbids that."""
    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"},
    )
