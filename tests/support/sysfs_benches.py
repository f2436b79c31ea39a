"""Benches of what other drivers than RAPL's show: graphics cards, processors, a battery, and a controller's tool."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from . import example_sensors, fake_trees
from .sensor_conformance import Bench, CountBench, PowerBench

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DIGITS = 24


class _Tree(Bench):
    """A tree with one file that is driven, below a folder that can go away."""

    folder: ClassVar[str]
    value: ClassVar[str]
    files: ClassVar[dict[str, str]]
    scale: ClassVar[float] = 1e6

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place, monkeypatch)
        self.tree = fake_trees.machine(place / "root", fake_trees.AMD, {0: range(2)})
        for name, text in self.files.items():
            self.tree.write(f"{self.folder}/{name}", text)
        self.path = self.tree.write(f"{self.folder}/{self.value}", "0".ljust(DIGITS))
        self.away = place / "away"
        monkeypatch.setenv("TPROF_SYSROOT", str(self.tree.root))

    def show(self, value: float) -> None:
        """Overwrite the value in place, so that a reader never sees an empty file."""
        self.shown = value
        if self.path.exists():
            fd = os.open(self.path, os.O_WRONLY)
            os.pwrite(fd, f"{round(value * self.scale)}".ljust(DIGITS).encode(), 0)
            os.close(fd)

    def remove(self) -> None:
        """Unload the driver."""
        (self.tree.root / self.folder).rename(self.away)

    def put_back(self) -> None:
        """Load it again."""
        self.away.rename(self.tree.root / self.folder)
        self.show(self.shown)

    def forbid(self) -> None:
        """A folder in the file's place is one that root cannot read either."""
        self.path.unlink()
        self.path.mkdir()


class IntelGpuBench(_Tree, CountBench):
    """A graphics card that counts energy; its device has another number after it was away."""

    energy, domain, modulus, unit_j = "intel_gpu", "gpu-intel-0", None, 1e-6
    folder, value, scale = "sys/class/hwmon/hwmon3", "energy1_input", 1.0
    files: ClassVar[dict[str, str]] = {"name": "xe", "energy1_label": "card"}

    def put_back(self) -> None:
        """Load it again, as another number."""
        folder = self.tree.root / "sys/class/hwmon/hwmon5"
        self.away.rename(folder)
        self.path = folder / self.value
        self.show(self.shown)


class AmdGpuBench(_Tree, PowerBench):
    """A GPU that shows its mean power."""

    energy, domain = "amd_gpu", "gpu-amd-0"
    folder, value = "sys/class/hwmon/hwmon1", "power1_average"
    files: ClassVar[dict[str, str]] = {"name": "amdgpu", "power1_label": "PPT", "power1_input": "7000000"}


class GraceBench(_Tree, PowerBench):
    """A processor of Arm's architecture with the firmware's power meter."""

    energy, domain = "hwmon_processor", "package-0"
    folder, value = "sys/class/hwmon/hwmon0", "power1_average"
    files: ClassVar[dict[str, str]] = {
        "name": "power_meter", "power1_oem_info": "CPU Power Socket 0", "power1_average_interval": "50",
    }  # fmt: skip


class BoardBench(_Tree, PowerBench):
    """A rail of a board."""

    energy, domain = "hwmon:ina226", "ina226-0-VDD_CPU"
    folder, value = "sys/class/hwmon/hwmon2", "power1_input"
    files: ClassVar[dict[str, str]] = {"name": "ina226", "power1_label": "VDD_CPU"}


class BatteryBench(_Tree, PowerBench):
    """A battery that discharges."""

    energy, domain = "battery", "battery"
    folder, value = "sys/class/power_supply/BAT0", "power_now"
    files: ClassVar[dict[str, str]] = {"type": "Battery", "status": "Discharging"}

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place, monkeypatch)
        example_sensors.install(place, monkeypatch)


class IpmiBench(PowerBench):
    """A controller, and a program in the place of ipmitool that says what the controller would."""

    energy, domain = "ipmi", "node"
    watts = (200.0, 300.0)

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place, monkeypatch)
        example_sensors.install(place, monkeypatch)
        self.tree = fake_trees.machine(place / "root", fake_trees.INTEL, {0: range(2)})
        self.device = self.tree.write("dev/ipmi0", "")
        self.file, tool = place / "watts", place / "bin" / "ipmitool"
        tool.parent.mkdir()
        tool.write_text(
            f'#!/bin/sh\n[ "$*" = "dcmi power reading" ] && [ -e {self.device} ] || exit 1\n'
            f'echo "    Instantaneous power reading:                   $(cat {self.file}) Watts"\n'
            'echo "    Minimum during sampling period:                  2 Watts"\n'
        )
        tool.chmod(0o755)
        monkeypatch.setenv("TPROF_SYSROOT", str(self.tree.root))
        monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")

    def show(self, value: float) -> None:
        """Let the tool say so from now on."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{value:.0f}")
        new.replace(self.file)

    def remove(self) -> None:
        """Take the device away."""
        self.device.unlink(missing_ok=True)

    def put_back(self) -> None:
        """Bring it back."""
        self.device.touch()

    def forbid(self) -> None:
        raise NotImplementedError
