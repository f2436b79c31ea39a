"""The assumed watts of a processor without a sensor, and their error, from a table by kind of processor.

A virtual machine does not know the size of its chip: it is assumed to have the table's size, and the machine's share of
the idle watts is its share of the chip's logical processors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from .processor import UNKNOWN, read_processor

if TYPE_CHECKING:
    from pathlib import Path

    from .topology import Cpu

TABLE = "watts.csv"
GUEST_RANGE = 4.0
"""A guest's chip may have from a quarter to four times the table's cores: servers have 8 to 192."""


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
    from importlib.resources import files  # noqa: PLC0415

    text = (files(__package__) / TABLE).read_text("utf-8")
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
