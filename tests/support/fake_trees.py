"""Trees that look like /sys and /proc of known machines, for `TPROF_SYSROOT`.

They follow sysfs in what matters: zones are folders below /sys/devices, /sys/class/powercap holds links to them, and
a zone's number says nothing about what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

    from tprof.sensors import Choice, Found

RANGE_UJ = 262_143_328_850  # 32 bits of 2^-14 J, as the kernel prints it
DRAM_RANGE_UJ = 65_712_999_613
SCALE = "2.3283064365386962890625e-10"  # joules a count, as the kernel prints it
INTEL, AMD = "GenuineIntel", "AuthenticAMD"


@dataclass(frozen=True)
class Tree:
    """A tree below `root`; `place` is what TPROF_SYSROOT is set to."""

    root: Path

    def write(self, path: str, text: str) -> Path:
        """Write a file below the root, with its folders."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")
        return file

    def zone(self, folder: str, name: str, *, energy_uj: int = 1_000_000, range_uj: int | None = RANGE_UJ) -> Path:
        """Make a powercap zone such as intel-rapl:0:1; returns its energy_uj."""
        place = f"{self.device(folder)}/{folder}"
        self.write(f"{place}/name", name)
        if range_uj is not None:
            self.write(f"{place}/max_energy_range_uj", str(range_uj))
        energy = self.write(f"{place}/energy_uj", str(energy_uj))
        self.link(folder)
        return energy

    def device(self, folder: str) -> str:
        """Return the folder around a zone's own: that of its control type and of the zone it is a part of."""
        control, *numbers = folder.split(":")
        around = "/".join(":".join((control, *numbers[:depth])) for depth in range(1, len(numbers)))
        return f"sys/devices/virtual/powercap/{control}" + (f"/{around}" if around else "")

    def link(self, folder: str) -> None:
        """Show a zone below /sys/class/powercap."""
        link = self.root / "sys/class/powercap" / folder
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.root / self.device(folder) / folder)

    def count(self, *folders: str) -> Self:
        """Let counters, by default all, show something else at each moment: no number, but it does not stand still."""
        place = self.root / "sys/class/powercap"
        for energy in [self.energy_of(folder) for folder in folders] or place.glob("*/energy_uj"):
            if energy.is_file():
                energy.unlink()
                energy.symlink_to("/proc/uptime")
        return self

    def lose(self, *folders: str) -> None:
        """Make counters unreadable, for root too: a folder stands in the place of each."""
        for folder in folders:
            energy = self.energy_of(folder)
            energy.unlink()
            energy.mkdir()

    def unlink(self, folder: str) -> None:
        """Hide it."""
        (self.root / "sys/class/powercap" / folder).unlink()

    def renumber(self, before: str, after: str) -> None:
        """Give a zone and its parts that were unlinked another number, as when their package comes back online."""
        place = self.root / self.device(after) / after
        (self.root / self.device(before) / before).rename(place)
        self.link(after)
        for part in sorted(place.glob(f"{before}:*")):
            folder = after + part.name.removeprefix(before)
            part.rename(place / folder)
            self.link(folder)

    def swap(self, one: str, other: str) -> None:
        """Let two zones that were unlinked, without parts, come back each under the other's number."""
        places = [self.root / self.device(folder) / folder for folder in (one, other)]
        aside = places[0].with_name("aside")
        places[0].rename(aside)
        places[1].rename(places[0])
        aside.rename(places[1])
        self.link(one)
        self.link(other)

    def energy_of(self, folder: str) -> Path:
        """Return a zone's energy_uj as the recorder names it."""
        return self.root / "sys/class/powercap" / folder / "energy_uj"

    def cpu(self, number: int, package: int = 0, core: int | None = None, *, die: int = 0) -> None:
        """Make an online processor."""
        place = f"sys/devices/system/cpu/cpu{number}/topology"
        self.write(f"{place}/physical_package_id", str(package))
        self.write(f"{place}/die_id", str(die))
        self.write(f"{place}/core_id", str(number if core is None else core))

    def cpus(self, packages: dict[int, range], *, online: str | None = None) -> None:
        """Make the processors of each package, and say which are online."""
        for package, numbers in packages.items():
            for number in numbers:
                self.cpu(number, package)
        last = max(numbers.stop for numbers in packages.values()) - 1
        self.write("sys/devices/system/cpu/online", online or f"0-{last}")

    def processor(
        self, vendor: str, model: str = "a processor", *, numbers: tuple[int, int, int] | None = None
    ) -> None:
        """Say who made the processor, and its family, model and stepping."""
        text = f"processor\t: 0\nvendor_id\t: {vendor}\n"
        if numbers is not None:
            text += "cpu family\t: {}\nmodel\t\t: {}\nstepping\t: {}\n".format(*numbers)
        self.write("proc/cpuinfo", f"{text}model name\t: {model}\n")

    def power_pmu(self, kind: int, events: dict[str, str], *, cpumask: str = "0", scale: str = SCALE) -> None:
        """Make the kernel's power PMU with events such as {"energy-pkg": "event=0x02"}."""
        place = "sys/bus/event_source/devices/power"
        self.write(f"{place}/type", str(kind))
        self.write(f"{place}/cpumask", cpumask)
        for name, config in events.items():
            self.write(f"{place}/events/{name}", config)
            self.write(f"{place}/events/{name}.scale", scale)
            self.write(f"{place}/events/{name}.unit", "Joules")

    def pmu(self, name: str, kind: int, **files: str) -> None:
        """Make a PMU of the kernel's; `files` are what it has besides its type, folders with two underscores."""
        place = f"sys/bus/event_source/devices/{name}"
        self.write(f"{place}/type", str(kind))
        for file, text in files.items():
            self.write(f"{place}/{file.replace('__', '/')}", text)


