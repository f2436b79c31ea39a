"""A machine whose cores share a variable frequency, and time and energy of an algorithm on it.

The model is that of "Energy-performance trade-off analysis of parallel algorithms" (Korthikanti and Agha, 2010): a core
at frequency X draws dynamic power as X³ while it computes and leakage power as X while it is active, cores that have
nothing to do draw nothing, and memory and messages take as long at any frequency.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.theory.machine_files import check_range, find_machine, numbers_for

from tprof.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .parallel_algorithms import Algorithm, Floats, Work

PAPER = "normalised"
_ABOVE_ZERO = ("max_hz", "operation_cycles", "block_words", "cache_words")


@dataclass(frozen=True)
class Multicore:
    """Cores with caches of their own in front of one memory.

    Attributes
    ----------
    max_hz : F, the highest frequency.
    operation_cycles : β, cycles an operation of the algorithm takes.
    access_cycles : Mc, cycles at max_hz that moving one block between memory and cache takes at any frequency.
    sync_cycles : cycles at max_hz that a core waits for another at one synchronisation; None is as long as an access.
    message_cycles : cycles at max_hz that a message takes at any frequency.
    block_words : B, words moved by one access.
    cache_words : words of a core's cache.
    dynamic_j : E_d: a cycle at frequency X takes E_d·X², in J s².
    leakage_j : E_l: a core that is active for t seconds at frequency X loses E_l·t·X, in J.
    access_j : E_m, J per access.
    message_j : E_t, J per message.

    Raises
    ------
    UsageError
        If a constant is negative or not finite, or one that must be above 0 is not.
    """

    max_hz: float
    operation_cycles: float
    access_cycles: float
    dynamic_j: float
    leakage_j: float
    access_j: float
    sync_cycles: float | None = None
    message_cycles: float = 0.0
    message_j: float = 0.0
    block_words: float = 1.0
    cache_words: float = 32768.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if value is None:
                continue
            if not math.isfinite(value) or value < 0 or (value == 0 and name in _ABOVE_ZERO):
                bound = "above 0" if name in _ABOVE_ZERO else "0 or more"
                raise UsageError(f"{name} must be {bound} and finite, got {value!r}")
            check_range(name, value)

    @property
    def access_s(self) -> float:
        """Seconds an access takes."""
        return self.access_cycles / self.max_hz

    @property
    def sync_s(self) -> float:
        """Seconds a synchronisation takes."""
        return self.access_s if self.sync_cycles is None else self.sync_cycles / self.max_hz

    @property
    def message_s(self) -> float:
        """Seconds a message takes."""
        return self.message_cycles / self.max_hz


def normalised(
    access_ratio: float = 1000.0, cycle_ratio: float = 10.0, *, operation_cycles: float = 2.0,
    access_cycles: float = 1000.0, block_words: float = 1.0, message_ratio: float | None = None,
    message_cycles: float | None = None,
) -> Multicore:  # fmt: skip
    """Return the paper's machine, in units of its highest frequency and of its leakage: max_hz = 1, leakage_j = 1.

    Parameters
    ----------
    access_ratio
        k: energy of an access over that of a cycle at the highest frequency.
    cycle_ratio
        Energy of a cycle at the highest frequency over the leakage constant; the paper's 10.
    operation_cycles, access_cycles, block_words
        β = 2 and Mc = 1000 as in figures 2 and 3, which do not say B.
    message_ratio, message_cycles
        The like for messages; without them a message costs what an access does: the paper's example sends none.
    """
    return Multicore(
        max_hz=1.0, operation_cycles=operation_cycles, access_cycles=access_cycles, block_words=block_words,
        dynamic_j=cycle_ratio, leakage_j=1.0, access_j=access_ratio * cycle_ratio,
        message_cycles=access_cycles if message_cycles is None else message_cycles,
        message_j=(access_ratio if message_ratio is None else message_ratio) * cycle_ratio,
    )  # fmt: skip


def find_multicore(text: str) -> Multicore:
    """Return the paper's machine by its name, or the one in a file. Raises UsageError if there is neither."""
    return find_machine(
        "multicore machine", text, {PAPER: normalised()}, lambda _, values: Multicore(**numbers_for(Multicore, values))
    )


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
            raise UsageError(f"{name} must be {bound}, got {np.extract(wrong, values)[0]:g}")
    return size, count, hz
