"""Records a calibration, after it is sure that this machine can be calibrated."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tprof.benchmarks.kernels import read_caches

import tprof
from tprof import sensors
from tprof.errors import SensorError
from tprof.sensors.topology import read_topology

from .load import check_set, chosen
from .needs import check_energy, counters_here
from .phases import one_a_core, plan_phases
from .together import Part, run_together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Progress = Callable[[str, int, int], None]

PAUSE_S = 0.1
WHAT = "a calibration"


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
    directory
        Where the session `calibration.tprof` is made.
    seconds_each
        Of each kernel on each number of cores.
    cores
        At most so many; default: all of the first package.
    progress
        Told the name of a phase, how many are done, and how many there are.
    energy, counters
        As for `tprof.record`; by default what a calibration needs.
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
        and C2 cannot be told apart then. Nothing has run in that case.
    """
    check_set(kernels)
    root = sensors.sysroot()
    cpus = one_a_core(read_topology(root))[:cores]
    check_energy(energy, root, what=WHAT)
    named = counters_here(root, what=WHAT) if counters is None else counters
    if len(cpus) < 2:
        message = (
            f"{WHAT} needs two cores or more, or the power of a core and of the package cannot be told apart: got 1"
        )
        raise SensorError(message)
    phases = plan_phases(chosen(kernels, read_caches(root), len(cpus)), cpus)
    path = directory / "calibration.tprof"
    directory.mkdir(parents=True, exist_ok=True)
    with tprof.record(path, energy=energy, counters=named, idle_s=0.5, overwrite=True):
        for done, phase in enumerate(phases):
            if progress is not None:
                progress(phase.name, done, len(phases))
            run_together([Part(phase.name, phase.kernel, cpu) for cpu in phase.cpus], seconds_each)
            time.sleep(PAUSE_S)
    return path
