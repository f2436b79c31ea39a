"""The files of the simulated machine: one package, its cpufreq policies, its powercap zone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.frequency.policy import CPUFREQ, KHZ
from tprof.sensors.powercap import SIMULATED

if TYPE_CHECKING:
    from pathlib import Path

RANGE_UJ = 262_143_328_850  # 32 bits of 2^-14 J, as the kernel prints it
ZONE = "sys/class/powercap/intel-rapl:0"
ENERGY = f"{ZONE}/energy_uj"
FIRST = f"{CPUFREQ}/policy0"


@dataclass(frozen=True)
class Shape:
    """What the machine looks like.

    Attributes
    ----------
    frequencies_hz : ascending.
    cpus, policies : processors, and how many policies share them evenly.
    driver : one that lists its frequencies (acpi-cpufreq), or not.
    """

    frequencies_hz: tuple[int, ...]
    cpus: int = 2
    policies: int = 1
    driver: str = "acpi-cpufreq"


def make_tree(root: Path, shape: Shape, address: str) -> None:
    """Write every file; `address` is where tasks report, and its file says that all of it is simulated."""
    _write(root, SIMULATED, address)
    # Nobody but the tasks draws power here, so nobody else may be seen to run.
    _write(root, "proc/stat", "\n".join(f"cpu{cpu} 0 0 0 0 0 0 0 0 0 0" for cpu in range(shape.cpus)))
    _write(root, f"{ZONE}/name", "package-0")
    _write(root, f"{ZONE}/max_energy_range_uj", RANGE_UJ)
    _write(root, ENERGY, 0)
    _write(root, "sys/devices/system/cpu/online", f"0-{shape.cpus - 1}")
    for cpu in range(shape.cpus):
        for name, value in (("physical_package_id", 0), ("die_id", 0), ("core_id", cpu)):
            _write(root, f"sys/devices/system/cpu/cpu{cpu}/topology/{name}", value)
    each = shape.cpus // shape.policies
    for first in range(0, shape.cpus, each):
        _make_policy(root, shape, range(first, first + each))


def _make_policy(root: Path, shape: Shape, cpus: range) -> None:
    lowest, highest = shape.frequencies_hz[0] // KHZ, shape.frequencies_hz[-1] // KHZ
    members = " ".join(map(str, cpus))
    files = {
        "affected_cpus": members,
        "related_cpus": members,
        "scaling_driver": shape.driver,
        "scaling_governor": "schedutil",
        "scaling_available_governors": "schedutil performance powersave",
        "cpuinfo_min_freq": lowest,
        "cpuinfo_max_freq": highest,
        "scaling_min_freq": lowest,
        "scaling_max_freq": highest,
        "scaling_cur_freq": highest,
        "scaling_setspeed": "<unsupported>",
    }
    if shape.driver == "acpi-cpufreq":
        files["scaling_available_frequencies"] = " ".join(str(hz // KHZ) for hz in reversed(shape.frequencies_hz))
    for name, value in files.items():
        _write(root, f"{CPUFREQ}/policy{cpus.start}/{name}", value)


def _write(root: Path, name: str, value: object) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{value}\n", encoding="ascii")
