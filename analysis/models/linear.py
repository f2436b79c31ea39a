"""`linear` (TProf paper, equation 1): a*IPC + b*L2 + c*LLC + C1 on a core's active time, C2 per package.

L2 and LLC are traffic in GB/s at 64 bytes a reference. C2 is the package's own static power and is not shared by
the model (table 3 of the paper leaves it out; see the corrections).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tprof.errors import UsageError

from .contract import Model, per_cycle

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tprof.analysis.segments import Segments

LINE_BYTES = 64


@dataclass(frozen=True)
class Coefficients:
    """Equation (1): a in W per IPC, b and c in W per GB/s, C1 in W per active core, C2 in W per package."""

    a: float
    b: float
    c: float
    C1: float
    C2: float


NAMED = {"tprof-table1": Coefficients(a=1.10, b=0.08, c=0.19, C1=8.00, C2=5.20)}
"""Published coefficients by name. tprof-table1: table 1 of the paper, an Intel Core i5-2500 at 3.3 GHz."""


class Linear(Model):
    """A calibrated linear model."""

    name: ClassVar[str] = "linear"

    def __init__(self, coefficients: Coefficients) -> None:
        """Take the coefficients."""
        self.coefficients = coefficients

    @property
    def columns(self) -> tuple[str, ...]:
        """Counters of the terms whose coefficient is not zero."""
        k = self.coefficients
        needed = [("instructions", k.a), ("cycles", k.a), ("l2_refs", k.b), ("llc_refs", k.c)]
        return tuple(name for name, factor in needed if factor != 0)

    @property
    def package_w(self) -> float | None:
        """Return C2."""
        return self.coefficients.C2

    def energy(self, segments: Segments) -> npt.NDArray[np.float64]:
        """Return joules; what the model makes negative is 0."""
        k = self.coefficients
        energy_j = k.C1 * segments.running_s
        if k.a:
            energy_j = energy_j + k.a * per_cycle(segments, "instructions") * segments.running_s
        for name, watts_per_gb_s in (("l2_refs", k.b), ("llc_refs", k.c)):
            if watts_per_gb_s:
                energy_j = energy_j + watts_per_gb_s * segments.counters[name] * LINE_BYTES * 1e-9
        return np.maximum(energy_j, 0.0)

    def describe(self) -> dict[str, Any]:
        """Return the coefficients."""
        return asdict(self.coefficients)


def parse_coefficients(given: str | Mapping[str, float] | Coefficients) -> Coefficients:
    """Return coefficients from a name in `NAMED` or a mapping with a, b, c, C1 and C2. Raises UsageError."""
    if isinstance(given, Coefficients):
        return given
    if isinstance(given, str):
        if given not in NAMED:
            message = f"coefficients must be one of {', '.join(NAMED)} or a mapping with a, b, c, C1, C2, got {given!r}"
            raise UsageError(message)
        return NAMED[given]
    wanted = set(Coefficients.__dataclass_fields__)
    if set(given) != wanted:
        message = f"coefficients need exactly a, b, c, C1 and C2, got {', '.join(map(str, given)) or 'none'}"
        raise UsageError(message)
    values = {name: float(value) for name, value in given.items()}
    if not all(math.isfinite(value) for value in values.values()):
        message = f"coefficients must be finite, got {values}"
        raise UsageError(message)
    return Coefficients(**values)
