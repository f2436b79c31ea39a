"""`cputime`: every busy core draws the same. It needs no counters, and cannot tell a hot loop from a waiting one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .contract import Model

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tprof.analysis.segments import Segments


class CpuTime(Model):
    """Energy in proportion to time on a processor."""

    name: ClassVar[str] = "cputime"
    columns = ()

    def energy(self, segments: Segments) -> npt.NDArray[np.float64]:
        """Return the running time, in seconds."""
        return segments.running_s
