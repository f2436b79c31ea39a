"""Time and energy of an algorithm on p cores at frequency X, whole arrays at once; and the X that keeps a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tprof.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .algorithms import Algorithm, Floats, Work
    from .machine import Multicore


@dataclass(frozen=True)
class Run:
    """Executions; arrays of one broadcast shape, NaN if none satisfies the request.

    Attributes
    ----------
    n, cores : size and number of cores.
    frequency_hz : of all cores, X.
    time_s : along the critical path.
    compute_j, memory_j, message_j, leakage_j : what the energy is made of.
    """

    n: Floats
    cores: Floats
    frequency_hz: Floats
    time_s: Floats
    compute_j: Floats
    memory_j: Floats
    message_j: Floats
    leakage_j: Floats

    @property
    def energy_j(self) -> Floats:
        """All parts together."""
        return self.compute_j + self.memory_j + self.message_j + self.leakage_j

    @property
    def power_w(self) -> Floats:
        """Mean power."""
        return self.energy_j / self.time_s


def evaluate(algorithm: Algorithm, machine: Multicore, n: ArrayLike, cores: ArrayLike, frequency_hz: ArrayLike) -> Run:
    """Evaluate the model; arrays broadcast.

    Raises
    ------
    UsageError
        If a size or number of cores is below 1, or a frequency not above 0. NaN is let through: an execution that
        does not exist.
    """
    size, count, hz = checked(n, cores, frequency_hz)
    path, total = algorithm.path(size, count, machine), algorithm.total(size, count, machine)
    time_s = path.cycles / hz + fixed_s(path, machine)
    # Leakage is E_l times the active time times X, written so that computing's part does not depend on X at all.
    leakage_j = machine.leakage_j * (total.cycles + fixed_s(total, machine) * hz)
    exists = 0 * hz  # NaN where there is no frequency
    compute_j = machine.dynamic_j * total.cycles * hz**2
    memory_j = machine.access_j * total.accesses + exists
    message_j = machine.message_j * total.messages + exists
    return Run(*np.broadcast_arrays(size, count, hz, time_s, compute_j, memory_j, message_j, leakage_j))


def sequential_s(algorithm: Algorithm, machine: Multicore, n: ArrayLike) -> Floats:
    """Return the time of the best program on one core at the highest frequency."""
    size = np.asarray(n, float)
    work = algorithm.sequential(size, machine) if algorithm.sequential else algorithm.path(size, np.ones(()), machine)
    return np.asarray(work.cycles / machine.max_hz + fixed_s(work, machine))


def isoperformance(
    algorithm: Algorithm, machine: Multicore, n: ArrayLike, cores: ArrayLike, time_s: ArrayLike | None = None
) -> Run:
    """Slow all cores down until the critical path takes as long as it may.

    Parameters
    ----------
    time_s
        What it may take; without it what the sequential program takes at the highest frequency.

    Returns
    -------
    Run
        NaN where no frequency up to the highest is fast enough: accesses alone may take longer.
    """
    size, count, _ = checked(n, cores, machine.max_hz)
    allowed = sequential_s(algorithm, machine, size) if time_s is None else np.asarray(time_s, float)
    path = algorithm.path(size, count, machine)
    # In units of cycles at the highest frequency, as the paper writes X', so that equal times give exactly F.
    spare = allowed * machine.max_hz - fixed_s(path, machine) * machine.max_hz
    with np.errstate(divide="ignore", invalid="ignore"):
        hz = machine.max_hz * np.asarray(path.cycles) / spare
    rounding = machine.max_hz * (1 + 1e-12)
    feasible = (spare > 0) & (hz > 0) & (hz <= rounding)
    return evaluate(algorithm, machine, size, count, np.where(feasible, np.minimum(hz, machine.max_hz), np.nan))


def fixed_s(work: Work, machine: Multicore) -> Floats:
    """Return the seconds of work that no frequency changes."""
    return np.asarray(
        work.accesses * machine.access_s + work.syncs * machine.sync_s + work.messages * machine.message_s
    )


def checked(n: ArrayLike, cores: ArrayLike, frequency_hz: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return the arrays. Raises UsageError for values out of range."""
    size, count, hz = (np.asarray(value, float) for value in (n, cores, frequency_hz))
    for name, values, wrong, bound in (
        ("n", size, ~(size >= 1), "1 or more"),
        ("cores", count, ~(count >= 1), "1 or more"),
        ("frequency_hz", hz, hz <= 0, "above 0"),
    ):
        if np.any(wrong):
            message = f"{name} must be {bound}, got {np.extract(wrong, values)[0]:g}"
            raise UsageError(message)
    return size, count, hz
