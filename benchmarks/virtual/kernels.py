"""What a core can run: the paper's PolyBench kernels and the stress kernels that a calibration runs.

Every character is **invented**: instructions per cycle and traffic are what one would expect of such a loop on a core
like that of the paper's processor (Core i5-2500), and where the paper's table 3 gives a kernel's power the character is
one that leads near it. No figure here was measured. `mix` was drawn once, not chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Kernel:
    """A loop, alone on a core at the law's base frequency.

    Attributes
    ----------
    ipc : instructions per cycle.
    l2_gbs, llc_gbs : references times 64 bytes a second, GB/s.
    mix : how much more than usual an instruction of it takes, in standard deviations; no counter shows it.
    unseen_w : watts that no counter shows either; what `stated` tasks draw.
    """

    name: str
    ipc: float
    l2_gbs: float = 0.0
    llc_gbs: float = 0.0
    mix: float = 0.0
    unseen_w: float = 0.0


def _drawn(seed: int, characters: dict[str, tuple[float, float, float]]) -> tuple[Kernel, ...]:
    """Give each kernel a mix from the standard normal distribution, in order."""
    scores = np.random.default_rng(seed).standard_normal(len(characters))
    return tuple(
        Kernel(name, *character, mix=float(score))
        for (name, character), score in zip(characters.items(), scores, strict=True)
    )


POLYBENCH = _drawn(
    4,
    {
        "gemm": (1.90, 6.0, 1.2),
        "jacobi1d": (2.60, 12.0, 2.2),
        "jacobi2d": (1.70, 11.0, 3.6),
        "fdtd2d": (1.50, 10.0, 4.8),
        "seidel2d": (0.80, 1.5, 0.5),
        "mm2": (0.60, 3.0, 0.9),
        "mm3": (0.65, 3.2, 1.0),
        "adi": (0.30, 1.2, 0.6),
        "correlation": (1.05, 5.0, 1.6),
        "covariance": (1.00, 5.0, 1.5),
        "symm": (0.75, 3.5, 1.1),
        "gemver": (0.95, 6.5, 4.0),
        "mvt": (0.85, 6.0, 3.8),
        "syrk": (1.60, 5.0, 0.9),
        "trmm": (1.40, 5.5, 1.3),
        "atax": (0.75, 4.5, 2.0),
        "bicg": (0.65, 4.0, 1.8),
    },
)
"""The fifteen kernels of the paper's table 2, then atax and bicg, which table 3 runs too."""

STRESS = _drawn(
    1,
    {
        "pipeline wide": (3.30, 0.1, 0.0),
        "pipeline half": (2.00, 0.1, 0.0),
        "pipeline chain": (1.00, 0.1, 0.0),
        "pipeline divide": (0.30, 0.1, 0.0),
        "L2 stream": (1.80, 24.0, 0.2),
        "L2 half": (1.90, 12.0, 0.2),
        "L2 chase": (0.40, 6.0, 0.1),
        "LLC stream": (1.20, 13.0, 9.0),
        "LLC half": (1.50, 7.0, 4.5),
        "LLC chase": (0.20, 2.5, 2.2),
        "memory stream": (0.60, 7.0, 6.0),
        "memory chase": (0.10, 0.8, 0.8),
    },
)
"""What a calibration runs: each part of the core at several intensities; none is among the validated kernels."""


def kernel(name: str) -> Kernel:
    """Return a PolyBench kernel by its name."""
    return next(one for one in POLYBENCH if one.name == name)


def redrawn(kernels: tuple[Kernel, ...], random: np.random.Generator) -> tuple[Kernel, ...]:
    """Return the kernels with other mixes: how much a result owes to those that were drawn."""
    return tuple(replace(one, mix=float(random.standard_normal())) for one in kernels)
