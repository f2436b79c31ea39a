"""Waiting until the processor's temperature is steady: a warm package leaks more, so runs must not inherit heat."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.sensors.topology import read_text
from tprof.trace.plain_values import whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEADY_C = 1.0
WINDOW_S = 5.0
PERIOD_S = 0.5
# Of packages; other zones (battery, disk, wireless) give no information about a processor's leakage.
ZONES = ("x86_pkg_temp", "cpu-thermal", "cpu_thermal", "soc-thermal", "cpu0-thermal")
CHIPS = ("coretemp", "k10temp", "zenpower")


@dataclass(frozen=True)
class Settled:
    """How a wait ended: the last temperature, how long it took, and whether it was steady."""

    celsius: float
    waited_s: float
    steady: bool


def find_sensor(root: Path) -> Path | None:
    """Return the file that holds the processor's temperature in thousandths of a degree, None if there is none."""
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        if read_text(zone / "type") in ZONES and read_c(zone / "temp") is not None:
            return zone / "temp"
    for chip in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        # The first input is the package's with all three drivers.
        if read_text(chip / "name") in CHIPS and read_c(chip / "temp1_input") is not None:
            return chip / "temp1_input"
    return None


def read_c(path: Path) -> float | None:
    """Return degrees, None if the sensor gives none."""
    text = read_text(path) or ""
    thousandths = whole(text.removeprefix("-"))
    if thousandths is None:
        return None
    return (-thousandths if text.startswith("-") else thousandths) / 1000


def settle(
    sensor: Path,
    limit_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> Settled | None:
    """Wait until the temperature changed by less than `STEADY_C` in `WINDOW_S`, for `limit_s` at most.

    Returns
    -------
    Settled or None
        None if the sensor stopped giving values.
    """
    begin_s = clock()
    seen: deque[tuple[float, float]] = deque()
    while True:
        now_s, celsius = clock(), read_c(sensor)
        if celsius is None:
            return None
        seen.append((now_s, celsius))
        whole = now_s - seen[0][0] >= WINDOW_S
        values = [value for _, value in seen]
        if whole and max(values) - min(values) < STEADY_C:
            return Settled(celsius, now_s - begin_s, steady=True)
        if now_s - begin_s >= limit_s:
            return Settled(celsius, now_s - begin_s, steady=False)
        while seen and now_s - seen[0][0] >= WINDOW_S:
            seen.popleft()
        wait(PERIOD_S)
