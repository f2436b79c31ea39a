"""`tprof scaling`: what an algorithm must cost on a machine, and how many processors or cores it should take."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.errors import UsageError

from .options import AsJson
from .render import dump, show_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tprof.analysis.text_table import Table
    from tprof.analysis.theory.model_page import Figure


_HELP = """Calculate time and energy of a parallel algorithm from a machine's constants.

Nothing is measured. Sizes and processors are one number, several with commas, or a range such as 1:4096 (doublings).

Examples:

  tprof scaling --list

  tprof scaling matmul

  tprof scaling matmul -n 35000 --minimise energy --max-time 0.1 --machine my-machine.toml

  tprof scaling addition -n 1e7:1e9 --plot addition.html
"""
MINIMISED = ("energy", "time", "edp")
OPTIONS = {"time_s": "--max-time", "energy_j": "--max-energy", "power_w": "--max-power",
           "processor_power_w": "--max-processor-power"}  # fmt: skip
MOST_VALUES = 64
WHOLE = 1e7
ROUNDING = 1e-7  # percent: what rounding makes of equal energies


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("scaling", help=_HELP)(scaling)


def scaling(  # noqa: PLR0913 - one parameter an option
    algorithm: Annotated[str | None, typer.Argument(help="As --list names it.", show_default=False)] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the algorithms and machines.")] = False,
    machine: Annotated[str | None, typer.Option(metavar="NAME|FILE", help="A name, or a file of TOML or JSON.")] = None,
    size: Annotated[str | None, typer.Option("-n", help="Size of the problem.", metavar="N|LO:HI")] = None,
    count: Annotated[str | None, typer.Option("-p", help="Processors, nodes or cores.", metavar="P|LO:HI")] = None,
    memory: Annotated[
        float | None, typer.Option(metavar="WORDS", help="Words in use a processor; default: those of least energy.")
    ] = None,
    pair: Annotated[
        float | None, typer.Option("--flops-per-pair", metavar="FLOPS", help="n-body: flops a pair; default 20.")
    ] = None,
    minimise: Annotated[str | None, typer.Option(help="energy, time or edp: print the best execution only.")] = None,
    max_time: Annotated[float | None, typer.Option(metavar="SECONDS", help="The longest time.")] = None,
    max_energy: Annotated[float | None, typer.Option(metavar="JOULES", help="The most energy.")] = None,
    max_power: Annotated[float | None, typer.Option(metavar="WATTS", help="The most power of all processors.")] = None,
    max_processor_power: Annotated[
        float | None, typer.Option(metavar="WATTS", help="The most power of one processor.")
    ] = None,
    target: Annotated[float | None, typer.Option(metavar="GFLOPS/W", help="How good must the machine become?")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it as a page of HTML.", metavar="FILE.html")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what is asked for."""
    from .scaling_answers import FAMILIES

    if listing:
        _show_list(as_json=as_json)
        return
    asked = Asked(
        machine=machine, n=values("-n", size), p=values("-p", count), memory=memory, pair=pair, minimise=minimise,
        limits={"time_s": max_time, "energy_j": max_energy, "power_w": max_power,
                "processor_power_w": max_processor_power},
        target=target,
    )  # fmt: skip
    for names, answer in FAMILIES:
        if algorithm is not None and algorithm in names:
            _show(answer, algorithm, asked, plot, as_json=as_json)
            return
    known = ", ".join(name for names, _ in FAMILIES for name in names)
    wrong = "name an algorithm" if algorithm is None else f"there is no algorithm {algorithm!r}"
    raise UsageError(f"{wrong}: take {known}, or see --list")


def _show(answer: Callable[..., Answer], algorithm: str, asked: Asked, plot: Path | None, *, as_json: bool) -> None:
    import numpy as np

    try:
        with np.errstate(over="raise", divide="ignore", under="ignore"):
            found = answer(algorithm, asked)
            if plot is not None:
                found.write(plot)
    except ArithmeticError as error:
        raise UsageError("these sizes and constants give numbers that are too large: take smaller ones") from error
    if as_json:
        dump(found.plain)
    else:
        found.show()


def _show_list(*, as_json: bool) -> None:
    """Print which algorithms and machines there are."""
    found = _listed()
    if as_json:
        dump(found)
        return
    for heading, rows in found.items():
        print(f"{heading}:")
        for name, what in rows.items():
            print(f"  {name}: {what}")


def _listed() -> dict[str, dict[str, Any]]:
    from tprof.analysis.theory import energy_scalability as cores
    from tprof.analysis.theory import strong_scaling as scaling

    kinds: dict[str, Mapping[str, Any]] = {
        "algorithms on processors that send messages": scaling.ALGORITHMS,
        "algorithms on nodes and their cores (--machine FILE with tables node and core)": scaling.TWO_LEVEL_ALGORITHMS,
        "algorithms on cores of one frequency": cores.ALGORITHMS,
    }
    listed = {heading: {one.name: one.title for one in kind.values()} for heading, kind in kinds.items()}
    listed["machines of processors that send messages"] = {
        machine.name: machine.source for machine in scaling.machines().values()
    }
    listed["machines of cores of one frequency"] = {
        cores.PAPER: "the paper's ratios: k = 1000, β = 2, Mc = 1000, B = 1"
    }
    return listed


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
            raise UsageError(f"--minimise must be one of {', '.join(MINIMISED)}, got {self.minimise!r}")
        numbers = {OPTIONS[name]: value for name, value in self.limits.items()}
        numbers |= {"--memory": self.memory, "--flops-per-pair": self.pair, "--target": self.target}
        for option, value in numbers.items():
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"{option} must be above 0 and finite, got {value:g}")

    def refuse(self, algorithm: str, **options: object) -> None:
        """Refuse options that an algorithm does not use: ``refuse("addition", memory=asked.memory)``."""
        for name, value in options.items():
            if value is not None:
                raise UsageError(f"--{name.replace('_', '-')} is not for {algorithm}: leave it out")


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
    tables: Sequence[Table]
    notes: Sequence[str]
    figures: Callable[[], Sequence[Figure]]

    def write(self, path: Path) -> None:
        """Write the page. Raises TprofError where it cannot be written."""
        from tprof.analysis.theory.model_page import Page, write

        write(Page(self.title, self.sentences, self.figures(), self.tables, self.notes), path)

    def show(self) -> None:
        """Print it."""
        print(self.title)
        for sentence in self.sentences:
            print(sentence)
        show_tables(self.tables, sys.stdout)
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
        raise UsageError(
            f"{option} takes a number of 1 or more, several with commas, or a range such as 1:4096, got {text!r}"
        )
    if len(parts) == 2:
        numbers = _doublings(option, text, *numbers)
    if len(numbers) > MOST_VALUES:
        raise UsageError(f"{option} {text} is {len(numbers)} values: take at most {MOST_VALUES}")
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
        raise UsageError(f"{option} takes a range from low to high, got {text!r}")
    steps = math.ceil(math.log2(high / low) - 1e-9)
    return [*(low * 2.0**step for step in range(steps)), high]
