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
from .quanta import GPU
from .sharing import static_watts

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    found = {}
    for one in recorded:
        if one.name in given_w or one.quality == Quality.ESTIMATED or not len(one):
            continue
        if one.scope == GPU:
            lead = one.between(int(one.edges_ns[0]), max(trace.start_ns, int(one.edges_ns[0])))[0]
            found[one.name] = idle_power(lead.edges_ns, lead.energy_j, lead.valid)
        else:
            leads = (one.part(slice(0, quanta_before(one.edges_ns, end_ns))) for end_ns in ends_ns)
            powers = (idle_power(lead.edges_ns, lead.energy_j, _quiet(lead, trace)) for lead in leads)
            found[one.name] = next(filter(None, powers), None)
    return {name: power for name, power in found.items() if power is not None}


def quanta_before(edges_ns: Times, t_ns: int) -> int:
    """Return how many quanta are surely before a time; the one that ends last may have joules of what comes next."""
    return max(int(np.searchsorted(edges_ns, t_ns, side="right")) - 2, 0)


def is_quiet(edges_ns: Times, busy_s: Floats) -> NDArray[np.bool_]:
    """Return in which quanta, (k,), hardly any process was busy, from the CPU seconds of all in each."""
    return np.asarray(busy_s < LEAST_BUSY_CORES * np.diff(edges_ns) * 1e-9)


def idle_power(edges_ns: Times, energy_j: Floats, quiet: NDArray[np.bool_]) -> IdlePower | None:
    """Return the mean power of quiet quanta, (k,); None if they are too short.

    The first quantum is left out, since it has joules of before the first reading.
    """
    seconds, energy_j = np.diff(edges_ns)[1:][quiet[1:]] * 1e-9, energy_j[1:][quiet[1:]]
    total_s = float(seconds.sum())
    if total_s < LEAST_IDLE_S:
        return None
    watts = float(energy_j.sum()) / total_s
    return IdlePower(watts, float(np.sqrt(((energy_j - watts * seconds) ** 2).sum())) / total_s)


def _quiet(lead: Quanta, trace: Trace) -> NDArray[np.bool_]:
    return lead.valid & is_quiet(lead.edges_ns, machine_busy_s(trace.readings.values(), lead.edges_ns))


def _first_sample_ns(trace: Trace) -> int:
    parts = (thread.stream.read_part(thread.dtype, 0, 1) for thread in trace.threads if thread.count)
    return min((int(part["t_ns"][0]) for part in parts if len(part)), default=trace.start_ns)
