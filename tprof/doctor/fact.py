"""A finding about the machine: what, whether it is as a recording would like it, why, and what would change it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tprof.sensors.advice import Remedy


class State(StrEnum):
    """How good a finding is for recordings."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True)
class Fact:
    """A finding.

    Attributes
    ----------
    what : its subject, in a few words.
    state : ok; limited: figures are there but less than they could be; missing.
    why : what was found and what follows from it, in a clause.
    remedies : commands that would change it, the one that exposes least first.
    """

    what: str
    state: State
    why: str
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True)
class Group:
    """Facts that belong together."""

    title: str
    facts: tuple[Fact, ...]


def read_text(path: Path) -> str | None:
    """Return a file's text without the blanks around it; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_proc(root: Path, name: str) -> str | None:
    """Return a file of /proc below `root`; where only /sys is below it, this container's own: the kernel is one."""
    text = read_text(root / "proc" / name)
    return read_text(Path("/proc") / name) if text is None else text
