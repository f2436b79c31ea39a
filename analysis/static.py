"""Static energy: evenly over the cores that run in a quantum, within a core by running time.

A table of cores by quanta holds who ran where; where it would be larger than `LARGEST_TABLE`, static energy is
shared by running time alone, which is the same wherever all cores are busy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .attribution import Density, sum_per_quantum

if TYPE_CHECKING:
    import numpy.typing as npt

    from .attribution import Placement
    from .segments import Segments

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

LARGEST_TABLE = 16_000_000


class CoreTime:
    """Running time of each core in each quantum."""

    def __init__(self, quanta_ns: Integers) -> None:
        """Begin with none."""
        self.quanta_ns = quanta_ns
        self._cores: dict[int, Floats] = {}
        self._one_table = False

    def add(self, placement: Placement, segments: Segments, amount: Floats) -> None:
        """Add a thread's running time, (n,) seconds that this domain covers."""
        for core in np.flatnonzero(np.bincount(segments.cpu, minlength=1)):
            on_core = amount if not (segments.cpu != core).any() else np.where(segments.cpu == core, amount, 0.0)
            self._add(int(core), sum_per_quantum(placement, on_core, self.quanta_ns))

    def _add(self, core: int, seconds: Floats) -> None:
        if not self._one_table and (len(self._cores) + 1) * len(seconds) > LARGEST_TABLE:
            self._one_table = True
            self._cores = {0: np.sum(list(self._cores.values()), axis=0)} if self._cores else {}
        key = 0 if self._one_table else core
        if key in self._cores:
            self._cores[key] += seconds
        else:
            self._cores[key] = seconds

    def densities(self, static_j: Floats, extra_cores: Floats) -> tuple[dict[int, Density], Floats]:
        """Return joules per running second on each core, and what is left for the rest.

        Parameters
        ----------
        static_j
            (q,) static energy of each quantum.
        extra_cores
            (q,) cores' worth of time of other programs and unseen threads.

        Returns
        -------
        by_core : core to `Density`.
        per_extra_core_j : (q,) static energy of each extra core; what is nobody's stays out.
        """
        running = np.zeros(len(static_j))
        for seconds in self._cores.values():
            running += seconds > 0
        running += extra_cores
        each_j = np.divide(static_j, running, out=np.zeros(len(static_j)), where=running > 0)
        by_core = {
            core: Density.of(np.divide(each_j, seconds, out=np.zeros(len(seconds)), where=seconds > 0), self.quanta_ns)
            for core, seconds in self._cores.items()
        }
        return by_core, each_j

    def core_of(self, cpu: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
        """Return the key under which a segment's core stands in the table."""
        return np.zeros_like(cpu) if self._one_table else cpu
