"""The assumed watts of a processor without a sensor, and their error, from a table by kind of processor.

The name of a processor gives its kind first: its suffix is the power class (U and P: thin laptops; H: laptops; none:
desktops). Without a suffix a battery or the chassis indicates a laptop, and sockets and cores indicate a server. On Arm
the kernel has no name, only the maker and the part of each core.

In a virtual machine the size of the chip is unknown: the table's size is assumed, and the machine's share of
the idle watts is its share of the chip's logical processors.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tprof.processors import identify, kind_of

from .topology import read_text

if TYPE_CHECKING:
    from .topology import Cpu


TABLE = "watts.csv"
GUEST_RANGE = 4.0
"""A guest's chip may have from a quarter to four times the table's cores: servers have 8 to 192."""
UNKNOWN = "unknown"
_BY_NAME = (
    (r"EPYC 4\d{3}", "desktop"),
    (r"EPYC|Opteron|Hygon", "amd-server"),
    (r"Threadripper", "desktop"),
    (r"Ryzen.*\d{4}H[SX]?\b|Ryzen AI.*\bHX\b|Ryzen AI Max", "laptop"),
    (r"(Ryzen|Athlon).*\d{4}[UC]\b|Ryzen (AI|Z\d)", "thin-laptop"),
    (r"Ryzen|Athlon", "desktop"),
    (r"Xeon.*(\bE3-|\bE-\d|\bW-1\d{3}|\b63\d\dP)", "desktop"),
    (r"Xeon|Atom.*\b[CP]\d{4}", "intel-server"),
    (r"Core.*\d{3,5}(U|UE|Y|V|P|G[1-7])\b|\bm[357]-|\bi\d-\dY\d\d", "thin-laptop"),
    (r"Core.*\d{3,5}(H|HK|HQ|HX|HF|HS|M|MQ|MX|QM|XM)\b", "laptop"),
    (r"Atom|Intel.*\bN\d{2,4}\b|(Celeron|Pentium).*\b[NJ]\d{4}", "thin-laptop"),
    (r"(Core|Pentium|Celeron).*\d{3}", "desktop"),
)
"""Compiled when they are needed: every recording without a sensor begins here."""
_GENERIC = "Intel Core Processor|QEMU|KVM"
"""Model names made up by hypervisors."""
_SERVERS_OF = {"GenuineIntel": "intel-server", "AuthenticAMD": "amd-server", "HygonGenuine": "amd-server"}
_ARM_SERVER_MAKERS = {0x43, 0x46, 0x48, 0x50, 0x6D, 0xC0}
"""Cavium and Marvell, Fujitsu, HiSilicon, Applied Micro, Microsoft, Ampere."""
_ARM_LAPTOP_MAKERS = {0x51, 0x61}
"""Qualcomm, Apple."""
_ARM, _NEOVERSE = 0x41, {0xD0C, 0xD40, 0xD49, 0xD4F, 0xD84, 0xD8E}
_PORTABLE = {"8", "9", "10", "11", "14", "30", "31", "32"}
"""Chassis types of SMBIOS 3.6, table 17: portable, laptop, notebook, hand held, sub notebook, tablet, and the like."""
_HYPERVISORS = ("QEMU", "Xen", "VMware", "Microsoft Corporation", "Google", "Amazon EC2", "Parallels")
"""Makers of virtual machines, for Arm, whose processors have no flag for guests."""
LEAST_SERVER_CORES = 24


@dataclass(frozen=True)
class Row:
    """A kind of processor; the table's first lines document the columns."""

    words: str
    idle_w: float
    idle_exponent: float
    busy_w: float
    busy_exponent: float
    idle_factor: float
    busy_factor: float
    guest_cores: int


@dataclass(frozen=True)
class Assumed:
    """The assumptions on a machine.

    Attributes
    ----------
    idle_w : of all packages together.
    per_core_w : of a busy logical processor.
    idle_factor, per_core_factor : their error factors, 95 %.
    processor : description of the assumed processor.
    """

    idle_w: float
    per_core_w: float
    idle_factor: float
    per_core_factor: float
    processor: str


@cache
def table() -> dict[str, Row]:
    """Return the table by kind."""
    import csv  # noqa: PLC0415 - kept off `import tprof`
    import pkgutil  # noqa: PLC0415 - at the start of most recordings: importlib.resources loads zipfile and tempfile

    text = (pkgutil.get_data(__package__, TABLE) or b"").decode()
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row.pop("kind"): _row(row) for row in rows}


def _row(row: dict[str, str]) -> Row:
    words, guest_cores = row.pop("words"), int(row.pop("guest_cores"))
    return Row(words, guest_cores=guest_cores, **{name: float(value) for name, value in row.items()})


def generic_factors() -> tuple[float, float]:
    """Return the error factors of idle and busy watts for an unknown processor."""
    row = table()[UNKNOWN]
    return row.idle_factor, row.busy_factor


