"""What must stay the same while a sweep is under way: the program's text and the machine."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tprof import __version__
from tprof.sensors.processor import describe_host

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Identity = dict[str, str | int | None]
PROGRAM = "program"
"""The digest of its file; of a benchmark the version of tprof, and None for what is no file."""


def identity_of(file: Path | None, *, benchmark: bool) -> Identity:
    """Return what the sweep's figures belong to."""
    program = f"tprof {__version__}" if benchmark else digest(file)
    return {PROGRAM: program, **describe_host()}


def digest(file: Path | None) -> str | None:
    """Return a digest of a file, None where there is none to read."""
    try:
        return None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def changed(before: Mapping[str, str | int | None], now: Mapping[str, str | int | None], program: str) -> list[str]:
    """Say what is another than before."""
    names = [name for name in now if name in before and before[name] != now[name]]
    return [f"{program} was edited" if name == PROGRAM else _now(name, before, now) for name in names]


def _now(name: str, before: Mapping[str, str | int | None], now: Mapping[str, str | int | None]) -> str:
    return f"{name} was {before[name]} and is {now[name]}"
