"""A finding about the machine: its subject, state, reason and remedies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tprof.sensors.topology import read_text

if TYPE_CHECKING:
    from tprof.sensors.advice import Remedy


class State(StrEnum):
    """State of a finding for recordings."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True)
class Fact:
    """A finding.

    Attributes
    ----------
    what : its subject, in a few words.
    state : ok; limited: figures are available but worse than possible; missing.
    why : the finding and its consequence, as a clause.
    remedies : commands that improve it, the one that exposes least first.
    covers : of a sensor, what it measures.
    brief : whether the text of it is one line without the commands, since nothing is there that they could grant.
    """

    what: str
    state: State
    why: str
    remedies: tuple[Remedy, ...] = ()
    covers: str | None = None
    brief: bool = False


@dataclass(frozen=True)
class Group:
    """Facts of one subject."""

    title: str
    facts: tuple[Fact, ...]


def read_proc(root: Path, name: str) -> str | None:
    """Return a file of /proc below `root`; if `root` has only /sys, this container's own, of the same kernel."""
    text = read_text(root / "proc" / name)
    return read_text(Path("/proc") / name) if text is None else text
