"""What a laptop's battery gives: the whole machine, its display included, measured coarsely.

The kernel's power_supply class (Documentation/power/power_supply_class.rst) has `power_now` in µW, or `current_now` in
µA and `voltage_now` in µV. Most controllers renew them every 1 to 30 s. While the battery is charged or full, the
supply feeds the machine, and its power is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.errors import SensorError
from tprof.sensors import Accuracy, Domain, Found, Quality, Quantity, Reading, Sensor, Unavailable
from tprof.sensors.advice import Remedy

if TYPE_CHECKING:
    from pathlib import Path

    from tprof.sensors import Machine

UNPLUG = Remedy("unplug the power supply")
DOMAIN = "battery"
PERIOD_S = 0.1
UPDATE_S = 30.0
"""The slowest update of batteries; some are renewed every second."""
DISCHARGING = "Discharging"


class Battery(Sensor):
    """All batteries together."""

    name = "battery"
    covers = "a laptop as a whole, while it runs on its battery"

    def find(self, machine: Machine) -> Found | Unavailable:
        """Look for batteries that discharge."""
        folders = _batteries(machine.root)
        if not folders:
            return Unavailable(f"{_place(machine.root)} has no battery")
        if not any(_text(folder / "status") == DISCHARGING for folder in folders):
            return Unavailable(
                f"{folders[0]} does not discharge: the supply feeds the machine", (UNPLUG,), notable=True
            )
        if all(_watts(folder) is None for folder in folders):
            return Unavailable(f"cannot read {folders[0]}/power_now, nor current_now and voltage_now there")
        accuracy = Accuracy(
            update_s=UPDATE_S, resolution=0.001, shows=Quantity.POWER, covers="the whole machine with its display"
        )
        return Found((Domain(DOMAIN, "machine", None, self.name, Quality.MEASURED, accuracy=accuracy),))

    def open(self, machine: Machine, domains: tuple[Domain, ...]) -> BatteryReader:
        """Read the batteries that there are now."""
        del domains
        return BatteryReader(machine.root)


class BatteryReader:
    """Adds up what the batteries give."""

    period_s = PERIOD_S

    def __init__(self, root: Path) -> None:
        """Look for them."""
        self._folders = _batteries(root)
        if not self._folders:
            raise SensorError(f"{_place(root)} has no battery any more: put it back")

    def read(self) -> list[Reading]:
        """Return the watts of those that discharge; missing if none does. Raises SensorError without any battery."""
        if not any((folder / "status").exists() for folder in self._folders):
            raise SensorError(f"{self._folders[0]} is gone: put the battery back")
        giving = [folder for folder in self._folders if _text(folder / "status") == DISCHARGING]
        watts = [_watts(folder) for folder in giving]
        known = [value for value in watts if value is not None]
        return [Reading(DOMAIN, sum(known) if known and len(known) == len(watts) else None)]

    def close(self) -> None:
        """Nothing is open between two reads."""


def _place(root: Path) -> Path:
    return root / "sys/class/power_supply"


def _batteries(root: Path) -> list[Path]:
    """Return the machine's own batteries, without those of mice and the like."""
    try:
        folders = sorted(_place(root).iterdir())
    except OSError:
        return []
    own = [folder for folder in folders if _text(folder / "type") == "Battery"]
    return [folder for folder in own if _text(folder / "scope") != "Device"]


def _watts(folder: Path) -> float | None:
    """Return the power; drivers differ in its sign."""
    power = _number(folder / "power_now")
    if power is not None:
        return abs(power) * 1e-6
    current, voltage = _number(folder / "current_now"), _number(folder / "voltage_now")
    return None if current is None or voltage is None else abs(current) * 1e-6 * voltage * 1e-6


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    text = _text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
