"""A module in the place of amdsmi, with one GPU that counts its energy and one that does not."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

from . import example_sensors
from .sensor_conformance import CountBench

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

UNIT_UJ = 15.3


class AmdSmiException(Exception):  # noqa: N818 - the library's name
    """As the library's."""


class AmdSmiBench(CountBench):
    """The first GPU."""

    energy, domain, unit_j = "amd_smi", "gpu-amd-0", UNIT_UJ * 1e-6

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place, monkeypatch)
        example_sensors.install(place, monkeypatch)
        self.is_there, self.shown = True, 0
        module = ModuleType("amdsmi")
        module.__spec__ = ModuleSpec("amdsmi", None)
        module.AmdSmiException = AmdSmiException
        module.amdsmi_init = self._check
        module.amdsmi_shut_down = lambda: None
        module.amdsmi_get_processor_handles = lambda: ["first", "second"]
        module.amdsmi_get_energy_count = self._count
        monkeypatch.setitem(sys.modules, "amdsmi", module)

    def _check(self) -> None:
        if not self.is_there:
            raise AmdSmiException("AMDSMI_STATUS_DRIVER_NOT_LOADED - Driver not loaded")

    def _count(self, gpu: str) -> dict[str, float]:
        self._check()
        if gpu == "second":
            raise AmdSmiException("AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported")
        return {"energy_accumulator": self.shown, "counter_resolution": UNIT_UJ, "timestamp": 1}

    def show(self, value: float) -> None:
        """Change the accumulator."""
        self.shown = int(value)

    def remove(self) -> None:
        """Unload the driver."""
        self.is_there = False

    def put_back(self) -> None:
        """Load it again."""
        self.is_there = True

    def forbid(self) -> None:
        raise NotImplementedError
