"""The PMUs of the processor's cores, one for each kind of core, and the table that says what each counts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof import processors
from tprof.processors.tables import arm_name, parse_format
from tprof.sensors.topology import parse_cpu_list, read_text
from tprof.trace.plain_values import whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tprof.processors import Core
    from tprof.processors.tables import Bits

RAW = 4
MOST_TYPE = (1 << 31) - 1
MIDR_IMPLEMENTER, MIDR_PART = 24, 4
"""Lowest bits of the maker and of the part in Arm's MIDR_EL1."""
_MIDR = re.compile("0x[0-9a-f]{1,16}")


@dataclass(frozen=True)
class Pmu:
    """The counters of one kind of core.

    Attributes
    ----------
    name : as the kernel calls it.
    type : of its events.
    processor : the processor as `processors.identify` names it; None if it cannot be told.
    core : what a table says of it; None if none lists it.
    format : bits of each term in perf's config.
    """

    name: str
    type: int
    processor: str | None
    core: Core | None
    format: Mapping[str, Bits]


def processor_pmus(root: Path) -> tuple[Path, ...]:
    """Return the folders of the PMUs of processors, one for each kind of core.

    x86 has `cpu`, or `cpu_core` and `cpu_atom`; arm64 has one named after the core or the architecture, such as
    `armv8_cortex_a72` or `armv8_pmuv3_0`. PMUs outside the cores (memory, interconnect) have a `cpumask`; those of
    cores list their processors in `cpus`, unless all cores are of one kind.
    """
    try:
        devices = sorted((root / "sys/bus/event_source/devices").iterdir())
    except OSError:
        return ()
    return tuple(device for device in devices if device.name == "cpu" or (device / "cpus").exists())


def read_pmus(root: Path) -> tuple[Pmu, ...]:
    """Return the PMUs of the cores that `root` describes; a `cpu` beside others is theirs together, and left out."""
    folders = processor_pmus(root)
    parts = tuple(folder for folder in folders if folder.name != "cpu") or folders
    paragraphs = _cpuinfo(root) if parts else {}
    return tuple(_read(root, folder, paragraphs) for folder in parts)


def _read(root: Path, folder: Path, paragraphs: Mapping[int, dict[str, str]]) -> Pmu:
    cpus = parse_cpu_list(read_text(folder / "cpus") or "")
    processor = _processor(root, cpus, paragraphs)
    core = None if processor is None else processors.find_core(processor, folder.name)
    kind = whole(read_text(folder / "type") or "", MOST_TYPE)
    layout = {} if core is None else {**core.format, **_format(folder)}
    return Pmu(folder.name, RAW if kind is None else kind, processor, core, layout)


def _processor(root: Path, cpus: tuple[int, ...], paragraphs: Mapping[int, dict[str, str]]) -> str | None:
    """Return the name of the first of the processors, or of the first of all; a processor that is offline has none."""
    for cpu in cpus:
        text = read_text(root / f"sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1") or ""
        if _MIDR.fullmatch(text):
            midr = int(text, 16)
            return arm_name(midr >> MIDR_IMPLEMENTER & 0xFF, midr >> MIDR_PART & 0xFFF)
    # On x86 the paragraph is that of the first processor, and its family and model are those of all.
    found = next((paragraphs[cpu] for cpu in cpus if cpu in paragraphs), None) or next(iter(paragraphs.values()), None)
    return None if found is None else processors.identify(found)


def _cpuinfo(root: Path) -> dict[int, dict[str, str]]:
    """Return the fields of each processor's paragraph of /proc/cpuinfo; on x86 of the first only, as all are alike.

    The kernel takes long for all paragraphs of a large machine.
    """
    paragraphs: dict[int, dict[str, str]] = {}
    fields: dict[str, str] = {}
    try:
        with (root / "proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = (part.strip() for part in line.partition(":"))
                if key == "processor":
                    number = whole(value)
                    fields = paragraphs.setdefault(-1 if number is None else number, {})
                elif not key and "vendor_id" in fields:
                    break
                else:
                    fields.setdefault(key, value)
    except OSError:
        return {}
    return paragraphs


def _format(folder: Path) -> dict[str, Bits]:
    """Return the format that the kernel shows; a term in another word than `config` is left out."""
    shown: dict[str, Bits] = {}
    try:
        files = tuple((folder / "format").iterdir())
    except OSError:
        return shown
    for file in files:
        try:
            shown[file.name] = parse_format(read_text(file) or "")
        except ValueError:
            continue
    return shown
