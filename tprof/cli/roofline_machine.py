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

    from tprof.analysis.theory.roofline import Machine
    from tprof.analysis.theory.roofline_fit import Fitted
    from tprof.analysis.theory.roofline_tasks import TaskPoint
    from tprof.benchmarks.roofline import Measured


BUSY = 0.25
"""Load a processor from which on others disturb."""
BEYOND = 1.05
"""Best run over fitted roof from which on the difference is explained."""


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
    first : what a reader must know before all else; None: nothing.
    processor : on which it was measured; None where not known.
    """

    machine: Machine
    where: str
    fitted: Fitted | None
    measured: Measured | None
    notes: list[str]
    tasks: list[TaskPoint]
    precision: str = "double"
    first: str | None = None
    processor: str | None = None

    @property
    def all_notes(self) -> list[str]:
        """The first one, if there is one, and the others."""
        return [*([self.first] if self.first else []), *self.notes]


def known(name: str, processor: str | None) -> Result:
    """Return a machine by its name or file, with a note if the session's processor is another. Raises UsageError."""
    from tprof.analysis.theory.roofline_machines import MACHINES, PROCESSORS, find_machine, processor_of, read_machine

    if name.endswith((".json", ".toml")):
        machine, its = read_machine(Path(name)), processor_of(Path(name))
        where = f"{machine.name}, from {name}."
    elif name in MACHINES:
        machine, its = MACHINES[name], PROCESSORS[name]
        where = f"{name} of the paper's tables."
    else:
        machine = find_machine(name, tuple(sorted(_folder().glob("*.json"))))
        its = processor_of(_folder() / f"{name}.json")
        where = f"{name}, as it was saved."
    return Result(machine, where, None, None, _another(processor, its), [], processor=its)


def _another(recorded: str | None, its: str | None) -> list[str]:
    if recorded is None or its is None or recorded.split() == its.split():
        return []
    return [f"the session was recorded on {recorded}: its tasks stand under another machine's roof, that of {its}"]


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
    from tprof.analysis.theory.roofline_fit import fit_machine
    from tprof.benchmarks.machine_description import describe_machine, machine_sentence
    from tprof.benchmarks.roofline import FULL, QUICK, measure

    here = describe_machine()
    if processor is not None and processor != here["processor"]:
        message = (
            f"the session was recorded on {processor}, and this is {here['processor']}: name its machine with --machine"
        )
        raise UsageError(message)
    with _progress() as report:
        measured = measure(QUICK if quick else FULL, progress=report)
    fitted = fit_machine(measured.runs, str(here["processor"] or "this machine"))
    notes = [*([measured.no_energy] if measured.no_energy else []), *fitted.warnings]
    if here["load_1_min"] > BUSY * here["usable_cpus"]:
        notes.append(f"the machine was busy before (load {here['load_1_min']:.1f}): others slowed some runs")
    notes += _below(fitted.machine, measured)
    first = "a quick look: the runs were too short for figures to quote" if quick else None
    where = f"Measured: {machine_sentence(here)}."
    return Result(fitted.machine, where, fitted, measured, notes, [], first=first, processor=here["processor"])


def _below(machine: Machine, measured: Measured) -> list[str]:
    """Explain a roof that lies below what was reached."""
    from .roofline import rate

    views = [machine.at(one) for one in machine.precisions]
    pairs = [("memory", "B/s", measured.bytes_per_s, 1 / machine.tau_mem_s)]
    pairs += [
        (f"{one.precision} flops", "flop/s", measured.flops_per_s(one.precision), 1 / one.tau_flop_s) for one in views
    ]
    below = [
        f"{rate(best, unit)} ({what}; fitted {rate(fitted, unit)})"
        for what, unit, best, fitted in pairs
        if best > BEYOND * fitted
    ]
    if not below:
        return []
    why = "the fit is through all runs, also those that others slowed, so the roof lies below what was reached"
    return [f"{why}: the best runs reached {', '.join(below)}"]


def _folder() -> Path:
    from tprof.trace.power_model import model_path

    return model_path().parent / "machines"


def saved_path(save: str) -> Path:
    """Return where a machine is kept: a file, or a name in the user's configuration. Raises UsageError."""
    if save.endswith(".json"):
        return Path(save)
    from tprof.analysis.theory.roofline_machines import MACHINES

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
