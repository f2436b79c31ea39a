"""What a power model is: modelled energy of segments, in joules or, for the ratio models, in any unit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from tprof.analysis.segments import Segments


class Model(ABC):
    """A power model.

    A model sees one thread's segments at a time and returns (n,) float64 modelled energies, not negative. A
    segment whose counters are missing gets NaN; the attribution then takes the mean power of the others, and
    where there are none, running time.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Counter columns the model needs."""

    @abstractmethod
    def energy(self, segments: Segments) -> npt.NDArray[np.float64]:
        """Return the modelled energy of each segment."""

    @property
    def package_w(self) -> float | None:
        """Static watts of a package, where the model knows them."""
        return None

    def describe(self) -> dict[str, Any]:
        """Return the coefficients, for `Profile.info`."""
        return {}


def per_cycle(segments: Segments, column: str) -> npt.NDArray[np.float64]:
    """Return a counter per cycle of each segment; NaN where no cycle was counted."""
    cycles = segments.counters["cycles"]
    return np.divide(segments.counters[column], cycles, out=np.full(len(cycles), np.nan), where=cycles > 0)
