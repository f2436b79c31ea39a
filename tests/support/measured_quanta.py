"""Quanta of one package, as a sensor's readings leave them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.attribution.quanta import Quanta

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MS = 1_000_000


def quanta(
    edges_ms: ArrayLike, windows_ms: list[float], energy_j: ArrayLike, valid: list[bool] | None = None
) -> Quanta:
    """Return quanta between edges, all but the outer of which lie anywhere in a window of their own."""
    energies = np.array(energy_j, float)
    return Quanta(
        name="package-0",
        scope="package",
        package=None,
        counted=True,
        quality="measured",
        edges_ns=np.round(np.array(edges_ms) * MS).astype(np.int64),
        energy_j=energies,
        valid=np.ones(len(energies), bool) if valid is None else np.array(valid),
        stuck=np.zeros(len(energies), bool),
        window_s=np.array([0.0, *windows_ms, 0.0]) * 1e-3,
        unit_j=1e-9,
        warnings=(),
    )


def consecutive(
    lengths_ms: list[float], windows_ms: list[float], energy_j: ArrayLike, valid: list[bool] | None = None
) -> Quanta:
    """Return quanta of these lengths, one after the other."""
    return quanta(np.concatenate(([0.0], np.cumsum(lengths_ms))), windows_ms, energy_j, valid)
