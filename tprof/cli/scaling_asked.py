"""What `tprof scaling` is asked, and what an algorithm's family answers: rows, sentences and figures."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tprof.analysis.theory.model_page import Figure, Sheet

MINIMISED = ("energy", "time", "edp")
OPTIONS = {"time_s": "--max-time", "energy_j": "--max-energy", "power_w": "--max-power",
           "processor_power_w": "--max-processor-power"}  # fmt: skip
MOST_VALUES = 64
WHOLE = 1e7
ROUNDING = 1e-7  # percent: what rounding makes of equal energies


@dataclass(frozen=True)
class Asked:
    """The options, None where they were not given.

    Attributes
    ----------
    machine : a name or a file.
    n, p : sizes and processors, rising.
    memory : words in use a processor.
    pair : flops a pair of bodies.
    minimise : one of `MINIMISED`.
    limits : bounds by the names of `Limits`.
    target : 10⁹ flops per joule.

    Raises
    ------
    UsageError
        If one of them is out of range.
    """

    machine: str | None
    n: list[float] | None
    p: list[float] | None
    memory: float | None
    pair: float | None
    minimise: str | None
    limits: Mapping[str, float | None]
    target: float | None

    def __post_init__(self) -> None:
        if self.minimise is not None and self.minimise not in MINIMISED:
            message = f"--minimise must be one of {', '.join(MINIMISED)}, got {self.minimise!r}"
            raise UsageError(message)
        numbers = {OPTIONS[name]: value for name, value in self.limits.items()}
        numbers |= {"--memory": self.memory, "--flops-per-pair": self.pair, "--target": self.target}
        for option, value in numbers.items():
            if value is not None and not (math.isfinite(value) and value > 0):
                message = f"{option} must be above 0 and finite, got {value:g}"
                raise UsageError(message)

    def refuse(self, algorithm: str, **options: object) -> None:
        """Refuse options that an algorithm has no use for: ``refuse("addition", memory=asked.memory)``."""
        for name, value in options.items():
            if value is not None:
                message = f"--{name.replace('_', '-')} is not for {algorithm}: leave it out"
                raise UsageError(message)


@dataclass(frozen=True)
class Answer:
    """What there is to print, to draw and to write.

    Attributes
    ----------
    title : of the page.
    plain : for JSON.
    sentences, tables, notes : for people, in this order.
    figures : makes the page's figures.
    """

    title: str
    plain: Mapping[str, Any]
    sentences: Sequence[str]
    tables: Sequence[Sheet]
    notes: Sequence[str]
    figures: Callable[[], Sequence[Figure]]

    def write(self, path: Path) -> None:
        """Write the page. Raises TprofError where it cannot be written."""
        from tprof.analysis.theory.model_page import Page, write

        write(Page(self.title, self.sentences, self.figures(), self.tables, self.notes), path)

    def show(self) -> None:
        """Print it."""
        from .tables import show_tables

        print(self.title)
        for sentence in self.sentences:
            print(sentence)
        show_tables(cast("Any", self.tables), sys.stdout)
        for note in self.notes:
            print(note)


def values(option: str, text: str | None) -> list[float] | None:
    """Read one number, several with commas, or doublings between two ends; both ends of a range belong to it."""
    if text is None:
        return None
    parts = text.split(":")
    try:
        numbers = [float(part) for part in (parts if len(parts) == 2 else text.split(","))]
    except ValueError:
        numbers = []
    if not numbers or not all(1 <= number < math.inf for number in numbers):
        message = f"{option} takes a number of 1 or more, several with commas, or a range such as 1:4096, got {text!r}"
        raise UsageError(message)
    if len(parts) == 2:
        numbers = _doublings(option, text, *numbers)
    if len(numbers) > MOST_VALUES:
        message = f"{option} {text} is {len(numbers)} values: take at most {MOST_VALUES}"
        raise UsageError(message)
    return sorted(set(numbers))


def number(value: float) -> str:
    """Write a figure with four digits, a dash for none."""
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if value == round(value) and abs(value) < WHOLE else f"{value:.4g}"


def above(value: float, least: float) -> str:
    """Write by how much a figure is above the least one, in percent with two digits."""
    if math.isnan(value):
        return "–"
    part = 100 * (value / least - 1)
    return f"{max(part, 0.0):.2g} %" if part > ROUNDING else "least"


def _doublings(option: str, text: str, low: float, high: float) -> list[float]:
    if low > high:
        message = f"{option} takes a range from low to high, got {text!r}"
        raise UsageError(message)
    steps = math.ceil(math.log2(high / low) - 1e-9)
    return [*(low * 2.0**step for step in range(steps)), high]
