"""Changes to a roofline: a cap on power, and more work for less traffic (equation 10).

The paper leaves the cap open (its section V-B). The assumption here: joules a flop and a byte stay as they are, and a
machine that would draw more than its cap is slowed until constant power and the rest make up just the cap. Time is
then the longest of three: T = max(W tau_flop, Q tau_mem, (W eps_flop + Q eps_mem) / (cap - pi0)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tprof.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .roofline import Floats, Machine


def capped_time_s(
    machine: Machine, flops: ArrayLike, traffic_bytes: ArrayLike, cap_w: ArrayLike | None = None
) -> Floats:
    """Return seconds under a cap.

    Parameters
    ----------
    machine
        With energies.
    flops, traffic_bytes
        As for `Machine.time_s`.
    cap_w
        Watts, broadcast with the others; by default the machine's own.

    Raises
    ------
    UsageError
        If there is no cap, or one that constant power alone reaches.
    """
    limit_w = _left_w(machine, cap_w)
    return np.maximum(machine.time_s(flops, traffic_bytes), machine.dynamic_j(flops, traffic_bytes) / limit_w)


def capped_energy_j(
    machine: Machine, flops: ArrayLike, traffic_bytes: ArrayLike, cap_w: ArrayLike | None = None
) -> Floats:
    """Return joules under a cap: slower work uses constant power for longer."""
    constant_j = machine.pi0_w * capped_time_s(machine, flops, traffic_bytes, cap_w)
    return machine.dynamic_j(flops, traffic_bytes) + constant_j


def capped_flops_per_s(machine: Machine, intensity: ArrayLike, cap_w: ArrayLike | None = None) -> Floats:
    """Return the roofline under a cap."""
    at = np.asarray(intensity, float)
    return np.asarray(at / capped_time_s(machine, at, 1.0, cap_w))


def capped_power_w(machine: Machine, intensity: ArrayLike, cap_w: ArrayLike | None = None) -> Floats:
    """Return the power line under a cap, watts; nowhere above it."""
    at = np.asarray(intensity, float)
    return np.asarray(capped_energy_j(machine, at, 1.0, cap_w) / capped_time_s(machine, at, 1.0, cap_w))


def _left_w(machine: Machine, cap_w: ArrayLike | None) -> Floats:
    """Return the watts that a cap leaves for flops and traffic."""
    if cap_w is None and machine.cap_w is None:
        raise UsageError(f"{machine.name} has no power cap: give one in watts")
    cap = np.asarray(machine.cap_w if cap_w is None else cap_w, float)
    if not (cap > machine.pi0_w).all():
        raise UsageError(
            f"a cap must be above the constant power of {machine.name}, {machine.pi0_w:g} W, or nothing is ever done; "
            f"got {cap.min():g} W"
        )
    return np.asarray(cap - machine.pi0_w)


@dataclass(frozen=True)
class Trade:
    """The gain of f times the work for m times less traffic.

    Attributes
    ----------
    speedup : time before over time after.
    greenup : energy before over energy after.
    """

    speedup: Floats
    greenup: Floats


def trade(machine: Machine, intensity: ArrayLike, *, work: ArrayLike, traffic: ArrayLike) -> Trade:
    """Compare an algorithm with one that does `work` times its flops and moves `traffic` times fewer bytes.

    Parameters
    ----------
    machine
        With energies.
    intensity
        Of the algorithm before, flops a byte.
    work, traffic
        The paper's f and m.

    Returns
    -------
    Trade
        Each of the broadcast shape.
    """
    before = np.asarray(intensity, float)
    more, less = np.asarray(work, float), np.asarray(traffic, float)
    flops, after = before, (more * before, 1 / less)
    return Trade(
        machine.time_s(flops, 1.0) / machine.time_s(*after),
        machine.energy_j(flops, 1.0) / machine.energy_j(*after),
    )


def speedup(machine: Machine, intensity: ArrayLike, *, work: ArrayLike, traffic: ArrayLike) -> Floats:
    """Return the speedup alone, which needs no energies."""
    before = np.asarray(intensity, float)
    after_s = machine.time_s(np.asarray(work, float) * before, 1 / np.asarray(traffic, float))
    return np.asarray(machine.time_s(before, 1.0) / after_s)


def most_work(machine: Machine, intensity: ArrayLike, *, traffic: ArrayLike) -> Floats:
    """Return the f below which a trade is a greenup where constant power is 0 (equation 10 as derived).

    f < 1 + (m - 1)/m * B_eps/I. With constant power `trade` compares energies instead.
    """
    less = np.asarray(traffic, float)
    return np.asarray(1 + (less - 1) / less * machine.energy_balance / np.asarray(intensity, float))
