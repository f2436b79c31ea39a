"""The data of a calibration: the package's power and its cores' counters, one row per run."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Observations:
    """The columns of equation 1 (TProf), summed over the active cores; all (n,).

    Attributes
    ----------
    power_w : of the package.
    active_cores : number of running cores; a core that ran half of the time counts as half.
    ipc : sum of the active cores' instructions per cycle, each weighted by the part of the time it was active, since
        an idle core has no IPC.
    l2_gbs, llc_gbs : references times 64 bytes a second, GB/s.
    kernel : (n,) str; cross-validation leaves out a whole kernel at a time.
    hz : mean frequency of the active cores; NaN where it is not known.
    """

    power_w: Floats
    active_cores: Floats
    ipc: Floats
    l2_gbs: Floats
    llc_gbs: Floats
    kernel: NDArray[np.str_]
    hz: Floats

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.power_w)

    def where(self, kept: NDArray[np.bool_]) -> Observations:
        """Return the selected runs."""
        return Observations(*(getattr(self, field.name)[kept] for field in fields(self)))