def reasons(found: Choice | Found) -> dict[str, str]:
    """Return why each is left out, by name."""
    return {one.name: one.why for one in found.left_out}


def machine(root: Path, vendor: str, packages: dict[int, range]) -> Tree:
    """Return a machine with powercap that has no zone: the kernel's driver is not loaded."""
    tree = Tree(root)
    tree.processor(vendor)
    tree.cpus(packages)
    (root / "sys/class/powercap").mkdir(parents=True)
    return tree


def laptop(root: Path) -> Tree:
    """Return a client Intel processor: package with core and uncore, psys beside it."""
    tree = machine(root, INTEL, {0: range(8)})
    tree.zone("intel-rapl:0", "package-0")
    tree.zone("intel-rapl:0:0", "core")
    tree.zone("intel-rapl:0:1", "uncore")
    tree.zone("intel-rapl:1", "psys")
    return tree


def server(root: Path) -> Tree:
    """Return two sockets with DRAM: psys has number 1, socket 1 number 2, and a twin mirrors socket 0."""
    tree = machine(root, INTEL, {0: range(4), 1: range(4, 8)})
    for folder, package in (("intel-rapl:0", 0), ("intel-rapl:2", 1)):
        tree.zone(folder, f"package-{package}")
        tree.zone(f"{folder}:0", "dram", range_uj=DRAM_RANGE_UJ)
    tree.zone("intel-rapl:1", "psys")
    tree.zone("intel-rapl-mmio:0", "package-0")
    return tree


def dies(root: Path, vendor: str) -> Tree:
    """Return one socket with two dies: on AMD the second mirrors the first, on Intel each has its own counter."""
    tree = machine(root, vendor, {0: range(4)})
    tree.zone("intel-rapl:0", "package-0-die-0")
    tree.zone("intel-rapl:1", "package-0-die-1")
    return tree


def amd(root: Path) -> Tree:
    """Return an AMD processor: package, and a `core` zone that is one core's energy."""
    tree = machine(root, AMD, {0: range(4)})
    tree.zone("intel-rapl:0", "package-0", range_uj=65_532_610_987)
    tree.zone("intel-rapl:0:0", "core", range_uj=65_532_610_987)
    return tree


