"""The tables of processors: which event counts what on which kind of core, its counters, and its class of watts.

A table is a text file of one family in the folder `tables`. A line `format` says where the terms of its events stand in
perf's config, in the notation of sysfs. Then there is a section for each kind of core:

    [name]
    processors PATTERN SOURCE         regular expression of what `identify` returns, with or without the stepping
    pmu PATTERN                       regular expression of the kernel's name of the PMU
    counters KEY=NUMBER... SOURCE     fixed, general: how many; bits: their width
    kind KIND PATTERN SOURCE          row of the table of assumed watts for processors whose name does not tell it
    COLUMN TERMS GENERIC EVENT SOURCE

The last is a counter: its event in terms of the format, the kernel's generic event that counts the same here (or `-`),
the event's name, and the file in which this name has these terms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Bits = tuple[tuple[int, int], ...]

FOLDER = "tables"
NO_GENERIC = "-"
CONFIG_BITS = 64


@dataclass(frozen=True)
class Line:
    """A counter of a kind of core.

    Attributes
    ----------
    terms : of the event, as perf writes it: (("event", 0x24), ("umask", 0xff)).
    generic : the kernel's generic event that counts the same, or None.
    event : the name that the source gives it.
    source : repository and path.
    """

    terms: tuple[tuple[str, int], ...]
    generic: str | None
    event: str
    source: str


@dataclass(frozen=True)
class Core:
    """A kind of core: a section of a table.

    Attributes
    ----------
    name, table : of the section and of its file.
    processors, pmu : regular expressions of the processors that have it, and of its PMU's name.
    counters : how many counters it has, and of how many bits, as far as known.
    kinds : rows of the table of assumed watts, each with the pattern of its processors.
    lines : by column.
    format : bits of each term in perf's config, lowest first, by which `encode` goes unless the kernel shows others.
    """

    name: str
    table: str
    processors: str
    pmu: str
    counters: Mapping[str, int]
    kinds: tuple[tuple[str, str], ...]
    lines: Mapping[str, Line]
    format: Mapping[str, Bits]


@cache
def all_cores() -> tuple[Core, ...]:
    """Return the sections of all tables."""
    from importlib.resources import files  # noqa: PLC0415 - kept off `import tprof`

    tables = sorted((files(__package__) / FOLDER).iterdir(), key=lambda file: file.name)
    return tuple(core for file in tables for core in read_table(file.name, file.read_text("utf-8")))


def identify(fields: Mapping[str, str]) -> str | None:
    """Return what names the kind of a processor, from the fields of its paragraph in /proc/cpuinfo.

    "GenuineIntel-6-55-4" (maker, family, model and stepping in the notation of perf's tables) or "0x41-0xd0c" (maker
    and part of an Arm core); None if the fields lack it.
    """
    try:
        if "CPU part" in fields:
            return arm_name(int(fields["CPU implementer"], 16), int(fields["CPU part"], 16))
        family, model, stepping = (int(fields[key]) for key in ("cpu family", "model", "stepping"))
        return f"{fields['vendor_id']}-{family}-{model:X}-{stepping:X}"
    except (KeyError, ValueError):
        return None


def arm_name(maker: int, part: int) -> str:
    """Return the name of an Arm core as `identify` does."""
    return f"0x{maker:02x}-0x{part:03x}"


def find_core(processor: str, pmu: str) -> Core | None:
    """Return the kind of core of a processor, as `identify` names it, by its PMU's name; None if none is listed."""
    for core in all_cores():
        if matches(core.processors, processor) and re.fullmatch(core.pmu, pmu):
            return core
    return None


def kind_of(processor: str) -> str | None:
    """Return the row of the table of assumed watts for a processor; None if no table says it."""
    kinds = (kind for core in all_cores() for kind, pattern in core.kinds if matches(pattern, processor))
    return next(kinds, None)


def matches(pattern: str, processor: str) -> bool:
    """Return whether a pattern is that of the processor, or of all its steppings. Its maker stands there as it is."""
    if not pattern.startswith(processor.partition("-")[0]):
        return False  # sparing the time to compile it
    without_stepping = "-".join(processor.split("-")[:3])
    return any(re.fullmatch(pattern, name) for name in (processor, without_stepping))


def encode(terms: Sequence[tuple[str, int]], layout: Mapping[str, Bits]) -> int:
    """Return perf's config of an event. Raises ValueError if the format has no such term, or too few bits for it."""
    config = 0
    for name, value in terms:
        if name not in layout:
            raise ValueError(f"the PMU's format has no {name}")
        for low, high in layout[name]:
            width = high - low + 1
            config |= (value & ((1 << width) - 1)) << low
            value >>= width  # noqa: PLW2901 - the next bits take what is left
        if value:
            raise ValueError(f"the PMU's format has too few bits for {name}")
    return config


def parse_format(text: str) -> Bits:
    """Return the bits of a term from the kernel's notation: "config:0-7,32-35". Raises ValueError for another word."""
    word, _, ranges = text.strip().partition(":")
    if word != "config":
        raise ValueError(f"the term is in {word}, which is not read here")
    bits: list[tuple[int, int]] = []
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        bits.append((int(low), int(high or low)))
    if not all(0 <= low <= high < CONFIG_BITS for low, high in bits):
        raise ValueError(f"{text!r} are no bits of a config")
    return tuple(bits)


def read_table(name: str, text: str) -> list[Core]:
    """Return the sections of a table. Raises ValueError with the number of the line that is wrong."""
    layout: dict[str, Bits] = {}
    sections: list[tuple[str, list[tuple[int, list[str]]]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if line.startswith("["):
            sections.append((line.strip()[1:-1], []))
        elif words[0] == "format":
            layout |= {term: parse_format(bits) for term, _, bits in (word.partition("=") for word in words[1:-1])}
        elif sections:
            sections[-1][1].append((number, words))
        else:
            raise ValueError(f"{name}, line {number}: it stands before the first section")
    return [_core(name, section, lines, layout) for section, lines in sections]


def _core(table: str, section: str, lines: Sequence[tuple[int, list[str]]], layout: Mapping[str, Bits]) -> Core:
    found = _Section()
    for number, words in lines:
        try:
            found.add(words)
        except ValueError as error:
            raise ValueError(f"{table}, line {number}: {error}") from error
    if {"processors", "pmu"} - found.patterns.keys():
        raise ValueError(f"{table}: [{section}] lacks processors or pmu")
    return Core(
        section,
        table,
        found.patterns["processors"],
        found.patterns["pmu"],
        found.counters,
        tuple(found.kinds),
        found.lines,
        dict(layout),
    )


class _Section:
    """What the lines of a section have said so far."""

    def __init__(self) -> None:
        self.patterns: dict[str, str] = {}
        self.counters: dict[str, int] = {}
        self.kinds: list[tuple[str, str]] = []
        self.lines: dict[str, Line] = {}

    def add(self, words: list[str]) -> None:
        match words:
            case ["processors", pattern, _] | ["pmu", pattern]:
                self.patterns[words[0]] = pattern
            case ["counters", *figures, _]:
                self.counters = {key: int(value) for key, _, value in (figure.partition("=") for figure in figures)}
            case ["kind", kind, pattern, _]:
                self.kinds.append((kind, pattern))
            case [column, terms, generic, event, source] if column not in self.lines:
                self.lines[column] = Line(_terms(terms), None if generic == NO_GENERIC else generic, event, source)
            case _:
                raise ValueError("it is none of the lines that a section has, or a column's second one")


def _terms(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((name, int(value, 0)) for name, _, value in (term.partition("=") for term in text.split(",")))
