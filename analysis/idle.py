"""Static power from the recording itself: the power of the package while nothing ran.

A calibrated C2 holds for the frequency, voltage and temperature of the calibration. Idle time in the recording, for
example before the program started, gives a better value for this recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tprof.trace.bounds import LEAST_BUSY_CORES

if TYPE_CHECKING:
    from .load import Load

LEAST_S = 0.1


def idle_power_w(load: Load) -> float | None:
    """Return the mean power of idle quanta, or None if they last less than a tenth of a second in total."""
    quanta = load.quanta
    length_s = np.diff(quanta.edges_ns) * 1e-9
    busy_s = load.busy_s()[1:-1] + load.other_s + load.unseen_s
    idle = load.without_tasks()[1:-1] & (busy_s < LEAST_BUSY_CORES * length_s) & quanta.valid
    total_s = float(length_s[idle].sum())
    return float(quanta.energy_j[idle].sum()) / total_s if total_s >= LEAST_S else None