def mmio_alone(root: Path) -> Tree:
    """Return a processor whose energy is shown by memory-mapped registers only."""
    tree = machine(root, INTEL, {0: range(4)})
    tree.zone("intel-rapl-mmio:0", "package-0")
    return tree


def container(root: Path) -> Tree:
    """Return what a container runtime leaves that masks /sys/devices/virtual/powercap: links to nowhere."""
    tree = laptop(root)
    (root / "sys/devices/virtual/powercap").rename(root / "sys/devices/virtual/hidden")
    return tree


def virtual_machine(root: Path) -> Tree:
    """Return a machine with neither powercap nor a power PMU."""
    tree = Tree(root)
    tree.processor(INTEL)
    tree.cpus({0: range(2)})
    return tree


def hybrid(root: Path) -> Tree:
    """Return a processor of two fast cores with two threads each and two slow ones."""
    tree = laptop(root)
    tree.processor(INTEL, "13th Gen Intel(R) Core(TM) i7-1360P", numbers=(6, 0xBA, 2))
    for name, kind, cpus in (("cpu_core", 4, "0-3"), ("cpu_atom", 10, "4-7")):
        tree.write(f"sys/devices/{name}/cpus", cpus)
        tree.pmu(name, kind, cpus=cpus, rdpmc="1", **INTEL_FORMAT)
    return tree


INTEL_FORMAT = {
    "format__event": "config:0-7",
    "format__umask": "config:8-15",
    "format__edge": "config:18",
    "format__inv": "config:23",
    "format__cmask": "config:24-31",
    "format__ldlat": "config1:0-15",
}
_SOFTWARE_PMUS = {"breakpoint": 5, "kprobe": 6, "software": 1, "tracepoint": 2, "uprobe": 7}
_ARM_CORE = {
    "format__event": "config:0-15",
    "format__long": "config1:0",
    "format__rdpmc": "config1:1",
    "events__cpu_cycles": "event=0x0011",
    "events__inst_retired": "event=0x0008",
    "caps__slots": "0x00000000",
}
_ARM_CPUINFO = """\
processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: {part}
CPU revision\t: 1
"""


def _arm(root: Path, cpus: int, part: str) -> Tree:
    """Return an arm64 machine as its kernel shows it without a PMU of its cores: powercap there, and no zone in it."""
    tree = Tree(root)
    tree.write("proc/cpuinfo", _ARM_CPUINFO.format(part=part))
    tree.cpus({0: range(cpus)})
    for name, kind in _SOFTWARE_PMUS.items():
        tree.pmu(name, kind)
    (root / "sys/class/powercap").mkdir(parents=True)
    return tree


def arm_server(root: Path) -> Tree:
    """Return a server with ACPI (Neoverse N1): its cores' PMU is numbered, others are beside the cores."""
    tree = _arm(root, 4, "0xd0c")
    tree.pmu("armv8_pmuv3_0", 8, cpus="0-3", **_ARM_CORE)
    tree.pmu("arm_cmn_0", 9, cpumask="0")
    tree.pmu("arm_dsu_0", 10, cpumask="0", associated_cpus="0-1")
    tree.pmu("arm_spe_0", 11, cpumask="0-3")
    return tree


def arm_board(root: Path) -> Tree:
    """Return a board with a device tree, of four slow cores and two fast ones, each kind with its PMU."""
    tree = _arm(root, 6, "0xd03")
    for cpu in range(6):
        midr = f"0x00000000410fd{0x034 if cpu < 4 else 0x083:03x}"
        tree.write(f"sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1", midr)
    tree.pmu("armv8_cortex_a53", 7, cpus="0-3", **_ARM_CORE)
    tree.pmu("armv8_cortex_a72", 8, cpus="4-5", **_ARM_CORE)
    return tree


def arm_virtual_machine(root: Path) -> Tree:
    """Return an arm64 guest whose host gives it no PMU."""
    return _arm(root, 2, "0xd40")
