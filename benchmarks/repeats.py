"""Programs recorded several times, each run a session of its own: where the sessions go, and what the runs gave."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tprof
from tprof.errors import UsageError

from .machine_description import usable_cpus
from .measured_figures import Figure
from .programs.catalogue import PROGRAMS
from .programs.outcome import check_size, check_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tprof.analysis import Profile

    from .programs.outcome import Outcome


@dataclass(frozen=True)
class Order:
    """How programs are to be run.

    Attributes
    ----------
    folder : where sessions go; made when it is not there.
    workers : threads; None for as many as there are processors for this process.
    repeats : runs of each program.
    overwrite : replace sessions that stand there.
    recording : further arguments of `tprof.record`.
    """

    folder: Path
    size: str = "small"
    workers: int | None = None
    repeats: int = 1
    overwrite: bool = False
    recording: Mapping[str, Any] = field(default_factory=dict)

    def sessions(self, name: str) -> tuple[Path, ...]:
        """Return where the runs of a program go: NAME.tprof, or NAME-1.tprof and so on for several."""
        if self.repeats == 1:
            return (self.folder / f"{name}.tprof",)
        return tuple(self.folder / f"{name}-{number}.tprof" for number in range(1, self.repeats + 1))

    def report(self, name: str) -> Path:
        """Return where a program's report goes."""
        return self.folder / f"{name}.html"

    def check(self, paths: Iterable[Path]) -> None:
        """Refuse what cannot be done before anything runs, and make the folder.

        Raises
        ------
        UsageError
            If size, workers or repeats are out of range, the folder cannot be one, or one of `paths`, which the runs
            will write, is taken and not to be overwritten.
        """
        check_size(self.size)
        check_workers(usable_cpus() if self.workers is None else self.workers)
        if self.repeats < 1:
            raise UsageError(f"a program must run at least once, got --repeat {self.repeats}")
        taken = next((path for path in paths if os.path.lexists(path)), None)
        if taken is not None and not self.overwrite:
            raise UsageError(
                f"{taken} exists: choose another folder with -o DIR, or replace what is there with --overwrite"
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot write to {self.folder}: {error.strerror}; choose another folder with -o DIR"
            ) from error


@dataclass(frozen=True)
class Runs:
    """The runs of one program, in their order."""

    program: str
    outcomes: tuple[Outcome, ...]
    profiles: tuple[Profile, ...]

    @property
    def middle(self) -> int:
        """Index of the run with the median time, the shorter of two: the one that is shown where one is."""
        by_time = sorted(range(len(self.outcomes)), key=lambda index: self.outcomes[index].duration_s)
        return by_time[(len(by_time) - 1) // 2]

    @property
    def outcome(self) -> Outcome:
        """Of the run with the median time."""
        return self.outcomes[self.middle]

    @property
    def profile(self) -> Profile:
        """Of the run with the median time."""
        return self.profiles[self.middle]

    @property
    def quality(self) -> str:
        """How the joules were got."""
        return str(self.profile.info["quality"])

    def times(self) -> Figure:
        """Return the seconds of the parallel part, a value a run."""
        return Figure("time of the parallel part", tuple(outcome.duration_s for outcome in self.outcomes), "s")

    def energies(self) -> Figure:
        """Return the joules of all counted domains, a value a run; runs without an energy are left out."""
        joules = (profile.measured_j for profile in self.profiles)
        known = tuple(value for value in joules if not math.isnan(value))
        return Figure(f"energy ({self.quality})", known, "J")

    def as_plain(self) -> list[dict[str, Any]]:
        """Return session, time and energy of each run."""
        return [
            {"session": str(profile.trace.path), "duration_s": outcome.duration_s, "energy_j": profile.measured_j}
            for outcome, profile in zip(self.outcomes, self.profiles, strict=True)
        ]


def run(name: str, order: Order, report: Callable[[str, int], None] | None = None) -> Runs:
    """Record a program as often as ordered.

    Parameters
    ----------
    name
        Of a program in the catalogue.
    order
        How; it was checked.
    report
        Called before each run with the name and the run's number, from 1.
    """
    outcomes, profiles = [], []
    for number, session in enumerate(order.sessions(name), 1):
        if report is not None:
            report(name, number)
        recording = tprof.record(session, overwrite=order.overwrite, **order.recording)
        outcomes.append(PROGRAMS[name].run(order.size, order.workers, during=recording))
        profiles.append(recording.profile())
    return Runs(name, tuple(outcomes), tuple(profiles))
