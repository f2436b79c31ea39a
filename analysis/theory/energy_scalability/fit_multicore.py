"""A machine's constants from measured runs of an algorithm at several frequencies and numbers of cores.

Time is linear in β, the access time and the message time, energy in E_d, E_m, E_l and E_t, so that two fits by least
squares of relative errors find them, none below 0. A synchronisation is taken to last as long as an access. What a
sweep does not vary cannot be separated: accesses and leakage, say, at one frequency; then the fit refuses.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tprof.errors import UsageError

from .multicore import Multicore

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .parallel_algorithms import Algorithm, Floats, Work

COLUMNS = ("frequency_hz", "cores", "time_s", "energy_j")
_CONDITION = 1e8


@dataclass(frozen=True)
class Sweep:
    """A machine fitted to a sweep.

    Attributes
    ----------
    machine : with the constants that were found.
    time_error, energy_error : root mean square of the relative errors, parts of 1.
    rows : measured runs.
    """

    machine: Multicore
    time_error: float
    energy_error: float
    rows: int


def fit_sweep(
    algorithm: Algorithm, n: float, frequency_hz: ArrayLike, cores: ArrayLike, time_s: ArrayLike, energy_j: ArrayLike,
    *, block_words: float = 1.0, cache_words: float = 32768.0,
) -> Sweep:  # fmt: skip
    """Fit the constants.

    Parameters
    ----------
    algorithm, n
        What was run; its cycles must be proportional to `operation_cycles`.
    frequency_hz, cores, time_s, energy_j
        A row a run, (k,).
    block_words, cache_words
        Of the machine, which are not fitted.

    Raises
    ------
    UsageError
        If columns differ in length, hold what is not above 0, do not determine the constants, or if no run's time
        is that of computing.
    """
    hz, count, took, joules = _columns((frequency_hz, cores, time_s, energy_j))
    unit = Multicore(max_hz=float(hz.max()), operation_cycles=1, access_cycles=0, dynamic_j=0, leakage_j=0,
                     access_j=0, block_words=block_words, cache_words=cache_words)  # fmt: skip
    path, total = (_counts(work(np.full_like(hz, n), count, unit), hz) for work in (algorithm.path, algorithm.total))
    times = {"operation_cycles": path[0] / hz, "access_s": path[1] + path[2], "message_s": path[3]}
    seconds, time_error = _fit("time", times, took)
    beta, access_s, message_s = (seconds[name] for name in times)
    if not beta:
        raise UsageError(
            "these runs are not faster at higher frequencies or on more cores: there is no computing to fit"
        )
    cycles, accesses, syncs, messages = total
    active_s = beta * cycles / hz + access_s * (accesses + syncs) + message_s * messages
    energies = {
        "dynamic_j": beta * cycles * hz**2,
        "leakage_j": active_s * hz,
        "access_j": accesses,
        "message_j": messages,
    }
    found, energy_error = _fit("energy", energies, joules)
    machine = dataclasses.replace(
        unit, operation_cycles=beta, access_cycles=access_s * unit.max_hz, message_cycles=message_s * unit.max_hz,
        **found,
    )  # fmt: skip
    return Sweep(machine, time_error, energy_error, len(hz))


def _fit(what: str, columns: dict[str, Floats], measured: Floats) -> tuple[dict[str, float], float]:
    """Return each column's factor, 0 for a column of zeros, and the root mean square of relative errors."""
    from scipy.optimize import nnls  # noqa: PLC0415 - a quarter of a second that the models do without

    used = {name: column / measured for name, column in columns.items() if np.any(column)}
    matrix = np.column_stack(list(used.values()))
    scale = np.linalg.norm(matrix, axis=0)
    if len(measured) < len(used) or np.linalg.cond(matrix / scale) > _CONDITION:
        raise UsageError(
            f"these runs do not separate what their {what} is made of ({', '.join(used)}): "
            "measure more frequencies and more numbers of cores"
        )
    factors, residual = nnls(matrix / scale, np.ones(len(measured)))
    found = dict.fromkeys(columns, 0.0) | dict(zip(used, (factors / scale).tolist(), strict=True))
    return found, float(residual) / len(measured) ** 0.5


def _columns(columns: tuple[ArrayLike, ...]) -> list[Floats]:
    arrays = [np.asarray(column, float) for column in columns]
    if len({array.shape for array in arrays}) != 1 or arrays[0].ndim != 1 or not arrays[0].size:
        raise UsageError(f"a sweep needs as many values, at least one, of each of {', '.join(COLUMNS)}")
    for name, array in zip(COLUMNS, arrays, strict=True):
        wrong = ~(np.isfinite(array) & (array > 0))
        if np.any(wrong):
            raise UsageError(
                f"{name} of a sweep must be above 0, got {array[wrong][0]:g} in row {int(np.argmax(wrong)) + 1}"
            )
    return arrays


def _counts(work: Work, like: Floats) -> list[Floats]:
    return [np.broadcast_to(np.asarray(part, float), like.shape) for part in work]
