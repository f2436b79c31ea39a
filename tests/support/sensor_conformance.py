"""What any sensor has to do: the cases that tests/sensors/test_conformance.py runs on each, and what a case needs.

A sensor that is added gets a `Bench` in the list of that test: a fake tree, library or stream of what it reads, which
the bench drives. The bench counts what it showed, so the test knows what a recording has to find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Bench(Protocol):
    """A fake of what one sensor reads.

    Attributes
    ----------
    energy : what to ask `tprof.record` for: the sensor's name, with an argument if it takes one.
    domain : name of the domain that `draw` moves.
    modulus : the domain's count wraps there; None: it does not wrap.
    unit_j : joules of a count; of power, of the recorder's count.
    most_off_j : by how much joules of one recording may be off from what was drawn, by the sensor's own rounding.
    """

    energy: str
    domain: str
    modulus: int | None
    unit_j: float
    most_off_j: float

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make it below a folder of its own; a root for TPROF_SYSROOT goes into the environment."""

    def draw(self, joules: float) -> None:
        """Let the domain draw so many joules at once; of power: raise the watts for a while that makes so many."""

    def remove(self) -> None:
        """Take the hardware away: from now on reads fail, and nothing is found."""

    def put_back(self) -> None:
        """Bring it back, as the system would: perhaps under another number."""

    def forbid(self) -> None:
        """Let neither the current user nor root read it; raises NotImplementedError where no right decides."""

    def close(self) -> None:
        """End it."""
