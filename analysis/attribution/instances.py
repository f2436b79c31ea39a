"""Instances that have ended, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Ended:
    """Some instances.

    Attributes
    ----------
    records : (rows,) of `INSTANCE`
    counts : (rows,) each, of counters by name
    joules : (rows,) each: dynamic_j, static_j; low_j and high_j, by how much less or more the instance may have drawn;
        covered, whether a valid quantum holds it; if native threads are followed, those of `NATIVE`; if GPUs are,
        gpu_j, gpu_low_j and gpu_high_j, which are in no other
    has_packages : whether the machine has more than one package, so that records say which
    """

    records: np.ndarray[Any, np.dtype[np.void]]
    counts: dict[str, NDArray[np.float64]]
    joules: dict[str, NDArray[Any]]
    has_packages: bool

    def __len__(self) -> int:
        return len(self.records)

    def column(self, name: str) -> NDArray[Any]:
        """Return a field of all records, contiguous."""
        return np.ascontiguousarray(self.records[name])

    def copy(self) -> Ended:
        """Return the same, whose joules may be changed."""
        return Ended(
            self.records, self.counts, {name: values.copy() for name, values in self.joules.items()}, self.has_packages
        )