def assume(root: Path, topology: tuple[Cpu, ...]) -> Assumed:
    """Return the assumptions on the machine that `root` describes."""
    processor = read_processor(root, topology)
    row = table()[processor.kind]
    packages = len({cpu.package for cpu in topology})
    cpus, cores = len(topology) / packages, len({(cpu.package, cpu.core) for cpu in topology}) / packages
    if not processor.guest:
        idle_w, busy_w = row.idle_w * cores**row.idle_exponent, row.busy_w * cores**row.busy_exponent
        return _rounded(idle_w * packages, busy_w / cpus, row.idle_factor, row.busy_factor, row.words)
    threads = 1 if processor.kind in ("arm-server", "board") else 2
    chip_cores = max(row.guest_cores, cpus / threads)
    chip_cpus = chip_cores * threads
    return _rounded(
        row.idle_w * chip_cores**row.idle_exponent / chip_cpus * len(topology),
        row.busy_w * chip_cores**row.busy_exponent / chip_cpus,
        _of_unknown_size(row.idle_factor, row.idle_exponent),
        _of_unknown_size(row.busy_factor, row.busy_exponent),
        f"a virtual machine's part of {row.words}",
    )


def _of_unknown_size(factor: float, exponent: float) -> float:
    """Add the error due to the unknown size of the chip to a logical processor's watts, in squares."""
    return math.exp(math.hypot(math.log(factor), (1 - exponent) * math.log(GUEST_RANGE)))


def _rounded(idle_w: float, per_core_w: float, idle_factor: float, per_core_factor: float, processor: str) -> Assumed:
    numbers = [float(f"{number:.3g}") for number in (idle_w, per_core_w, idle_factor, per_core_factor)]
    return Assumed(numbers[0], numbers[1], numbers[2], numbers[3], processor)


@dataclass(frozen=True)
class Processor:
    """A row of the table of assumed watts, and whether the machine has only a part of such a chip."""

    kind: str
    guest: bool


def read_processor(root: Path, topology: tuple[Cpu, ...]) -> Processor:
    """Return the kind of processor that `root` describes."""
    fields = _cpuinfo(root)
    guest = _is_guest(root, fields)
    if "CPU implementer" in fields:
        return Processor(_arm_kind(fields, guest=guest), guest)
    name, maker = next(iter(fields.get("model name", [""]))), next(iter(fields.get("vendor_id", [""])))
    kind = None
    if not re.search(_GENERIC, name):
        kind = next((kind for pattern, kind in _BY_NAME if re.search(pattern, name, re.IGNORECASE)), None)
    if kind is None and not guest:
        kind = _listed_kind(fields)
    if kind is None and maker in _SERVERS_OF:
        kind = _SERVERS_OF[maker] if guest else _kind_without_name(root, topology, _SERVERS_OF[maker])
    elif kind == "desktop" and not guest and _is_portable(root):
        kind = "laptop"
    return Processor(kind or UNKNOWN, guest)


def _listed_kind(fields: dict[str, list[str]]) -> str | None:
    """Return the kind that a table of processors gives its family and model: early samples have no telling name."""
    processor = identify({key: values[0] for key, values in fields.items() if values})
    return None if processor is None else kind_of(processor)


def _kind_without_name(root: Path, topology: tuple[Cpu, ...], server: str) -> str:
    if _is_portable(root):
        return "thin-laptop"
    cores = {(cpu.package, cpu.core) for cpu in topology}
    many = len({cpu.package for cpu in topology}) > 1 or len(cores) >= LEAST_SERVER_CORES
    return server if many else "desktop"


def _arm_kind(fields: dict[str, list[str]], *, guest: bool) -> str:
    makers, parts = ({_hex(text) for text in fields.get(key, ())} for key in ("CPU implementer", "CPU part"))
    if makers & _ARM_SERVER_MAKERS or (_ARM in makers and parts & _NEOVERSE):
        return "arm-server"
    if makers & _ARM_LAPTOP_MAKERS:
        return "thin-laptop"
    return "arm-server" if guest else "board"


def _hex(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return -1


def _cpuinfo(root: Path) -> dict[str, list[str]]:
    """Return the distinct values of each key; if `root` has only /sys, those of this machine's own /proc."""
    text = read_text(root / "proc/cpuinfo")
    found: dict[str, list[str]] = {}
    for line in ((read_text(Path("/proc/cpuinfo")) if text is None else text) or "").splitlines():
        key, _, value = line.partition(":")
        values = found.setdefault(key.strip(), [])
        if value.strip() not in values:
            values.append(value.strip())
    return found


def _is_guest(root: Path, fields: dict[str, list[str]]) -> bool:
    if "flags" in fields:
        return any("hypervisor" in flags.split() for flags in fields["flags"])
    maker, product = (read_text(root / "sys/class/dmi/id" / name) or "" for name in ("sys_vendor", "product_name"))
    # Physical machines of these makers have such names; their other products are virtual machines.
    whole = product.endswith(".metal") or (maker.startswith("Microsoft") and product != "Virtual Machine")
    return maker.startswith(_HYPERVISORS) and not whole


def _is_portable(root: Path) -> bool:
    if read_text(root / "sys/class/dmi/id/chassis_type") in _PORTABLE:
        return True
    supplies = root / "sys/class/power_supply"
    # A mouse has a battery as well; its scope is Device.
    return any(
        read_text(place / "type") == "Battery" and read_text(place / "scope") != "Device"
        for place in supplies.glob("*")
    )
