"""What a domain draws while nothing runs: its mean power before the recorded block, else before the first task.

That is its static power under every model, so energy above it means the same under each. The power inside the block is
found by `fitted` only, which knows how far edges between quanta may be off: between tasks that pause for a few
milliseconds, part of a task's joules shows in a quantum in which nothing runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.bounds import LEAST_BUSY_CORES
from tprof.trace.kinds import Quality

from .hidden import machine_busy_s
from .sharing import static_watts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tprof.trace import Trace

    from .quanta import Quanta

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
LEAST_IDLE_S = 0.1


class IdlePower(NamedTuple):
    """Mean watts, and their standard error."""

    watts: float
    error_w: float


def idle_powers(recorded: Iterable[Quanta], trace: Trace) -> dict[str, IdlePower]:
    """Return the idle power of measured domains by name, where it was idle long enough and the trace gives no other.

    Parameters
    ----------
    recorded : of each domain, from its first reading on
    trace : a whole recording, whose readings say when processes were busy
    """
    given_w, ends_ns = static_watts(trace.manifest), (trace.start_ns, _first_sample_ns(trace))

    def busy_s(edges_ns: Times) -> Floats:
        return machine_busy_s(trace.readings.values(), edges_ns)

    found = {}
    for one in recorded:
        if one.name not in given_w and one.quality != Quality.ESTIMATED:
            powers = (idle_power(one.edges_ns, one.energy_j, end_ns, busy_s, one.valid) for end_ns in ends_ns)
            found[one.name] = next(filter(None, powers), None)
    return {name: power for name, power in found.items() if power is not None}


def idle_power(
    edges_ns: Times,
    energy_j: Floats,
    end_ns: int,
    busy_s: Callable[[Times], Floats],
    valid: NDArray[np.bool_] | None = None,
) -> IdlePower | None:
    """Return the mean power of the quanta before a time in which no process was busy; None if they are too short.

    Parameters
    ----------
    edges_ns, energy_j : (k + 1,), (k,) of quanta, from a domain's first reading on
    end_ns : when the block begins
    busy_s : returns the CPU seconds of all processes between edges
    valid : (k,) which quanta count; None: all
    """
    # The first quantum has joules of before the first reading, and the last one may have some of what comes next.
    last = int(np.searchsorted(edges_ns, end_ns, side="right")) - 2
    if last < 3:
        return None
    which, edges_ns = slice(1, last), edges_ns[1 : last + 1]
    seconds = np.diff(edges_ns) * 1e-9
    quiet = busy_s(edges_ns) < LEAST_BUSY_CORES * seconds
    quiet &= True if valid is None else valid[which]
    energy_j, seconds = energy_j[which][quiet], seconds[quiet]
    total_s = float(seconds.sum())
    if total_s < LEAST_IDLE_S:
        return None
    watts = float(energy_j.sum()) / total_s
    return IdlePower(watts, float(np.sqrt(((energy_j - watts * seconds) ** 2).sum())) / total_s)


def _first_sample_ns(trace: Trace) -> int:
    parts = (thread.stream.read_part(thread.dtype, 0, 1) for thread in trace.threads if thread.count)
    return min((int(part["t_ns"][0]) for part in parts if len(part)), default=trace.start_ns)
