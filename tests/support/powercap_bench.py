"""Powercap's zones in a tree."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import fake_trees
from .sensor_conformance import CountBench

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DIGITS = 24


class PowercapBench(CountBench):
    """One package, whose zone comes back with another number."""

    energy, domain, modulus = "powercap", "package-0", fake_trees.RANGE_UJ + 1

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place, monkeypatch)
        self.tree = fake_trees.machine(place / "root", fake_trees.INTEL, {0: range(2)})
        self.tree.zone("intel-rapl:0", "package-0")
        self.zone = "intel-rapl:0"
        monkeypatch.setenv("TPROF_SYSROOT", str(self.tree.root))

    def show(self, value: float) -> None:
        """Overwrite the count in place, so that a reader never sees an empty file."""
        fd = os.open(self.tree.root / self.tree.device(self.zone) / self.zone / "energy_uj", os.O_WRONLY)
        os.pwrite(fd, f"{int(value)}\n".ljust(DIGITS, "\n").encode(), 0)
        os.close(fd)

    def remove(self) -> None:
        """Let the package go offline."""
        self.tree.unlink(self.zone)

    def put_back(self) -> None:
        """Bring it back under another number."""
        self.tree.renumber(self.zone, "intel-rapl:7")
        self.zone = "intel-rapl:7"
        self.show(self.count % self.modulus)

    def forbid(self) -> None:
        """A folder in the file's place is one that root cannot read either."""
        energy = self.tree.energy_of(self.zone)
        energy.unlink()
        energy.mkdir()
