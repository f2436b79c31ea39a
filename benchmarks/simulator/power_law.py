"""What a core does and draws: kernels, and a law of power that no linear model of counters matches exactly.

Every character of a kernel is **invented**: instructions per cycle and traffic are what one would expect of such a loop
on a core like that of the paper's processor (Core i5-2500), and where the paper's table 3 gives a kernel's power the
character is one that leads near it. No figure here was measured. `mix` was drawn once, not chosen.

The law's coefficients are the paper's (table 1, at 3.3 GHz). What makes it non-linear was chosen from what processors
are known to do, before any model was compared with it:

- **Time.** A part of a kernel's cycles waits for memory, ``memory = llc / (llc + 10 GB/s)`` at the base frequency
  f0. The rest goes with the frequency f; the waiting does not, but it grows with the other cores' traffic to the
  shared cache: ``rate = 1 / ((1 - memory) f0/f + memory (1 + contention * others / limit))``. Instructions and traffic
  go with the rate, cycles with f.
- **Power of a core**, with ``v = V(f) / V(f0)``, V linear in f:
  ``v² [f/f0 (C1 (1 - gating * waiting) + a (1 + scatter * mix) IPC + unseen) + b L2 + c LLC]``.
  Dynamic power goes with V² f: at the same IPC all of it does, since traffic goes with f too. A waiting core gates a
  part of its clock; an instruction of one kernel takes more than one of another.
- **Static power**, ``C2 v²`` at the set frequency, and as much as ``leak`` of each watt that has warmed the package,
  with a time constant.
- **Turbo.** If it is on and the base frequency is set, f depends on how many cores are busy.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.published import TABLES_HZ

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis import Coefficients

Floats = NDArray[np.float64]
LINE_GB = 64e-9
WIDTH = 4
"""Instructions that a core can issue in a cycle: where none is issued, the front end counts a stall."""
MEMORY_GBS = 10.0
COUNTERS = ("instructions", "cycles", "llc_misses", "l2_refs", "llc_refs", "stalls_frontend")


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
    """Return the kernels with other mixes: which shows how far a result depends on the mixes drawn."""
    return tuple(replace(one, mix=float(random.standard_normal())) for one in kernels)


def _table_1() -> Coefficients:
    from tprof.analysis import TABLE_1  # noqa: PLC0415 - half a second that a simulated machine's programs do without

    return TABLE_1


@dataclass(frozen=True)
class Law:
    """How cores behave.

    Attributes
    ----------
    static_w, core_w, ipc_w, l2_w, llc_w : C2, C1, a, b, c of equation 1 at the base frequency.
    base_hz : where kernels have the character that is written down.
    turbo_hz : with 1, 2, … busy cores; the last for more.
    volts, volts_per_ghz : V at the base frequency, and by how much it rises; V² f at 1.6 GHz is 0.33 of that at
        3.3 GHz, as in the paper's tables 3 and 4.
    gating : part of C1 that a core saves while it waits for memory.
    contention, limit_gbs : by how much waiting grows when the others take `limit_gbs` from the shared cache.
    scatter : standard deviation of the energy of an instruction between kernels.
    leak, warm_s : static watts for each watt that has warmed the package, and how long warming takes.
    """

    static_w: float = field(default_factory=lambda: _table_1().c2)
    core_w: float = field(default_factory=lambda: _table_1().c1)
    ipc_w: float = field(default_factory=lambda: _table_1().a)
    l2_w: float = field(default_factory=lambda: _table_1().b)
    llc_w: float = field(default_factory=lambda: _table_1().c)
    base_hz: float = float(TABLES_HZ)
    turbo_hz: tuple[float, ...] = (3.7e9, 3.6e9, 3.5e9, 3.4e9)
    volts: float = 1.10
    volts_per_ghz: float = 0.112
    gating: float = 0.15
    contention: float = 1.0
    limit_gbs: float = 30.0
    scatter: float = 0.10
    leak: float = 0.025
    warm_s: float = 5.0

    def voltage(self, hz: Floats | float) -> Floats:
        """Return V(f) over V at the base frequency."""
        return np.asarray(1 + self.volts_per_ghz * (np.asarray(hz) - self.base_hz) * 1e-9 / self.volts)

    def frequency_hz(self, busy: NDArray[np.int64], set_hz: float, *, turbo: bool) -> Floats:
        """Return the frequency with so many busy cores."""
        if not turbo or set_hz < self.base_hz:
            return np.full(len(busy), set_hz)
        return np.array(self.turbo_hz)[np.clip(busy, 1, len(self.turbo_hz)) - 1]

    def static_at_w(self, set_hz: float) -> float:
        """Return the static watts of a cold package."""
        return float(self.static_w * self.voltage(set_hz) ** 2)


STATED = Law(static_w=10.0, core_w=0.0, ipc_w=0.0, l2_w=0.0, llc_w=0.0, gating=0.0, contention=0.0, leak=0.0)
"""A linear law: a core draws the watts stated for its kernel, above 10 W static."""


@dataclass(frozen=True)
class Rates:
    """What a core does each second; (n,) each."""

    power_w: Floats
    instructions: Floats
    cycles: Floats
    l2_refs: Floats
    llc_refs: Floats
    llc_misses: Floats
    stalls_frontend: Floats


def demand_gbs(law: Law, kernels: Sequence[Kernel], number: NDArray[np.int64], hz: Floats) -> Floats:
    """Return the traffic to the shared cache that each would make alone: (n,), 0 where nothing runs (-1)."""
    llc = _characters(kernels, "llc_gbs")
    return np.asarray(np.append(llc, 0.0)[number] * _speed(law, np.append(llc, 0.0)[number], hz, np.ones(len(hz))))


def rates(law: Law, kernels: Sequence[Kernel], number: NDArray[np.int64], hz: Floats, others_gbs: Floats) -> Rates:
    """Return what cores do.

    Parameters
    ----------
    kernels, number
        What can run, and which of it does: (n,), -1 nothing.
    hz
        (n,) frequency.
    others_gbs
        (n,) traffic of the other cores to the shared cache.
    """
    ipc, l2, llc, mix, unseen = (
        np.append(_characters(kernels, name), 0.0)[number] for name in ("ipc", "l2_gbs", "llc_gbs", "mix", "unseen_w")
    )
    running = number >= 0
    stretch = 1 + law.contention * others_gbs / law.limit_gbs
    speed = _speed(law, llc, hz, stretch)
    cycles = hz * running
    instructions = ipc * law.base_hz * speed
    done = np.divide(instructions, hz)
    waiting = _memory(llc) * stretch * speed
    clocked = law.core_w * (1 - law.gating * waiting) * running + law.ipc_w * (1 + law.scatter * mix) * done + unseen
    traffic = (law.l2_w * l2 + law.llc_w * llc) * speed
    return Rates(
        power_w=law.voltage(hz) ** 2 * (hz / law.base_hz * clocked + traffic),
        instructions=instructions,
        cycles=cycles,
        l2_refs=l2 * speed / LINE_GB,
        llc_refs=llc * speed / LINE_GB,
        llc_misses=(0.05 + 0.5 * _memory(llc)) * llc * speed / LINE_GB,
        stalls_frontend=cycles * np.maximum(1 - done / WIDTH, 0.05),
    )


def _characters(kernels: Sequence[Kernel], name: str) -> Floats:
    return np.array([getattr(kernel, name) for kernel in kernels])


def _memory(llc_gbs: Floats) -> Floats:
    return np.asarray(llc_gbs / (llc_gbs + MEMORY_GBS))


def _speed(law: Law, llc_gbs: Floats, hz: Floats, stretch: Floats) -> Floats:
    """Return the rate of work against that alone at the base frequency."""
    memory = _memory(llc_gbs)
    return np.asarray(1 / ((1 - memory) * law.base_hz / hz + memory * stretch))
