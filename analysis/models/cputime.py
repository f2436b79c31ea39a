"""The model that needs no counters: a busy core draws the same whatever it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

COLUMNS: tuple[str, ...] = ()


def modelled(counts: Mapping[str, NDArray[np.float64]], cpu_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return CPU seconds: (n,) float64; watts per busy core cancel when a quantum is shared."""
    del counts
    return cpu_s
