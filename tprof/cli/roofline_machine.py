"""The machine of a roofline: measured here, known by name, or kept in a file."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tprof.analysis.laws.roofline import Machine
    from tprof.analysis.laws.roofline_fit import Fitted
    from tprof.analysis.laws.roofline_tasks import TaskPoint
    from tprof.benchmarks.roofline import Measured


BUSY = 0.25
"""Load a processor from which on others disturb."""


@dataclass
class Result:
    """What there is to show.

    Attributes
    ----------
    machine : whose lines.
    where : what it is, in a sentence.
    fitted, measured : how it was found; None for a known machine.
    tasks, precision : the session's points, and of which precision their flops are.
    notes : what a reader must know.
    """

    machine: Machine
    where: str
    fitted: Fitted | None
    measured: Measured | None
    notes: list[str]
    tasks: list[TaskPoint]
    precision: str = "double"


def known(name: str) -> Result:
    """Return a machine by its name or file. Raises UsageError."""
    from tprof.analysis.laws.roofline_machines import MACHINES, find_machine, read_machine

    if name.endswith((".json", ".toml")):
        return Result(machine := read_machine(Path(name)), f"{machine.name}, from {name}.", None, None, [], [])
    machine = find_machine(name, tuple(sorted(_folder().glob("*.json"))))
    where = f"{name} of the paper's tables." if name in MACHINES else f"{name}, as it was saved."
    return Result(machine, where, None, None, [], [])


def measure_here(*, quick: bool, processor: str | None) -> Result:
    """Measure and fit this machine.

    Parameters
    ----------
    quick
        Only to see that it works.
    processor
        On which the session was recorded that is placed under the roof; None: none is.

    Raises
    ------
    UsageError
        If that is another one.
    """
    from tprof.analysis.laws.roofline_fit import fit_machine
    from tprof.benchmarks.machine import describe_machine, machine_sentence
    from tprof.benchmarks.roofline import FULL, QUICK, measure

    here = describe_machine()
    if processor is not None and processor != here["processor"]:
        message = (
            f"the session was recorded on {processor}, and this is {here['processor']}: name its machine with --machine"
        )
        raise UsageError(message)
    with _progress() as tell:
        measured = measure(QUICK if quick else FULL, progress=tell)
    fitted = fit_machine(measured.runs, str(here["processor"] or "this machine"))
    notes = [*([measured.no_energy] if measured.no_energy else []), *fitted.warnings]
    if here["load_1_min"] > BUSY * here["usable_cpus"]:
        notes.append(f"the machine was busy before (load {here['load_1_min']:.1f}): others slowed some runs")
    if quick:
        notes.append("a quick look: the runs were too short for figures to quote")
    return Result(fitted.machine, f"Measured: {machine_sentence(here)}.", fitted, measured, notes, [])


def _folder() -> Path:
    from tprof.power_model import model_path

    return model_path().parent / "machines"


def saved_path(save: str) -> Path:
    """Return where a machine is kept: a file, or a name in the user's configuration. Raises UsageError."""
    if save.endswith(".json"):
        return Path(save)
    from tprof.analysis.laws.roofline_machines import MACHINES

    if save in MACHINES or not save.replace("-", "").replace("_", "").isalnum():
        message = (
            "--save takes a file that ends in .json, or a name of letters, digits, - and _ other than "
            f'{", ".join(MACHINES)}; got "{save}"'
        )
        raise UsageError(message)
    return _folder() / f"{save}.json"


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        bar = progress.add_task("measuring", total=None)
        yield lambda name, done, of: progress.update(bar, description=name, completed=done, total=of)
