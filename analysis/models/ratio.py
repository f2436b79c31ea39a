"""`ipc` and `fesc` (TProf paper, 3.4): one ratio of the pipeline's activity, no calibration.

The paper divides a core's part of the energy in proportion to instructions per cycle, or to front-end stalled
cycles per cycle; it finds the second to fit power better. Both are ratios over active cycles, so a segment's
modelled energy is its ratio times its running time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .contract import Model, per_cycle

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tprof.analysis.segments import Segments


class Ipc(Model):
    """Energy in proportion to instructions per cycle times running time."""

    name: ClassVar[str] = "ipc"
    columns = ("instructions", "cycles")

    def energy(self, segments: Segments) -> npt.NDArray[np.float64]:
        """Return IPC times seconds; NaN where no cycles were counted."""
        return per_cycle(segments, "instructions") * segments.running_s


class Fesc(Model):
    """Energy in proportion to front-end stalled cycles per cycle times running time."""

    name: ClassVar[str] = "fesc"
    columns = ("stalls_frontend", "cycles")

    def energy(self, segments: Segments) -> npt.NDArray[np.float64]:
        """Return FESC times seconds; NaN where no cycles were counted."""
        return per_cycle(segments, "stalls_frontend") * segments.running_s
