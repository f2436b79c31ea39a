"""Records a calibration once this machine is known to have a sensor that measures and the counters of equation 1."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tprof.benchmarks.kernels import read_caches

import tprof
from tprof import counters as counter_events
from tprof import sensors
from tprof.errors import SensorError
from tprof.sensors.topology import read_topology

from .phases import Part, check_set, chosen, one_a_core, plan_phases, run_together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Progress = Callable[[str, int, int], None]

PAUSE_S = 0.1
WHAT = "a calibration"
ASK = 'see "tprof doctor" for what would grant it'
COUNTERS = (("llc_refs", "l2_refs"), ("llc_refs",))


def record(
    directory: Path,
    *,
    seconds_each: float = 0.5,
    cores: int | None = None,
    progress: Progress | None = None,
    energy: str = "auto",
    counters: Sequence[str] | str | None = None,
    kernels: str = "stress",
) -> Path:
    """Run the kernels under a recording.

    Parameters
    ----------
    directory, seconds_each, progress, energy, counters
        As of `record_parts`, for the session `calibration.tprof`.
    cores
        At most so many; default: all of the first package.
    kernels
        ``"stress"``, ``"polybench"`` or ``"all"``.

    Returns
    -------
    Path
        The session's.

    Raises
    ------
    UsageError
        If there are no such kernels.
    SensorError
        If no sensor measures energy here, or the processor's counters cannot be read, or there is one core only: C1
        and C2 cannot be distinguished then. Nothing has run in that case.
    """
    check_set(kernels)

    def plan(root: Path, cpus: tuple[int, ...]) -> list[list[Part]]:
        cpus = cpus[:cores]
        if len(cpus) < 2:
            raise SensorError(
                f"{WHAT} needs two cores or more, or the power of a core and of the package cannot be separated: got 1"
            )
        phases = plan_phases(chosen(kernels, read_caches(root), len(cpus)), cpus)
        return [[Part(phase.name, phase.kernel, cpu) for cpu in phase.cpus] for phase in phases]

    path = directory / "calibration.tprof"
    return record_parts(
        path, plan, WHAT, seconds_each=seconds_each, progress=progress, energy=energy, counters=counters
    )


def record_parts(
    path: Path,
    plan: Callable[[Path, tuple[int, ...]], Sequence[Sequence[Part]]],
    what: str,
    *,
    seconds_each: float,
    progress: Progress | None,
    energy: str,
    counters: Sequence[str] | str | None,
) -> Path:
    """Run kernels side by side under a recording, one set after the other.

    Parameters
    ----------
    path
        The session to make.
    plan
        Returns the sets, given the root of the machine's files and a processor of each core of the first package.
    what
        What needs the sensor and the counters, for errors.
    seconds_each
        Of each set.
    progress
        Called with what runs, how many sets are done, and how many there are.
    energy, counters
        As for `tprof.record`; by default what equation 1 needs.

    Returns
    -------
    Path
        The session's.

    Raises
    ------
    SensorError
        If no sensor measures energy here, or the processor's counters cannot be read. Nothing has run in that case.
    """
    root = sensors.sysroot()
    check_energy(energy, root, what=what)
    named = counters_here(root, what=what) if counters is None else counters
    sets = plan(root, one_a_core(read_topology(root)))
    path.parent.mkdir(parents=True, exist_ok=True)
    with tprof.record(path, energy=energy, counters=named, idle_s=0.5, overwrite=True):
        for done, parts in enumerate(sets):
            if progress is not None:
                progress(parts[0].task, done, len(sets))
            run_together(parts, seconds_each)
            time.sleep(PAUSE_S)
    return path


def check_energy(energy: str, root: Path, *, what: str) -> None:
    """Refuse an estimate, or none. Raises SensorError, which says that `what` needs a sensor."""
    choice = sensors.choose(energy, root=root)
    packages = [domain for domain in choice.domains if domain.counted and domain.scope == "package"]
    if choice.estimate is not None or not packages:
        why = "this machine gives an estimate only" if choice.estimate is not None else "none was found"
        raise SensorError(f"{what} needs a sensor that measures the package's energy, and {why}: {ASK}")


def counters_here(root: Path, *, what: str) -> tuple[str, ...]:
    """Return the counters of equation 1 that count here; that of the L2 is known for Intel's processors only.

    Raises SensorError, which says that `what` needs them.
    """
    problem = ""
    for names in COUNTERS:
        try:
            counter_events.choose(names, root=root)
        except SensorError as error:
            problem = str(error).partition("; ")[0]
        else:
            return names
    raise SensorError(f"{what} needs the processor's counters ({problem}): {ASK}")
