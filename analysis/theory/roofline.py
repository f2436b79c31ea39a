"""The roofline of energy: time, energy and power of work and traffic on a machine.

Choi, Bedard, Fowler and Vuduc, "A Roofline Model of Energy" (IPDPS 2013); numbers of equations are that paper's. An
algorithm is W flops and Q bytes between slow and fast memory, its intensity I = W/Q. Time overlaps (1), energy does
not (2), and a constant power burns all the while (4). Everything broadcasts: flops, bytes and intensities may be
arrays, and every call costs O(their size).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tprof.errors import UsageError
from tprof.trace.plain_values import is_finite, shown

from .machine_files import check_range

Floats = NDArray[np.float64]
PRECISIONS = ("single", "double")


@dataclass(frozen=True)
class Machine:
    """A machine as few numbers, looked at in one precision.

    Attributes
    ----------
    name : of the machine.
    tau_mem_s : seconds a byte between slow and fast memory, throughput.
    tau_single_s, tau_double_s : seconds a flop; None where that precision is not known.
    eps_mem_j : joules a byte; None where energies are not known.
    eps_single_j, eps_double_j : joules a flop; None where not known.
    pi0_w : constant power, watts.
    cap_w : the power it may draw at most, watts; None: no limit. `roofline_cap` says what it does to performance.
    caches : of each level above memory, its name and joules a byte (the paper's FMM refinement has 187e-12).
    precision : "single" or "double", which flops are meant.

    Raises
    ------
    UsageError
        If a number is not one, or is negative, or what the precision needs is missing.
    """

    name: str
    tau_mem_s: float
    tau_single_s: float | None = None
    tau_double_s: float | None = None
    eps_mem_j: float | None = None
    eps_single_j: float | None = None
    eps_double_j: float | None = None
    pi0_w: float = 0.0
    cap_w: float | None = None
    caches: tuple[tuple[str, float], ...] = ()
    precision: str = "double"

    def __post_init__(self) -> None:
        """Reject invalid constants."""
        _check(self)

    def at(self, precision: str) -> Machine:
        """Return the same machine, looked at in "single" or "double" precision."""
        return replace(self, precision=precision)

    @property
    def precisions(self) -> tuple[str, ...]:
        """In which it is known."""
        return tuple(one for one in PRECISIONS if getattr(self, f"tau_{one}_s") is not None)

    @property
    def has_energy(self) -> bool:
        """Whether joules a flop and a byte are known in this precision."""
        return self.eps_mem_j is not None and getattr(self, f"eps_{self.precision}_j") is not None

    @property
    def tau_flop_s(self) -> float:
        """Seconds a flop."""
        return float(getattr(self, f"tau_{self.precision}_s"))

    @property
    def eps_flop_j(self) -> float:
        """Joules a flop, without constant power."""
        return self._energy(getattr(self, f"eps_{self.precision}_j"))

    @property
    def eps_byte_j(self) -> float:
        """Joules a byte, without constant power."""
        return self._energy(self.eps_mem_j)

    @property
    def eps0_j(self) -> float:
        """Joules of constant power in the time of a flop."""
        return self.pi0_w * self.tau_flop_s

    @property
    def eps_flop_hat_j(self) -> float:
        """Total joules of a flop that does not wait for memory."""
        return self.eps_flop_j + self.eps0_j

    @property
    def eta_flop(self) -> float:
        """Part of `eps_flop_hat_j` without constant power."""
        return self.eps_flop_j / self.eps_flop_hat_j

    @property
    def pi_flop_w(self) -> float:
        """Watts of flops at full rate, without constant power."""
        return self.eps_flop_j / self.tau_flop_s

    @property
    def time_balance(self) -> float:
        """Flops a byte from which on time goes into flops (B_tau)."""
        return self.tau_mem_s / self.tau_flop_s

    @property
    def energy_balance(self) -> float:
        """Flops a byte from which on energy goes into flops, without constant power (B_eps)."""
        return self.eps_byte_j / self.eps_flop_j

    @property
    def balance_gap(self) -> float:
        """B_eps over B_tau: above 1, to save energy is harder than to save time."""
        return self.energy_balance / self.time_balance

    @property
    def half_efficiency(self) -> float:
        """Intensity at which half of the best flops a joule are reached: the solution of I = effective balance of I."""
        eta, balance = self.eta_flop, self.time_balance
        above = eta * self.energy_balance
        return above if above >= balance else (above + (1 - eta) * balance) / (2 - eta)

    @property
    def race_to_halt(self) -> bool:
        """Whether work bound by flops in time is also within a factor of two of the best energy."""
        return self.half_efficiency <= self.time_balance

    @property
    def most_flops_per_j(self) -> float:
        """Flops a joule at high intensity."""
        return 1 / self.eps_flop_hat_j

    @property
    def most_power_w(self) -> float:
        """Watts at I = B_tau, where both flops and memory are busy all the time (8), a cap ignored."""
        return self.pi_flop_w * (1 + self.balance_gap) + self.pi0_w

    @property
    def compute_power_w(self) -> float:
        """Watts at high intensity."""
        return self.pi_flop_w + self.pi0_w

    @property
    def memory_power_w(self) -> float:
        """Watts at low intensity."""
        return self.pi_flop_w * self.balance_gap + self.pi0_w

    def time_s(self, flops: ArrayLike, traffic_bytes: ArrayLike) -> Floats:
        """Return seconds (1, 3): flops and traffic overlap wholly."""
        work, traffic = np.asarray(flops, float), np.asarray(traffic_bytes, float)
        return np.maximum(work * self.tau_flop_s, traffic * self.tau_mem_s)

    def dynamic_j(
        self, flops: ArrayLike, traffic_bytes: ArrayLike, cache_bytes: dict[str, ArrayLike] | None = None
    ) -> Floats:
        """Return joules of flops and traffic alone; `cache_bytes` by level adds the energy of caches.

        Raises
        ------
        UsageError
            If a level is not one of the machine's, or its energies are not known.
        """
        energy_j = np.asarray(flops, float) * self.eps_flop_j + np.asarray(traffic_bytes, float) * self.eps_byte_j
        known = dict(self.caches)
        for level, count in (cache_bytes or {}).items():
            if level not in known:
                raise UsageError(f"{self.name} has no cache {level!r}: it has {', '.join(known) or 'none'}")
            energy_j = energy_j + np.asarray(count, float) * known[level]
        return np.asarray(energy_j)

    def energy_j(
        self, flops: ArrayLike, traffic_bytes: ArrayLike, cache_bytes: dict[str, ArrayLike] | None = None
    ) -> Floats:
        """Return joules (2, 4): flops, traffic, caches, and constant power over the time."""
        constant_j = self.pi0_w * self.time_s(flops, traffic_bytes)
        return self.dynamic_j(flops, traffic_bytes, cache_bytes) + constant_j

    def power_w(self, flops: ArrayLike, traffic_bytes: ArrayLike) -> Floats:
        """Return mean watts: energy over time."""
        return np.asarray(self.energy_j(flops, traffic_bytes) / self.time_s(flops, traffic_bytes))

    def flops_per_s(self, intensity: ArrayLike) -> Floats:
        """Return the roofline (3)."""
        return np.minimum(1.0, np.asarray(intensity, float) / self.time_balance) / self.tau_flop_s

    def effective_balance(self, intensity: ArrayLike) -> Floats:
        """Return the energy balance with constant power in it, flops a byte (6)."""
        waiting = np.maximum(0.0, self.time_balance - np.asarray(intensity, float))
        return np.asarray(self.eta_flop * self.energy_balance + (1 - self.eta_flop) * waiting)

    def flops_per_j(self, intensity: ArrayLike) -> Floats:
        """Return the arch line (5)."""
        penalty = 1 + self.effective_balance(intensity) / np.asarray(intensity, float)
        return np.asarray(1 / (self.eps_flop_hat_j * penalty))

    def power_at_w(self, intensity: ArrayLike) -> Floats:
        """Return the power line, watts (7)."""
        at, balance = np.asarray(intensity, float), self.time_balance
        parts = np.minimum(at, balance) / balance + self.effective_balance(at) / np.maximum(at, balance)
        return np.asarray(self.pi_flop_w / self.eta_flop * parts)

    def _energy(self, value: float | None) -> float:
        if value is None:
            raise UsageError(f"the energies of {self.name} are not known in {self.precision} precision: time only")
        return value


def _check(machine: Machine) -> None:
    if machine.precision not in PRECISIONS:
        raise UsageError(f'{machine.name}: precision must be "single" or "double", got {machine.precision!r}')
    positive = ("tau_mem_s", "tau_single_s", "tau_double_s", "eps_single_j", "eps_double_j", "cap_w")
    for name in (*positive, "eps_mem_j", "pi0_w"):
        value = getattr(machine, name)
        if value is not None:
            _check_number(f"{machine.name}: {name}", value, zero=name not in positive)
    for level, value in machine.caches:
        _check_number(f"{machine.name}: joules a byte of cache {level}", value, zero=True)
    if getattr(machine, f"tau_{machine.precision}_s") is None:
        known = " and ".join(machine.precisions) or "neither precision"
        raise UsageError(
            f"{machine.name}: seconds a flop in {machine.precision} precision (tau_{machine.precision}_s) are not "
            f"known; it has {known}"
        )


def _check_number(what: str, value: object, *, zero: bool) -> None:
    if not is_finite(value) or not (value >= 0 if zero else value > 0):
        raise UsageError(f"{what} must be a number {'of 0 or more' if zero else 'above 0'}, got {shown(value)}")
    check_range(what, value)
