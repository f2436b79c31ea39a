"""Joules of a trace that has none: watts of an idle machine and of each busy thread."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.sensors.estimate import estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

STEP_NS = 1_000_000
MOST_STEPS = 1_000_000
DOMAIN = "package-0"


@dataclass(frozen=True)
class Estimated:
    """An estimate.

    Attributes
    ----------
    t_ns, energy_j : cumulative joules of `DOMAIN`
    made_of : what the manifest says of its watts
    idle_w : of the machine
    note : where the watts come from
    """

    t_ns: NDArray[np.int64]
    energy_j: NDArray[np.float64]
    made_of: dict[str, Any]
    idle_w: float
    note: str


def estimated(running: Sequence[NDArray[np.int64]], watts: str | None, span_ns: tuple[int, int]) -> Estimated:
    """Estimate the joules of threads that each keep a processor busy while they run a slice.

    Parameters
    ----------
    running : of each thread, when it begins and ceases to run anything, in turn
    watts : "IDLE,PER_CORE"; None: those that are assumed for this machine
    span_ns : begin and end of the trace

    Raises
    ------
    UsageError
        If the watts are none.
    """
    choice = estimate(Path("/"), watts)
    made_of = choice.estimate
    if made_of is None:
        raise AssertionError("an estimate is made of watts")
    begin_ns, end_ns = span_ns
    step_ns = max(STEP_NS, (end_ns - begin_ns) // MOST_STEPS + 1)
    t_ns = np.unique(np.append(np.arange(begin_ns, end_ns, step_ns), end_ns))
    busy_ns = np.zeros(len(t_ns))
    for changes in running:
        ran_ns = np.diff(changes)
        ran_ns[1::2] = 0
        busy_ns += np.interp(t_ns, changes, np.concatenate(([0.0], np.cumsum(ran_ns))))
    energy_j = made_of.idle_w * (t_ns - begin_ns) * 1e-9 + made_of.per_core_w * busy_ns * 1e-9
    origin = "as given" if made_of.given else "assumed for the machine that imported it, not for the one that ran it"
    note = f"its energy is an ESTIMATE: {made_of.idle_w:g} W idle and {made_of.per_core_w:g} W a busy thread, {origin}"
    return Estimated(t_ns, energy_j, made_of.as_json(), made_of.idle_w, note)
