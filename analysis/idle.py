"""Static power as the recording itself shows it: what the package drew while nobody ran.

A calibrated C2 is that of the frequency, the voltage and the temperature of the calibration. Where the recording holds
idle time, as one that read the sensor before its program started does, that is nearer to the truth of this recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .load import Load

LEAST_S = 0.1
WAITING = 0.05
"""Of one core: with less CPU time than this nobody runs."""


def idle_power_w(load: Load) -> float | None:
    """Return the mean power of idle quanta, or None where they last less than a tenth of a second in all."""
    quanta = load.quanta
    length_s = np.diff(quanta.edges_ns) * 1e-9
    busy_s = load.busy_s()[1:-1] + load.other_s + load.unseen_s
    idle = load.without_tasks()[1:-1] & (busy_s < WAITING * length_s) & quanta.valid
    total_s = float(length_s[idle].sum())
    return float(quanta.energy_j[idle].sum()) / total_s if total_s >= LEAST_S else None
