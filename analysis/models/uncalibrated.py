"""Models without calibration: CPU time alone, or times one ratio of counters (paper, section 3.4).

The paper divides a package's energy among cores in proportion to one metric: instructions per
cycle, or front-end stalled cycles per cycle (FESC). It calls the first a relatively good linear
fit of power and the second a better one. As in the paper, FESC is proportional to the stalled
share, with the same limit: the meaning of the event differs between processors. CPU time needs
no counters: a busy core draws the same whatever it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

IPC_COLUMNS = ("instructions", "cycles")
FESC_COLUMNS = ("stalls_frontend", "cycles")
Floats = NDArray[np.float64]


def cputime(_counts: Mapping[str, Floats], cpu_s: Floats) -> Floats:
    """Return CPU seconds: (n,) float64; watts per busy core cancel when a quantum is shared."""
    return cpu_s


def ipc(counts: Mapping[str, Floats], cpu_s: Floats) -> Floats:
    """Return instructions per cycle times CPU seconds, 0 where no cycle was counted."""
    return _ratio(counts["instructions"], counts["cycles"]) * cpu_s


def fesc(counts: Mapping[str, Floats], cpu_s: Floats) -> Floats:
    """Return front-end stalled cycles per cycle times CPU seconds, 0 where no cycle was counted."""
    return _ratio(counts["stalls_frontend"], counts["cycles"]) * cpu_s


def _ratio(counts: Floats, cycles: Floats) -> Floats:
    return np.divide(counts, cycles, out=np.zeros_like(cycles), where=cycles > 0)
