"""The machine of a roofline: measured here, known by name, or kept in a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tprof.analysis.theory.roofline_fit import fit_machine
from tprof.analysis.theory.roofline_machines import MACHINES, PROCESSORS, find_machine, processor_of, read_machine
from tprof.benchmarks.machine_description import describe_machine, machine_sentence

from tprof.errors import UsageError
from tprof.trace.power_model import model_path

from .intensity_runs import measure
from .thread_team import FULL, QUICK

if TYPE_CHECKING:
    from tprof.analysis.theory.roofline import Machine
    from tprof.analysis.theory.roofline_fit import Fitted
    from tprof.analysis.theory.roofline_tasks import TaskPoint

    from .intensity_runs import Measured, Progress

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


def measure_here(*, quick: bool, processor: str | None, progress: Progress | None = None) -> Result:
    """Measure and fit this machine.

    Parameters
    ----------
    quick
        Only to see that it works.
    processor
        On which the session was recorded that is placed under the roof; None: none is.
    progress
        Called with what runs, how many runs are done, and how many there are.

    Raises
    ------
    UsageError
        If that is another one.
    """
    here = describe_machine()
    if processor is not None and processor != here["processor"]:
        raise UsageError(
            f"the session was recorded on {processor}, and this is {here['processor']}: name its machine with --machine"
        )
    measured = measure(QUICK if quick else FULL, progress=progress)
    fitted = fit_machine(measured.runs, str(here["processor"] or "this machine"))
    notes = [*([measured.no_energy] if measured.no_energy else []), *fitted.warnings]
    if here["load_1_min"] > BUSY * here["usable_cpus"]:
        notes.append(f"the machine was busy before (load {here['load_1_min']:.1f}): others slowed some runs")
    first = "a quick look: the runs were too short for figures to quote" if quick else None
    where = f"Measured: {machine_sentence(here)}."
    return Result(fitted.machine, where, fitted, measured, notes, [], first=first, processor=here["processor"])


def _folder() -> Path:
    return model_path().parent / "machines"


def saved_path(save: str) -> Path:
    """Return where a machine is kept: a file, or a name in the user's configuration. Raises UsageError."""
    if save.endswith(".json"):
        return Path(save)
    if save in MACHINES or not save.replace("-", "").replace("_", "").isalnum():
        raise UsageError(
            "--save takes a file that ends in .json, or a name of letters, digits, - and _ other than "
            f'{", ".join(MACHINES)}; got "{save}"'
        )
    return _folder() / f"{save}.json"
