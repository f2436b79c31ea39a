"""Programs that tests run as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_S = 300


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
